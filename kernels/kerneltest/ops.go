package kerneltest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"govllm/kernels"
	"govllm/kernels/internal/shape"
)

var dtypes = []kernels.DType{kernels.F32, kernels.BF16, kernels.F16}

func testUploadDownload(t *testing.T, s suite) {
	b := s.device(t, 2)
	d := must(b.dev.NewInts(5))(t)
	src := []int32{1, 2, 3, 4, 5}
	first, second := make([]int32, 5), make([]int32, 2)
	b.q.Upload(d, src)
	clear(src) // copied while recording
	b.q.Download(first, d)
	b.q.Upload(d, []int32{9})
	b.q.Download(second, d)
	b.sync()
	if want := []int32{1, 2, 3, 4, 5}; !slices.Equal(first, want) {
		t.Errorf("Download = %v, want %v", first, want)
	}
	if want := []int32{9, 2}; !slices.Equal(second, want) {
		t.Errorf("Download after a second Upload = %v, want %v", second, want)
	}
	b.sync() // an empty step
	big := make([]int32, 300_000)
	for i := range big {
		big[i] = int32(i * 7)
	}
	got := make([]int32, len(big))
	long := must(b.dev.NewInts(len(big)))(t)
	b.q.Upload(long, big)
	b.q.Download(got, long)
	b.sync()
	if !slices.Equal(got, big) {
		t.Errorf("a long Upload did not come back")
	}
}

func testEmbed(t *testing.T, s suite) {
	for _, dt := range dtypes {
		for _, c := range []struct{ n, k int }{{5, 1}, {37, 33}, {64, 576}} {
			table := normal(newRand(1), c.n, c.k, 1)
			got, want := s.both(t, func(b *bench) matrix {
				out := b.load(newMatrix(7, c.k))
				ids := b.ints(int32(c.n-1), 0, 3, 3, 1)
				b.q.Embed(out, b.weight(dt, table), ids, 1.5, 5)
				m := b.rows(out)
				b.sync()
				return m
			})
			s.near(t, fmt.Sprintf("Embed(%v, table [%d, %d])", dt, c.n, c.k), got, want)
		}
	}
}

func testRMSNorm(t *testing.T, s suite) {
	for _, d := range []int{1, 7, 64, 65, 576, 1500} {
		for _, inPlace := range []bool{false, true} {
			rng := newRand(2)
			x, w := normal(rng, 9, d, 3), normal(rng, 1, d, 1)
			got, want := s.both(t, func(b *bench) matrix {
				in := b.load(x)
				out := in
				if !inPlace {
					out = b.load(newMatrix(9, d))
				}
				b.q.RMSNorm(out, in, b.vector(w.values), 1e-5, 8)
				m := b.rows(out)
				b.sync()
				return m
			})
			s.near(t, fmt.Sprintf("RMSNorm(d=%d, inPlace=%v)", d, inPlace), got, want)
		}
	}
}

func testAddRMSNorm(t *testing.T, s suite) {
	for _, d := range []int{1, 7, 64, 65, 576, 1500} {
		rng := newRand(2)
		x, w, old := normal(rng, 9, d, 3), normal(rng, 1, d, 1), normal(rng, 10, d, 2)
		got, want := s.both(t, func(b *bench) matrix {
			in, out := b.load(x), b.load(old)
			b.q.AddRMSNorm(out, in, b.vector(w.values), 1e-5, 8)
			m := b.rows(out)
			b.sync()
			return m
		})
		s.near(t, fmt.Sprintf("AddRMSNorm(d=%d)", d), got, want)
		same(t, "AddRMSNorm, rows beyond T", got.values[8*d:], old.values[8*d:])
	}
}

func testSoftCap(t *testing.T, s suite) {
	for _, cols := range []int{1, 9, 64, 203, 9001} {
		for _, cap := range []float32{0.5, 30} {
			x := normal(newRand(6), 7, cols, 20)
			for i, v := range []float32{0, -2000, 2000, float32(math.Inf(1)), float32(math.NaN()), 1e-20, 5} {
				x.row(i)[0] = v
			}
			got, want := s.both(t, func(b *bench) matrix {
				a := b.load(x)
				b.q.SoftCap(a, cap, 6)
				m := b.rows(a)
				b.sync()
				return m
			})
			s.near(t, fmt.Sprintf("SoftCap(%v, cols=%d)", cap, cols), got, want)
			same(t, "SoftCap, rows beyond T", got.row(6), x.row(6))
		}
	}
}

