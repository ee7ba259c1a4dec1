package kerneltest

import (
	"fmt"
	"math"
	"testing"

	"govllm/kernels"
)

// decoder is a small model over all operations: two layers, tied embedding.
type decoder struct {
	heads
	hidden, ffn, vocab int
	weights, kv        kernels.DType
	gate               kernels.GateKind
	post               bool // norms of what is added, and capped logits
}

const decoderLayers = 2

// plan says how the sequences of a decoder are computed.
type plan struct {
	name      string
	threads   int
	chunk     int    // tokens of a sequence in one step; 0: all
	together  bool   // all sequences in each step, or one after the other
	blockSize int    // index into blockSizes
	tables    uint64 // seed of the block tables
}

// plans differ in all that must not matter.
var plans = []plan{
	{"alone, whole, 1 thread", 1, 0, false, 0, 1},
	{"alone, whole, 2 threads", 2, 0, false, 0, 1},
	{"alone, whole, 3 threads", 3, 0, false, 1, 2},
	{"alone, token by token", 2, 1, false, 1, 3},
	{"together, whole", 2, 0, true, 2, 4},
	{"together, token by token", 3, 1, true, 3, 5},
	{"together, chunks of 7", 2, 7, true, 1, 6},
	{"together, chunks of 33", 1, 33, true, 0, 7},
	{"alone, chunks of 64", 2, 64, false, 1, 8},
}

func testDecoder(t *testing.T, s suite) {
	for _, d := range []decoder{
		{way(3, 1, 32, nil), 96, 100, 130, kernels.F32, kernels.F32, kernels.SiLU, false},
		{way(6, 2, 64, nil), 128, 200, 77, kernels.BF16, kernels.BF16, kernels.SiLU, false},
		{way(2, 2, 80, func(h *heads) { h.Window, h.SoftCap = 30, 5 }), 80, 48, 64, kernels.F16, kernels.F16, kernels.GELUTanh, true},
		{way(8, 1, 40, func(h *heads) { h.norm, h.style = true, kernels.RopeInterleaved }), 72, 90, 50, kernels.BF16, kernels.F32, kernels.SiLU, false},
	} {
		t.Run(fmt.Sprintf("%v/%v/%v", d.weights, d.kv, d.heads), func(t *testing.T) {
			prompts := [][]int32{tokens(1, 5, d.vocab), tokens(2, 70, d.vocab), tokens(3, 131, d.vocab), tokens(4, 1, d.vocab)}
			if raceEnabled {
				prompts = prompts[:2]
			}
			s.testPlans(t, d, prompts)
		})
	}
}

// testLongContext has a sequence long enough that a backend would split it.
func testLongContext(t *testing.T, s suite) {
	d := decoder{way(2, 1, 32, nil), 32, 32, 64, kernels.BF16, kernels.BF16, kernels.SiLU, false}
	long, short := 1500, 700
	if raceEnabled {
		long, short = 300, 140
	}
	prompts := [][]int32{tokens(5, long, d.vocab), tokens(6, short, d.vocab)}
	base := d.run(s.device(t, 1), prompts, plan{chunk: 500})
	for _, p := range []plan{
		{"3 threads, whole", 3, 0, true, 2, 4},
		{"2 threads, decode of the last", 2, 0, true, 3, 5},
	} {
		b := s.device(t, p.threads)
		if p.name == "2 threads, decode of the last" {
			got := d.runSteps(b, prompts, p, [][]int{{long - 1, short - 1}, {1, 1}})
			same(t, p.name, got[0].row(long-1), base[0].row(long-1))
			same(t, p.name, got[1].row(short-1), base[1].row(short-1))
			continue
		}
		got := d.run(b, prompts, p)
		for i := range prompts {
			same(t, fmt.Sprintf("%s: logits of sequence %d", p.name, i), got[i].values, base[i].values)
		}
	}
}

