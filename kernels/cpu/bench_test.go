package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"govllm/kernels"
	"govllm/kernels/cpu"
)

// The benchmarks use the shapes of a model of 135M parameters (SmolLM2): hidden
// 576, MLP 1536, 9 heads on 3 KV heads of 64. GOVLLM_CPU_ISA picks the level.

func open(b *testing.B) (kernels.Device, kernels.Queue) {
	b.Helper()
	dev, err := cpu.Open(kernels.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { dev.Close() })
	q, err := dev.NewQueue(1024)
	if err != nil {
		b.Fatal(err)
	}
	return dev, q
}

func check[T any](v T, err error) func(*testing.B) T {
	return func(b *testing.B) T {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
		return v
	}
}

func run(b *testing.B, q kernels.Queue) {
	b.Helper()
	if err := q.Sync(); err != nil {
		b.Fatal(err)
	}
}

// randomBytes are numbers near 1 in every type: an odd byte of 0x3c to 0x3f.
func randomBytes(n int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(rng.Uint32())
		if i%2 == 1 {
			p[i] = 0x3c + p[i]&3
		}
	}
	return p
}

// load fills an activation with values near 1.
func load(b *testing.B, dev kernels.Device, q kernels.Queue, rows, cols int) kernels.Activation {
	b.Helper()
	a := check(dev.NewActivation(rows, cols))(b)
	table := check(kernels.PackWeight(dev, kernels.F32, 1, cols, kernels.BF16, randomBytes(2*cols)))(b)
	ids := check(dev.NewInts(rows))(b)
	q.Upload(ids, make([]int32, rows))
	q.Embed(a, table, ids, 1, rows)
	run(b, q)
	return a
}

// readBandwidth returns GB/s of adding up 256 MiB on every core.
func readBandwidth() float64 {
	words := make([]uint64, 32<<20)
	for i := 0; i < len(words); i += 512 {
		words[i] = 1
	}
	n := runtime.NumCPU()
	best := time.Duration(1 << 62)
	for range 3 {
		start := time.Now()
		var wg sync.WaitGroup
		for t := range n {
			part := words[t*len(words)/n : (t+1)*len(words)/n]
			wg.Go(func() {
				var s0, s1, s2, s3 uint64
				for ; len(part) >= 8; part = part[8:] {
					s0 += part[0] + part[4]
					s1 += part[1] + part[5]
					s2 += part[2] + part[6]
					s3 += part[3] + part[7]
				}
				runtime.KeepAlive(s0 + s1 + s2 + s3)
			})
		}
		wg.Wait()
		best = min(best, time.Since(start))
	}
	return float64(len(words)) * 8 / best.Seconds() / 1e9
}

func BenchmarkLinear(b *testing.B) {
	for _, dt := range []kernels.DType{kernels.BF16, kernels.F32} {
		for _, c := range []struct{ n, k int }{{960, 576}, {3072, 576}, {576, 1536}, {49152, 576}} {
			for _, T := range []int{1, 4, 16, 64, 256} {
				b.Run(fmt.Sprintf("dtype=%v/N=%d/K=%d/T=%d", dt, c.n, c.k, T), func(b *testing.B) {
					benchLinear(b, dt, c.n, c.k, T)
				})
			}
		}
	}
}

// benchLinear goes through 128 MiB of weights in a step, so that they come from
// memory as in a model.
func benchLinear(b *testing.B, dt kernels.DType, n, k, T int) {
	dev, q := open(b)
	bytes := n * k * dt.Size()
	count := max(1, 128<<20/bytes)
	if T >= 64 {
		count = max(1, count/8)
	}
	src := randomBytes(n * k * 2)
	weights := make([]kernels.Weight, count)
	for i := range weights {
		weights[i] = check(kernels.PackWeight(dev, dt, n, k, kernels.BF16, src))(b)
	}
	x := load(b, dev, q, T, k)
	out := check(dev.NewActivation(T, n))(b)
	read := readBandwidth()
	b.ReportAllocs()
	for b.Loop() {
		for _, w := range weights {
			q.Linear(out, x, w, nil, false, T)
		}
		run(b, q)
	}
	perOp := b.Elapsed().Seconds() / float64(b.N*count)
	gbs := float64(bytes) / perOp / 1e9
	b.ReportMetric(perOp*1e6, "us/linear")
	b.ReportMetric(gbs, "GB/s")
	b.ReportMetric(gbs/read, "of-read")
	b.ReportMetric(2*float64(n)*float64(k)*float64(T)/perOp/1e9, "GFLOP/s")
}