func testLinear(t *testing.T, s suite) {
	for _, dt := range dtypes {
		for _, c := range []struct {
			n, k, T          int
			bias, accumulate bool
		}{
			{1, 1, 1, false, false},
			{15, 7, 1, true, false},
			{16, 64, 2, false, true},
			{17, 65, 3, true, true},
			{33, 100, 4, false, false},
			{96, 576, 5, true, false},
			{100, 33, 6, false, true},
			{64, 130, 7, true, true},
			{40, 1025, 13, false, true},
			{208, 64, 16, true, false},
			{50, 700, 33, true, true},
			{19, 64, 70, false, false},
			{330, 96, 70, true, true},
		} {
			rng := newRand(3)
			w := normal(rng, c.n, c.k, 1/math.Sqrt(float64(c.k)))
			x, y := normal(rng, c.T, c.k, 1), normal(rng, c.T+2, c.n, 1)
			var bias []float32
			if c.bias {
				bias = normal(rng, 1, c.n, 1).values
			}
			var calls []matrix
			got, want := s.both(t, func(b *bench) matrix {
				in, out := b.load(x), b.load(y)
				weight, bv := b.weight(dt, w), b.vector(bias)
				b.q.Linear(out, in, weight, bv, c.accumulate, c.T)
				m := b.rows(out)
				// Row by row it must be the same, bit by bit.
				alone := newMatrix(c.T, c.n)
				one, acc := b.activation(1, c.k), b.activation(1, c.n)
				old := b.load(y)
				for r := range c.T {
					idx := b.ints(int32(r))
					b.q.GatherRows(one, in, idx, 1)
					b.q.GatherRows(acc, old, idx, 1)
					b.q.Linear(acc, one, weight, bv, c.accumulate, 1)
					b.q.DownloadRows(alone.row(r), acc, 1)
					if r%20 == 19 {
						b.sync()
					}
				}
				b.sync()
				calls = append(calls, alone)
				return m
			})
			what := fmt.Sprintf("Linear(%v, [%d, %d], T=%d, bias=%v, accumulate=%v)", dt, c.n, c.k, c.T, c.bias, c.accumulate)
			s.near(t, what, got, want)
			same(t, what+" alone", calls[0].values, got.values[:c.T*c.n])
		}
	}
	testPack(t, s)
}

// testPack fills a weight piece by piece: from matrices of several types, cut
// at odd rows, all at the same time.
func testPack(t *testing.T, s suite) {
	rng := newRand(4)
	const k = 300
	x := normal(rng, 3, k, 1)
	ms := []matrix{normal(rng, 10, k, 0.1), normal(rng, 3, k, 0.1), normal(rng, 22, k, 0.1)}
	for _, want := range dtypes {
		gotRows, wantRows := s.both(t, func(b *bench) matrix {
			w := must(b.dev.NewWeight(want, 35, k))(t)
			var group sync.WaitGroup
			row := 0
			for i, m := range ms {
				for step, j := 1+11*i, 0; j < m.rows; j += step {
					at, part := row+j, m.values[j*k:min(j+step, m.rows)*k]
					group.Go(func() {
						if err := b.dev.Pack(w, at, dtypes[i], encode(dtypes[i], part)); err != nil {
							t.Errorf("Pack(row %d): %v", at, err)
						}
					})
				}
				row += m.rows
			}
			group.Wait()
			if n, kk := w.WeightShape(); n != 35 || kk != k {
				t.Errorf("WeightShape = [%d, %d], want [35, %d]", n, kk, k)
			}
			out := b.activation(3, 35)
			b.q.Linear(out, b.load(x), w, nil, false, 3)
			m := b.rows(out)
			b.sync()
			return m
		})
		s.near(t, fmt.Sprintf("Linear(Pack(%v))", want), gotRows, wantRows)
	}
}

// A NaN or an infinity stays in its row (of x) or its column (of w).
func testLinearSpecialValues(t *testing.T, s suite) {
	rng := newRand(5)
	w, x := normal(rng, 20, 48, 0.2), normal(rng, 9, 48, 1)
	x.row(2)[5] = float32(math.NaN())
	x.row(4)[47] = float32(math.Inf(1))
	w.row(7)[0] = float32(math.NaN())
	w.row(19)[9] = float32(math.Inf(-1))
	for _, dt := range dtypes {
		got, want := s.both(t, func(b *bench) matrix {
			out := b.activation(9, 20)
			b.q.Linear(out, b.load(x), b.weight(dt, w), nil, false, 9)
			m := b.rows(out)
			b.sync()
			return m
		})
		s.near(t, fmt.Sprintf("Linear(%v) with NaN and Inf", dt), got, want)
	}
}