// testPlans runs all plans, which must agree bitwise, and compares one with ref.
func (s suite) testPlans(t *testing.T, d decoder, prompts [][]int32) {
	want := d.run(reference(t), prompts, plans[4])
	var base []matrix
	for _, p := range plans {
		got := d.run(s.device(t, p.threads), prompts, p)
		if base == nil {
			base = got
		}
		for i := range prompts {
			same(t, fmt.Sprintf("%s: logits of sequence %d", p.name, i), got[i].values, base[i].values)
		}
	}
	// Two layers add up the errors of a dozen operations, and a value close to
	// the middle of two cache values may round to either.
	loose := s
	loose.tolerance *= 10
	if d.kv != kernels.F32 {
		loose.tolerance = max(loose.tolerance, 1e-2)
	}
	for i := range prompts {
		loose.near(t, fmt.Sprintf("logits of sequence %d", i), base[i], want[i])
	}
}

func tokens(seed uint64, n, vocab int) []int32 {
	rng := newRand(seed)
	v := make([]int32, n)
	for i := range v {
		v[i] = int32(rng.IntN(vocab))
	}
	return v
}

// run computes the logits [len(prompt), vocab] of each prompt.
func (d decoder) run(b *bench, prompts [][]int32, p plan) []matrix {
	b.t.Helper()
	return d.runSteps(b, prompts, p, d.steps(prompts, p))
}

// steps lists how many tokens of each sequence every step computes.
func (d decoder) steps(prompts [][]int32, p plan) (steps [][]int) {
	done := make([]int, len(prompts))
	for {
		step, any := make([]int, len(prompts)), false
		for i := range prompts {
			n := len(prompts[i]) - done[i]
			if p.chunk > 0 {
				n = min(n, p.chunk)
			}
			if n == 0 || any && !p.together {
				continue
			}
			step[i], any = n, true
			done[i] += n
		}
		if !any {
			return steps
		}
		steps = append(steps, step)
	}
}

func (d decoder) runSteps(b *bench, prompts [][]int32, p plan, steps [][]int) []matrix {
	b.t.Helper()
	longest, total := 0, 0
	for _, ids := range prompts {
		longest, total = max(longest, len(ids)), total+len(ids)
	}
	blockSize := blockSizes(b.dev)[p.blockSize]
	m := d.build(b, longest, total)
	maxBlocks := (longest + blockSize - 1) / blockSize
	m.kv = b.cache(d.heads, decoderLayers, maxBlocks*len(prompts)+1, blockSize, d.kv)
	tables := shuffledTables(p.tables, len(prompts), maxBlocks)

	done := make([]int, len(prompts))
	logits := make([]matrix, len(prompts))
	for i, ids := range prompts {
		logits[i] = newMatrix(len(ids), d.vocab)
	}
	for _, counts := range steps {
		var ids, positions, slots, start, lens, flat []int32
		start = append(start, 0)
		maxInStep := 0
		for i, n := range counts {
			if n > 0 {
				maxInStep = max(maxInStep, (done[i]+n+blockSize-1)/blockSize)
			}
		}
		for i, n := range counts {
			if n == 0 {
				continue
			}
			for pos := done[i]; pos < done[i]+n; pos++ {
				ids = append(ids, prompts[i][pos])
				positions = append(positions, int32(pos))
				slots = append(slots, slot(tables[i], blockSize, pos))
			}
			start = append(start, int32(len(ids)))
			lens = append(lens, int32(done[i]+n))
			flat = append(flat, tables[i][:maxInStep]...)
		}
		got := m.step(ids, positions, slots, start, lens, flat, maxInStep)
		at := 0
		for i, n := range counts {
			copy(logits[i].values[done[i]*d.vocab:], got[at*d.vocab:(at+n)*d.vocab])
			at, done[i] = at+n, done[i]+n
		}
	}
	return logits
}

// built is a decoder on a device.
type built struct {
	d     decoder
	b     *bench
	kv    kernels.KVCache
	table kernels.Weight
	layer [decoderLayers]struct {
		qkv, o, gateUp, down kernels.Weight
		bias, norm1, norm2   kernels.Vector
	}
	rope           kernels.Rope
	qNorm, kNorm   kernels.Vector
	x, h, a, last  kernels.Activation
	qkv, gu, f     kernels.Activation
	logits         kernels.Activation
	ids, pos, slot kernels.Ints
	start, lens    kernels.Ints
	blocks, rows   kernels.Ints
}