// BenchmarkAttention is one layer: queries of a sequence each at the end of its
// context, in a bfloat16 cache.
func BenchmarkAttention(b *testing.B) {
	for _, c := range []struct{ seqs, queries, ctx int }{
		{1, 1, 256}, {1, 1, 4096}, {16, 1, 256}, {16, 1, 2048}, {1, 64, 64}, {1, 512, 512}, {1, 512, 4096},
	} {
		b.Run(fmt.Sprintf("seqs=%d/queries=%d/ctx=%d", c.seqs, c.queries, c.ctx), func(b *testing.B) {
			benchAttention(b, c.seqs, c.queries, c.ctx)
		})
	}
}

func benchAttention(b *testing.B, seqs, queries, ctx int) {
	const layers, heads, kvHeads, headDim, blockSize = 8, 9, 3, 64, 32
	dev, q := open(b)
	blocks := (ctx + blockSize - 1) / blockSize
	kv := check(dev.NewKVCache(kernels.KVShape{Layers: layers, NumBlocks: seqs*blocks + 1, BlockSize: blockSize,
		KVHeads: kvHeads, HeadDim: headDim, DType: kernels.BF16}))(b)
	shape := kernels.AttnShape{Heads: heads, KVHeads: kvHeads, HeadDim: headDim, Scale: 0.125}
	T := seqs * queries
	qkv := load(b, dev, q, max(T, ctx), (heads+2*kvHeads)*headDim)
	out := check(dev.NewActivation(T, heads*headDim))(b)
	upload := func(v []int32) kernels.Ints {
		d := check(dev.NewInts(len(v)))(b)
		q.Upload(d, v)
		return d
	}
	var start, lens, table, positions []int32
	start = append(start, 0)
	for s := range seqs {
		start = append(start, int32((s+1)*queries))
		lens = append(lens, int32(ctx))
		for i := range blocks {
			table = append(table, int32(1+i*seqs+s)) // interleaved
		}
	}
	for p := range ctx {
		positions = append(positions, int32(p))
	}
	pos := upload(positions)
	for s := range seqs {
		slots := make([]int32, ctx)
		for p := range slots {
			slots[p] = table[s*blocks+p/blockSize]*blockSize + int32(p%blockSize)
		}
		at := upload(slots)
		for l := range layers {
			q.RopeKVWrite(qkv, kv, l, pos, at, kernels.Rope{}, shape, nil, nil, 0, ctx)
		}
	}
	batch := kernels.Batch{NumSeqs: seqs, MaxBlocks: blocks, QueryStart: upload(start), SeqLens: upload(lens), BlockTable: upload(table)}
	run(b, q)
	b.ReportAllocs()
	for b.Loop() {
		for l := range layers {
			q.PagedAttention(out, qkv, kv, l, batch, shape, T)
		}
		run(b, q)
	}
	perLayer := b.Elapsed().Seconds() / float64(b.N*layers)
	seen := 0.0 // query, position pairs
	for i := range queries {
		seen += float64(seqs * (ctx - i))
	}
	b.ReportMetric(perLayer*1e6, "us/layer")
	b.ReportMetric(float64(seqs*ctx*kvHeads*headDim*2*2)/perLayer/1e9, "GB/s")
	b.ReportMetric(seen*heads*headDim*4/perLayer/1e9, "GFLOP/s")
}

func BenchmarkSample(b *testing.B) {
	for _, vocab := range []int{2000, 50_000, 150_000} {
		for _, c := range []struct {
			name string
			row  kernels.SamplingRow
		}{
			{"greedy", kernels.SamplingRow{TopP: 1}},
			{"plain", kernels.SamplingRow{Temperature: 1, TopP: 1}},
			{"top-k=20", kernels.SamplingRow{Temperature: 0.7, TopP: 1, TopK: 20}},
			{"top-p=0.95", kernels.SamplingRow{Temperature: 1, TopP: 0.95}},
			{"penalties=1000", kernels.SamplingRow{Temperature: 1, TopP: 1, Repetition: 1.1, Frequency: 0.5, Seen: benchSeen(1000)}},
			{"top-k=50,top-p=0.9,min-p=0.05", kernels.SamplingRow{Temperature: 0.8, TopP: 0.9, TopK: 50, MinP: 0.05}},
		} {
			for _, rows := range []int{1, 16} {
				b.Run(fmt.Sprintf("vocab=%d/%s/rows=%d", vocab, c.name, rows), func(b *testing.B) {
					dev, q := open(b)
					logits := benchLogits(b, dev, q, rows, vocab)
					ids := check(dev.NewInts(rows))(b)
					params := make([]kernels.SamplingRow, rows)
					for i := range params {
						params[i] = c.row
					}
					b.ReportAllocs()
					for b.Loop() {
						for i := range params {
							params[i].Position++
						}
						q.Sample(ids, logits, params)
						run(b, q)
					}
				})
			}
		}
	}
}