func testGateMul(t *testing.T, s suite) {
	for _, kind := range []kernels.GateKind{kernels.SiLU, kernels.GELUTanh} {
		for _, f := range []int{1, 9, 64, 203, 1536} {
			gu := normal(newRand(6), 6, 2*f, 4)
			for i, v := range []float32{0, -200, 200, float32(math.Inf(1)), float32(math.NaN()), 1e-20} {
				gu.row(i)[0], gu.row(i)[f] = v, 1
			}
			got, want := s.both(t, func(b *bench) matrix {
				out := b.load(newMatrix(7, f))
				b.q.GateMul(out, b.load(gu), kind, 6)
				m := b.rows(out)
				b.sync()
				return m
			})
			s.near(t, fmt.Sprintf("GateMul(kind=%d, f=%d)", kind, f), got, want)
		}
	}
}

func testGatherRows(t *testing.T, s suite) {
	x := normal(newRand(7), 11, 35, 1)
	b := s.device(t, 2)
	out := b.activation(5, 35)
	b.q.GatherRows(out, b.load(x), b.ints(10, 0, 3, 3), 4)
	got := b.rows(out)
	b.sync()
	for i, r := range []int{10, 0, 3, 3} {
		same(t, fmt.Sprintf("GatherRows row %d", i), got.row(i), x.row(r))
	}
}