func (d decoder) build(b *bench, positions, maxTokens int) *built {
	rng := newRand(20)
	m := &built{d: d, b: b}
	weight := func(n, k int) kernels.Weight {
		return b.weight(d.weights, normal(rng, n, k, 1/math.Sqrt(float64(k))))
	}
	vector := func(n int) kernels.Vector { return b.vector(normal(rng, 1, n, 1).values) }
	attn := d.Heads * d.HeadDim
	m.table = weight(d.vocab, d.hidden)
	for i := range m.layer {
		l := &m.layer[i]
		l.qkv, l.o = weight(d.cols(), d.hidden), weight(d.hidden, attn)
		l.gateUp, l.down = weight(2*d.ffn, d.hidden), weight(d.hidden, d.ffn)
		l.bias, l.norm1, l.norm2 = vector(d.cols()), vector(d.hidden), vector(d.hidden)
	}
	m.rope = d.rope(b, positions)
	m.qNorm, m.kNorm = d.norms(b)
	act := func(cols int) kernels.Activation { return b.activation(maxTokens, cols) }
	m.x, m.h, m.last, m.a = act(d.hidden), act(d.hidden), act(d.hidden), act(attn)
	m.qkv, m.gu, m.f, m.logits = act(d.cols()), act(2*d.ffn), act(d.ffn), act(d.vocab)
	ints := func(n int) kernels.Ints { return must(b.dev.NewInts(n))(b.t) }
	m.ids, m.pos, m.slot, m.rows = ints(maxTokens), ints(maxTokens), ints(maxTokens), ints(maxTokens)
	m.start, m.lens, m.blocks = ints(maxTokens+1), ints(maxTokens), ints(maxTokens*positions)
	return m
}

// step computes the logits of every token of a batch.
func (m *built) step(ids, positions, slots, start, lens, blocks []int32, maxBlocks int) []float32 {
	m.b.t.Helper()
	q, d, T := m.b.q, m.d, len(ids)
	q.Upload(m.ids, ids)
	q.Upload(m.pos, positions)
	q.Upload(m.slot, slots)
	q.Upload(m.start, start)
	q.Upload(m.lens, lens)
	q.Upload(m.blocks, blocks)
	q.Upload(m.rows, counting(T))
	batch := kernels.Batch{NumSeqs: len(lens), MaxBlocks: maxBlocks, QueryStart: m.start, SeqLens: m.lens, BlockTable: m.blocks}

	q.Embed(m.x, m.table, m.ids, 2, T)
	for i := range m.layer {
		l := &m.layer[i]
		q.RMSNorm(m.h, m.x, l.norm1, 1e-5, T)
		q.Linear(m.qkv, m.h, l.qkv, l.bias, false, T)
		q.RopeKVWrite(m.qkv, m.kv, i, m.pos, m.slot, m.rope, d.AttnShape, m.qNorm, m.kNorm, 1e-5, T)
		q.PagedAttention(m.a, m.qkv, m.kv, i, batch, d.AttnShape, T)
		m.add(m.a, l.o, l.norm1, T)
		q.RMSNorm(m.h, m.x, l.norm2, 1e-5, T)
		q.Linear(m.gu, m.h, l.gateUp, nil, false, T)
		q.GateMul(m.f, m.gu, d.gate, T)
		m.add(m.f, l.down, l.norm2, T)
	}
	q.GatherRows(m.last, m.x, m.rows, T)
	q.Linear(m.logits, m.last, m.table, nil, false, T)
	if d.post {
		q.SoftCap(m.logits, 2, T)
	}
	out := make([]float32, T*d.vocab)
	q.DownloadRows(out, m.logits, T)
	m.b.sync()
	return out
}

// add adds w·y to x, normed by norm if the decoder does that.
func (m *built) add(y kernels.Activation, w kernels.Weight, norm kernels.Vector, T int) {
	if !m.d.post {
		m.b.q.Linear(m.x, y, w, nil, true, T)
		return
	}
	m.b.q.Linear(m.h, y, w, nil, false, T)
	m.b.q.AddRMSNorm(m.x, m.h, norm, 1e-5, T)
}