// benchLogits has normal logits and a head above the noise, as models have.
func benchLogits(b *testing.B, dev kernels.Device, q kernels.Queue, rows, vocab int) kernels.Activation {
	b.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	values := make([]float32, vocab)
	for i := range values {
		values[i] = float32(rng.NormFloat64() * 3)
	}
	for i := range 5 {
		values[i*97] = 16 - 0.7*float32(i)
	}
	raw := make([]byte, 0, 2*vocab)
	for _, v := range values {
		u := kernels.F32ToBF16(v)
		raw = append(raw, byte(u), byte(u>>8))
	}
	logits := check(dev.NewActivation(rows, vocab))(b)
	table := check(kernels.PackWeight(dev, kernels.F32, 1, vocab, kernels.BF16, raw))(b)
	ids := check(dev.NewInts(rows))(b)
	q.Upload(ids, make([]int32, rows))
	q.Embed(logits, table, ids, 1, rows)
	run(b, q)
	return logits
}

func benchSeen(n int) (seen []kernels.TokenCount) {
	for i := range n {
		seen = append(seen, kernels.TokenCount{ID: int32(i), Output: int32(i % 3)})
	}
	return seen
}

func BenchmarkLogprobs(b *testing.B) {
	for _, vocab := range []int{2000, 50_000, 150_000} {
		for _, k := range []int{0, 5, 20} {
			for _, rows := range []int{1, 16} {
				b.Run(fmt.Sprintf("vocab=%d/k=%d/rows=%d", vocab, k, rows), func(b *testing.B) {
					dev, q := open(b)
					logits := benchLogits(b, dev, q, rows, vocab)
					chosen := check(dev.NewInts(rows))(b)
					asked := make([]kernels.LogprobRow, rows)
					for i := range asked {
						asked[i] = kernels.LogprobRow{Row: i, K: k}
					}
					width := rows * asked[0].Width()
					out := kernels.Logprobs{TokenIDs: make([]int32, width), Values: make([]float32, width), Ranks: make([]int32, rows)}
					b.ReportAllocs()
					for b.Loop() {
						q.Logprobs(out, logits, chosen, asked)
						run(b, q)
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows), "ns/row")
				})
			}
		}
	}
}

// BenchmarkEmptyStep is what a step of a 30-layer model costs beside the
// arithmetic: recording, waking the threads, and 270 hand-overs.
func BenchmarkEmptyStep(b *testing.B) {
	for _, layers := range []int{1, 30} {
		b.Run(fmt.Sprintf("layers=%d", layers), func(b *testing.B) {
			dev, q := open(b)
			x := load(b, dev, q, 1, 16)
			norm := check(dev.NewVector(make([]float32, 16)))(b)
			b.ReportAllocs()
			for b.Loop() {
				for range 9 * layers {
					q.RMSNorm(x, x, norm, 1e-5, 1)
				}
				run(b, q)
			}
		})
	}
}

// BenchmarkPack packs a matrix as model files hold it, on one thread.
func BenchmarkPack(b *testing.B) {
	const n, k = 1024, 1536
	for _, c := range []struct{ src, want kernels.DType }{
		{kernels.BF16, kernels.BF16}, {kernels.F32, kernels.BF16}, {kernels.F32, kernels.F16}, {kernels.F32, kernels.F32},
	} {
		b.Run(fmt.Sprintf("from=%v/to=%v", c.src, c.want), func(b *testing.B) {
			dev := check(cpu.Open(kernels.Options{}))(b)
			defer dev.Close()
			w := check(dev.NewWeight(c.want, n, k))(b)
			raw := randomBytes(n * k * c.src.Size())
			for b.Loop() {
				if err := dev.Pack(w, 0, c.src, raw); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(n*k*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mvalues/s")
		})
	}
}