// testIndexErrors checks that a number that points outside is an error of Sync
// and that the device then stays broken instead of computing on.
func testIndexErrors(t *testing.T, s suite) {
	shapeOf := func(b *bench) kernels.KVShape {
		bs := b.dev.Caps().BlockSizeMultiple
		return kernels.KVShape{Layers: 1, NumBlocks: 3, BlockSize: bs, KVHeads: 1, HeadDim: 32, DType: kernels.F32}
	}
	attn := kernels.AttnShape{Heads: 1, KVHeads: 1, HeadDim: 32, Scale: 1}
	attend := func(b *bench, start, lens, table []int32) {
		qkv, out := b.load(newMatrix(2, 96)), b.activation(2, 32)
		kv := must(b.dev.NewKVCache(shapeOf(b)))(t)
		batch := kernels.Batch{NumSeqs: 1, MaxBlocks: len(table), QueryStart: b.ints(start...), SeqLens: b.ints(lens...), BlockTable: b.ints(table...)}
		b.q.PagedAttention(out, qkv, kv, 0, batch, attn, 2)
	}
	write := func(b *bench, position, slot int32) {
		kv := must(b.dev.NewKVCache(shapeOf(b)))(t)
		table := b.vector(make([]float32, 4*16))
		rope := kernels.Rope{RotaryDim: 32, Cos: table, Sin: table}
		b.q.RopeKVWrite(b.load(newMatrix(1, 96)), kv, 0, b.ints(position), b.ints(slot), rope, attn, nil, nil, 0, 1)
	}
	for _, c := range []struct {
		name string
		do   func(*bench)
	}{
		{"Embed past the table", func(b *bench) {
			b.q.Embed(b.activation(2, 8), b.weight(kernels.F32, newMatrix(4, 8)), b.ints(0, 4), 1, 2)
		}},
		{"Embed negative", func(b *bench) {
			b.q.Embed(b.activation(2, 8), b.weight(kernels.F32, newMatrix(4, 8)), b.ints(-1, 0), 1, 2)
		}},
		{"LinearEach", func(b *bench) {
			b.q.LinearEach(b.activation(2, 4), b.load(newMatrix(2, 8)), []kernels.Weight{b.weight(kernels.F32, newMatrix(4, 8))}, b.ints(0, 1), 1, 2)
		}},
		{"GatherRows", func(b *bench) { b.q.GatherRows(b.activation(1, 8), b.load(newMatrix(3, 8)), b.ints(3), 1) }},
		{"position", func(b *bench) { write(b, 4, 0) }},
		{"slot", func(b *bench) { write(b, 0, int32(3*shapeOf(b).BlockSize)) }},
		{"slot negative", func(b *bench) { write(b, 0, -1) }},
		{"block", func(b *bench) { attend(b, []int32{0, 2}, []int32{2}, []int32{3}) }},
		{"length over the table", func(b *bench) { attend(b, []int32{0, 2}, []int32{1000}, []int32{1}) }},
		{"length below the queries", func(b *bench) { attend(b, []int32{0, 2}, []int32{1}, []int32{1}) }},
		{"queries past T", func(b *bench) { attend(b, []int32{0, 3}, []int32{3}, []int32{1}) }},
		{"queries backwards", func(b *bench) { attend(b, []int32{1, 0}, []int32{3}, []int32{1}) }},
		{"CopyBlocks", func(b *bench) { b.q.CopyBlocks(must(b.dev.NewKVCache(shapeOf(b)))(t), b.ints(1, 3), 1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := s.device(t, 2)
			b.t = t
			c.do(b)
			if err := b.q.Sync(); !errors.Is(err, kernels.ErrIndex) {
				t.Errorf("Sync = %v, want %v", err, kernels.ErrIndex)
			}
			if err := b.q.Sync(); err == nil {
				t.Errorf("the next Sync succeeds")
			}
		})
	}
}

func testShapePanics(t *testing.T, s suite) {
	b := s.device(t, 1)
	x, wide := b.activation(2, 8), b.activation(2, 9)
	w := b.weight(kernels.F32, newMatrix(8, 8))
	one := must(b.dev.NewInts(1))(t)
	kv := must(b.dev.NewKVCache(kernels.KVShape{Layers: 1, NumBlocks: 2, BlockSize: b.dev.Caps().BlockSizeMultiple, KVHeads: 1, HeadDim: 32, DType: kernels.F32}))(t)
	attn := kernels.AttnShape{Heads: 1, KVHeads: 1, HeadDim: 32, Scale: 1}
	qkv := b.activation(2, 96)
	batch := kernels.Batch{NumSeqs: 1, MaxBlocks: 1, QueryStart: one, SeqLens: one, BlockTable: one}
	for _, c := range []struct {
		name string
		do   func()
	}{
		{"Upload", func() { b.q.Upload(one, make([]int32, 2)) }},
		{"Download", func() { b.q.Download(make([]int32, 2), one) }},
		{"DownloadRows", func() { b.q.DownloadRows(make([]float32, 15), x, 2) }},
		{"Embed", func() { b.q.Embed(x, w, one, 1, 2) }},
		{"RMSNorm", func() { b.q.RMSNorm(x, wide, b.vector(make([]float32, 8)), 0, 1) }},
		{"AddRMSNorm", func() { b.q.AddRMSNorm(x, x, b.vector(make([]float32, 9)), 0, 1) }},
		{"SoftCap", func() { b.q.SoftCap(x, 0, 1) }},
		{"SoftCap T", func() { b.q.SoftCap(x, 1, 3) }},
		{"Route k", func() { b.q.Route(one, x, wide, 9, false, 1) }},
		{"Route ids", func() { b.q.Route(one, b.activation(2, 1), x, 1, false, 2) }},
		{"LinearEach", func() { b.q.LinearEach(x, x, []kernels.Weight{w, b.weight(kernels.F32, newMatrix(8, 9))}, one, 1, 1) }},
		{"LinearEach none", func() { b.q.LinearEach(x, x, nil, one, 1, 1) }},
		{"LinearEach x", func() { b.q.LinearEach(x, wide, []kernels.Weight{w}, one, 1, 1) }},
		{"LinearEach ids", func() { b.q.LinearEach(x, b.activation(2, 8), []kernels.Weight{w}, one, 1, 2) }},
		{"AddWeighted", func() { b.q.AddWeighted(x, wide, b.activation(2, 1), 1) }},
		{"AddWeighted rows", func() { b.q.AddWeighted(x, b.activation(2, 8), b.activation(2, 2), 2) }},
		{"Linear x", func() { b.q.Linear(x, wide, w, nil, false, 1) }},
		{"Linear out", func() { b.q.Linear(wide, x, w, nil, false, 1) }},
		{"Linear bias", func() { b.q.Linear(x, x, w, b.vector(make([]float32, 7)), false, 1) }},
		{"Linear T", func() { b.q.Linear(x, x, w, nil, false, 3) }},
		{"GateMul", func() { b.q.GateMul(x, wide, kernels.SiLU, 1) }},
		{"GatherRows", func() { b.q.GatherRows(x, wide, one, 1) }},
		{"RopeKVWrite", func() {
			b.q.RopeKVWrite(x, kv, 0, one, one, kernels.Rope{}, attn, nil, nil, 0, 1)
		}},
		{"RopeKVWrite layer", func() {
			b.q.RopeKVWrite(qkv, kv, 1, one, one, kernels.Rope{}, attn, nil, nil, 0, 1)
		}},
		{"PagedAttention out", func() { b.q.PagedAttention(x, qkv, kv, 0, batch, attn, 1) }},
		{"PagedAttention QueryStart", func() { b.q.PagedAttention(b.activation(2, 32), qkv, kv, 0, batch, attn, 1) }},
		{"Sample", func() { b.q.Sample(one, x, make([]kernels.SamplingRow, 2)) }},
		{"Process", func() { b.q.Process(x, make([]kernels.SamplingRow, 3)) }},
		{"Logprobs row", func() {
			b.q.Logprobs(kernels.Logprobs{TokenIDs: make([]int32, 1), Values: make([]float32, 1), Ranks: make([]int32, 1)}, x, one, []kernels.LogprobRow{{Row: 1}})
		}},
		{"Logprobs out", func() {
			b.q.Logprobs(kernels.Logprobs{TokenIDs: make([]int32, 2), Values: make([]float32, 1), Ranks: make([]int32, 1)}, x, one, []kernels.LogprobRow{{K: 1}})
		}},
		{"CopyBlocks", func() { b.q.CopyBlocks(kv, one, 1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				if e, ok := recover().(*shape.Error); !ok {
					t.Errorf("recover() = %v, want a *shape.Error", e)
				}
			}()
			c.do()
		})
	}
}

func testRefusals(t *testing.T, s suite) {
	b := s.device(t, 1)
	caps := b.dev.Caps()
	if len(caps.WeightDTypes) == 0 || len(caps.KVDTypes) == 0 || caps.BlockSizeMultiple < 1 || caps.MaxHeadDim < 128 {
		t.Errorf("Caps = %+v", caps)
	}
	good := kernels.KVShape{Layers: 1, NumBlocks: 2, BlockSize: caps.BlockSizeMultiple, KVHeads: 1, HeadDim: 32, DType: caps.KVDTypes[0]}
	with := func(change func(*kernels.KVShape)) kernels.KVShape {
		s := good
		change(&s)
		return s
	}
	for _, shape := range []kernels.KVShape{
		with(func(s *kernels.KVShape) { s.Layers = 0 }),
		with(func(s *kernels.KVShape) { s.NumBlocks = -1 }),
		with(func(s *kernels.KVShape) { s.HeadDim = caps.MaxHeadDim + 1 }),
		with(func(s *kernels.KVShape) { s.DType = 0 }),
		with(func(s *kernels.KVShape) {
			if s.BlockSize++; caps.BlockSizeMultiple == 1 {
				s.BlockSize = 0
			}
		}),
	} {
		if _, err := b.dev.NewKVCache(shape); err == nil {
			t.Errorf("NewKVCache(%+v) succeeds", shape)
		}
	}
	for _, c := range []struct {
		want kernels.DType
		n, k int
	}{{9, 1, 1}, {0, 1, 1}, {kernels.F32, 0, 1}, {kernels.F32, 1, -1}} {
		if _, err := b.dev.NewWeight(c.want, c.n, c.k); err == nil {
			t.Errorf("NewWeight(%d, %d, %d) succeeds", c.want, c.n, c.k)
		}
	}
	w := must(b.dev.NewWeight(kernels.BF16, 4, 2))(t)
	for _, c := range []struct{ row, srcType, bytes int }{{0, 0, 8}, {0, 9, 8}, {0, 1, 7}, {0, 1, 12}, {-1, 1, 8}, {4, 1, 8}, {2, 1, 24}} {
		if err := b.dev.Pack(w, c.row, kernels.DType(c.srcType), make([]byte, c.bytes)); err == nil {
			t.Errorf("Pack([4, 2], row %d, type %d, %d bytes) succeeds", c.row, c.srcType, c.bytes)
		}
	}
	if got := b.dev.WeightBytes(kernels.BF16, 33, 5); got < 33*5*2 || got > 64*5*4 {
		t.Errorf("WeightBytes(bfloat16, 33, 5) = %d", got)
	}
	if got := b.dev.KVCacheBytes(good); got < good.BlockBytes()*int64(good.NumBlocks) {
		t.Errorf("KVCacheBytes(%+v) = %d, less than the values take", good, got)
	}
	if _, err := b.dev.NewActivation(0, 4); err == nil {
		t.Errorf("NewActivation(0, 4) succeeds")
	}
	if _, err := s.open(kernels.Options{Threads: -1}); err == nil {
		t.Errorf("Open with -1 threads succeeds")
	}
}
