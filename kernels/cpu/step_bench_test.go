package cpu_test

import (
	"fmt"
	"testing"

	"govllm/kernels"
)

// llama is a model of random weights in the shape of SmolLM2-135M.
type llama struct {
	q                     kernels.Queue
	embed                 kernels.Weight
	layers                []llamaLayer
	norm                  kernels.Vector
	rope                  kernels.Rope
	kv                    kernels.KVCache
	x, h, qkv, a, gu, f   kernels.Activation
	last, logits          kernels.Activation
	ids, pos, slots, ends kernels.Ints
	batch                 kernels.Batch
	bytes                 int
}

type llamaLayer struct{ qkv, o, gateUp, down kernels.Weight }

const (
	llamaLayers, llamaHidden, llamaFFN, llamaVocab = 30, 576, 1536, 49152
	llamaHeads, llamaKVHeads, llamaHeadDim         = 9, 3, 64
	llamaBlock                                     = 32
)

var llamaAttn = kernels.AttnShape{Heads: llamaHeads, KVHeads: llamaKVHeads, HeadDim: llamaHeadDim, Scale: 0.125}

// newLlama sets up seqs sequences that each compute queries tokens ending at
// position ctx.
func newLlama(b *testing.B, seqs, queries, ctx int) *llama {
	dev, q := open(b)
	m := &llama{q: q}
	weight := func(n, k int) kernels.Weight {
		m.bytes += 2 * n * k
		return check(kernels.PackWeight(dev, kernels.BF16, n, k, kernels.BF16, randomBytes(2*n*k)))(b)
	}
	m.embed = weight(llamaVocab, llamaHidden)
	for range llamaLayers {
		m.layers = append(m.layers, llamaLayer{
			qkv:    weight((llamaHeads+2*llamaKVHeads)*llamaHeadDim, llamaHidden),
			o:      weight(llamaHidden, llamaHeads*llamaHeadDim),
			gateUp: weight(2*llamaFFN, llamaHidden),
			down:   weight(llamaHidden, llamaFFN),
		})
	}
	m.norm = check(dev.NewVector(make([]float32, llamaHidden)))(b)
	table := check(dev.NewVector(make([]float32, ctx*llamaHeadDim/2)))(b)
	m.rope = kernels.Rope{RotaryDim: llamaHeadDim, Cos: table, Sin: table}
	blocks := (ctx + llamaBlock - 1) / llamaBlock
	m.kv = check(dev.NewKVCache(kernels.KVShape{Layers: llamaLayers, NumBlocks: seqs*blocks + 1, BlockSize: llamaBlock,
		KVHeads: llamaKVHeads, HeadDim: llamaHeadDim, DType: kernels.BF16}))(b)
	T := seqs * queries
	act := func(rows, cols int) kernels.Activation { return check(dev.NewActivation(rows, cols))(b) }
	m.x, m.h, m.qkv = act(T, llamaHidden), act(T, llamaHidden), act(T, (llamaHeads+2*llamaKVHeads)*llamaHeadDim)
	m.a, m.gu, m.f = act(T, llamaHeads*llamaHeadDim), act(T, 2*llamaFFN), act(T, llamaFFN)
	m.last, m.logits = act(seqs, llamaHidden), act(seqs, llamaVocab)
	start := []int32{0}
	var lens, blockTable, pos, slots, last []int32
	for s := range seqs {
		end := int32((s + 1) * queries)
		start, last, lens = append(start, end), append(last, end-1), append(lens, int32(ctx))
		for i := range blocks {
			blockTable = append(blockTable, int32(1+i*seqs+s))
		}
		for p := ctx - queries; p < ctx; p++ {
			pos = append(pos, int32(p))
			slots = append(slots, blockTable[s*blocks+p/llamaBlock]*llamaBlock+int32(p%llamaBlock))
		}
	}
	upload := func(v []int32) kernels.Ints {
		d := check(dev.NewInts(len(v)))(b)
		q.Upload(d, v)
		return d
	}
	m.ids, m.pos, m.slots, m.ends = upload(make([]int32, T)), upload(pos), upload(slots), upload(last)
	m.batch = kernels.Batch{NumSeqs: seqs, MaxBlocks: blocks, QueryStart: upload(start), SeqLens: upload(lens), BlockTable: upload(blockTable)}
	run(b, q)
	return m
}

func (m *llama) step(b *testing.B, T int, rows []kernels.SamplingRow, got []int32) {
	q := m.q
	q.Embed(m.x, m.embed, m.ids, 1, T)
	for i := range m.layers {
		l := &m.layers[i]
		q.RMSNorm(m.h, m.x, m.norm, 1e-5, T)
		q.Linear(m.qkv, m.h, l.qkv, nil, false, T)
		q.RopeKVWrite(m.qkv, m.kv, i, m.pos, m.slots, m.rope, llamaAttn, nil, nil, 0, T)
		q.PagedAttention(m.a, m.qkv, m.kv, i, m.batch, llamaAttn, T)
		q.Linear(m.x, m.a, l.o, nil, true, T)
		q.RMSNorm(m.h, m.x, m.norm, 1e-5, T)
		q.Linear(m.gu, m.h, l.gateUp, nil, false, T)
		q.GateMul(m.f, m.gu, kernels.SiLU, T)
		q.Linear(m.x, m.f, l.down, nil, true, T)
	}
	n := len(rows)
	q.GatherRows(m.last, m.x, m.ends, n)
	q.RMSNorm(m.last, m.last, m.norm, 1e-5, n)
	q.Linear(m.logits, m.last, m.embed, nil, false, n)
	q.Sample(m.ids, m.logits, rows)
	q.Download(got, m.ids)
	run(b, q)
}

// BenchmarkStep is a whole step of a 135M model in bfloat16: decode at context
// 256, and a prompt of 512 tokens.
func BenchmarkStep(b *testing.B) {
	for _, c := range []struct{ seqs, queries, ctx int }{{1, 1, 256}, {4, 1, 256}, {16, 1, 256}, {32, 1, 256}, {1, 512, 512}} {
		b.Run(fmt.Sprintf("seqs=%d/queries=%d/ctx=%d", c.seqs, c.queries, c.ctx), func(b *testing.B) {
			m := newLlama(b, c.seqs, c.queries, c.ctx)
			rows := make([]kernels.SamplingRow, c.seqs)
			got := make([]int32, c.seqs)
			read := readBandwidth()
			b.ReportAllocs()
			for b.Loop() {
				m.step(b, c.seqs*c.queries, rows, got)
			}
			perStep := b.Elapsed().Seconds() / float64(b.N)
			b.ReportMetric(float64(c.seqs*c.queries)/perStep, "tokens/s")
			b.ReportMetric(float64(m.bytes)/perStep/1e9/read, "of-read")
		})
	}
}
