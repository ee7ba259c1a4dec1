package kerneltest

import (
	"fmt"
	"math"
	"testing"

	"govllm/kernels"
)

// heads is a way of attention to test.
type heads struct {
	kernels.AttnShape
	rotary int
	style  kernels.RopeStyle
	norm   bool
}

func (h heads) String() string {
	return fmt.Sprintf("heads=%d/%d×%d,rotary=%d,style=%d,norm=%v,window=%d,softcap=%v",
		h.Heads, h.KVHeads, h.HeadDim, h.rotary, h.style, h.norm, h.Window, h.SoftCap)
}

func way(heads_, kvHeads, headDim int, change func(*heads)) heads {
	h := heads{AttnShape: kernels.AttnShape{Heads: heads_, KVHeads: kvHeads, HeadDim: headDim,
		Scale: float32(1 / math.Sqrt(float64(headDim)))}, rotary: headDim}
	if change != nil {
		change(&h)
	}
	return h
}

var ways = []heads{
	way(1, 1, 32, nil),
	way(9, 3, 64, nil),
	way(8, 1, 64, func(h *heads) { h.style = kernels.RopeInterleaved }),
	way(2, 2, 80, func(h *heads) { h.rotary = 32 }),
	way(4, 2, 96, func(h *heads) { h.norm = true }),
	way(5, 1, 128, func(h *heads) { h.Window = 20 }),
	way(7, 7, 32, func(h *heads) { h.SoftCap = 3 }),
	way(12, 2, 64, func(h *heads) { h.Window, h.SoftCap, h.norm = 70, 2, true }),
	way(4, 1, 40, func(h *heads) { h.rotary, h.Window = 0, 1 }),
}

// cols returns the columns of qkv.
func (h heads) cols() int { return (h.Heads + 2*h.KVHeads) * h.HeadDim }

// rope returns tables for positions [0, n).
func (h heads) rope(b *bench, n int) kernels.Rope {
	half := h.rotary / 2
	if half == 0 {
		return kernels.Rope{}
	}
	cos, sin := make([]float32, n*half), make([]float32, n*half)
	for p := range n {
		for i := range half {
			angle := float64(p) * math.Pow(10000, -float64(i)/float64(half))
			cos[p*half+i], sin[p*half+i] = float32(math.Cos(angle)), float32(math.Sin(angle))
		}
	}
	return kernels.Rope{Style: h.style, RotaryDim: h.rotary, Cos: b.vector(cos), Sin: b.vector(sin)}
}

func (h heads) norms(b *bench) (q, k kernels.Vector) {
	if !h.norm {
		return nil, nil
	}
	rng := newRand(8)
	return b.vector(normal(rng, 1, h.HeadDim, 1).values), b.vector(normal(rng, 1, h.HeadDim, 1).values)
}

// cache returns a cache of numBlocks blocks.
func (b *bench) cache(h heads, layers, numBlocks, blockSize int, dt kernels.DType) kernels.KVCache {
	b.t.Helper()
	return must(b.dev.NewKVCache(kernels.KVShape{Layers: layers, NumBlocks: numBlocks, BlockSize: blockSize,
		KVHeads: h.KVHeads, HeadDim: h.HeadDim, DType: dt}))(b.t)
}

// blockSizes are the sizes both devices take, small ones first.
func blockSizes(dev kernels.Device) []int {
	m := dev.Caps().BlockSizeMultiple
	if m == 1 {
		return []int{1, 3, 16, 32}
	}
	return []int{m, 2 * m, 3 * m, 8 * m}
}

// slot returns where the cache holds position pos of a sequence.
func slot(table []int32, blockSize, pos int) int32 {
	return table[pos/blockSize]*int32(blockSize) + int32(pos%blockSize)
}

// shuffledTables cuts blocks 1… into numSeqs tables of numBlocks each.
func shuffledTables(seed uint64, numSeqs, numBlocks int) [][]int32 {
	ids := newRand(seed).Perm(numSeqs * numBlocks)
	tables := make([][]int32, numSeqs)
	for i := range tables {
		for _, id := range ids[i*numBlocks : (i+1)*numBlocks] {
			tables[i] = append(tables[i], int32(id)+1)
		}
	}
	return tables
}

// testRopeKVWrite reads q back from qkv; what went to the cache is read by
// testAttention.
func testRopeKVWrite(t *testing.T, s suite) {
	for _, h := range ways {
		x := normal(newRand(9), 6, h.cols(), 1)
		got, want := s.both(t, func(b *bench) matrix {
			bs := blockSizes(b.dev)[0]
			kv := b.cache(h, 2, 20, bs, kernels.F32)
			qkv := b.load(x)
			qn, kn := h.norms(b)
			b.q.RopeKVWrite(qkv, kv, 1, b.ints(7, 0, 1, 99, 4), b.ints(int32(bs), int32(2*bs), 0, int32(19*bs), int32(4*bs)),
				h.rope(b, 100), h.AttnShape, qn, kn, 1e-5, 5)
			m := b.rows(qkv)
			b.sync()
			return m
		})
		// Only q is defined afterwards, and the row beyond T.
		n := h.Heads * h.HeadDim
		for r := range 6 {
			w := n
			if r == 5 {
				w = h.cols()
			}
			s.near(t, fmt.Sprintf("RopeKVWrite(%v) row %d", h, r), matrix{1, w, got.row(r)[:w]}, matrix{1, w, want.row(r)[:w]})
		}
	}
}

// testAttention writes three sequences and reads them as one batch of a decode,
// a chunk and a whole prompt.
func testAttention(t *testing.T, s suite) {
	lens, queries := []int{67, 100, 41}, []int{1, 30, 41}
	for i, dt := range dtypes {
		for j, h := range ways {
			if i > 0 && j%3 != i {
				continue // every way once, each type on several
			}
			got, want := s.both(t, func(b *bench) matrix {
				return b.attention(h, dt, blockSizes(b.dev)[1], lens, queries, nil)
			})
			s.near(t, fmt.Sprintf("PagedAttention(%v, %v)", h, dt), got, want)
		}
	}
}

// attention fills a cache with sequences of random rows and returns attention's
// output for the last queries[i] positions of each. spoil, if not nil, may
// change a sequence's rows before they are written.
func (b *bench) attention(h heads, dt kernels.DType, blockSize int, lens, queries []int, spoil func(seq int, rows matrix)) matrix {
	b.t.Helper()
	longest := 0
	for _, n := range lens {
		longest = max(longest, n)
	}
	maxBlocks := (longest + blockSize - 1) / blockSize
	tables := shuffledTables(10, len(lens), maxBlocks)
	kv := b.cache(h, 2, len(lens)*maxBlocks+1, blockSize, dt)
	rope := h.rope(b, longest)
	qn, kn := h.norms(b)
	var flat, start, seqLens []int32
	var last matrix
	rng := newRand(11)
	T := 0
	start = append(start, 0)
	for i, n := range lens {
		x := normal(rng, n, h.cols(), 1)
		if spoil != nil {
			spoil(i, x)
		}
		slots := make([]int32, n)
		for p := range slots {
			slots[p] = slot(tables[i], blockSize, p)
		}
		b.q.RopeKVWrite(b.load(x), kv, 1, b.ints(counting(n)...), b.ints(slots...), rope, h.AttnShape, qn, kn, 1e-5, n)
		// The queries as q is before its turn: any q will do.
		last.values = append(last.values, x.values[(n-queries[i])*h.cols():]...)
		T += queries[i]
		start = append(start, int32(T))
		seqLens = append(seqLens, int32(n))
		flat = append(flat, tables[i]...)
	}
	last.rows, last.cols = T, h.cols()
	out := b.load(newMatrix(T+1, h.Heads*h.HeadDim))
	b.q.PagedAttention(out, b.load(last), kv, 1, kernels.Batch{NumSeqs: len(lens), MaxBlocks: maxBlocks,
		QueryStart: b.ints(start...), SeqLens: b.ints(seqLens...), BlockTable: b.ints(flat...)}, h.AttnShape, T)
	m := b.rows(out)
	b.sync()
	return m
}

// testAttentionIgnoresUnseen puts NaN where a query must not look: at later
// positions of its own sequence, in another sequence, before its window.
func testAttentionIgnoresUnseen(t *testing.T, s suite) {
	nan := float32(math.NaN())
	for _, h := range []heads{way(6, 2, 64, nil), way(6, 2, 64, func(h *heads) { h.Window = 10 })} {
		b := s.device(t, 2)
		lens, queries := []int{90, 75}, []int{30, 1}
		clean := b.attention(h, kernels.BF16, blockSizes(b.dev)[1], lens, queries, nil)
		const bad = 80 // of sequence 0, whose queries are 60…89
		dirty := b.attention(h, kernels.BF16, blockSizes(b.dev)[1], lens, queries, func(seq int, rows matrix) {
			if seq == 0 {
				for i := range rows.row(bad) {
					rows.row(bad)[i] = nan
				}
				if h.Window > 0 {
					for i := range rows.row(40) {
						rows.row(40)[i] = nan
					}
				}
			}
		})
		for r := range 31 {
			if pos := 60 + r; r < 30 && pos >= bad {
				if dirty.row(r)[0] == dirty.row(r)[0] {
					t.Errorf("window %d: position %d sees no NaN, want it", h.Window, pos)
				}
				continue
			}
			same(t, fmt.Sprintf("window %d: row %d beside NaN", h.Window, r), dirty.row(r), clean.row(r))
		}
	}
}

// testCopyBlocks copies a sequence's blocks to others and reads it there.
func testCopyBlocks(t *testing.T, s suite) {
	h := way(4, 2, 64, nil)
	b := s.device(t, 2)
	bs := blockSizes(b.dev)[1]
	n := 2*bs - 1
	kv := b.cache(h, 3, 6, bs, kernels.BF16)
	x := normal(newRand(12), n, h.cols(), 1)
	qkv := b.load(x)
	for layer := range 3 {
		b.q.RopeKVWrite(qkv, kv, layer, b.ints(counting(n)...), b.ints(counting(n)...), kernels.Rope{}, h.AttnShape, nil, nil, 0, n)
	}
	b.q.CopyBlocks(kv, b.ints(0, 5, 1, 2), 2)
	var outs []matrix
	for _, table := range [][]int32{{0, 1}, {5, 2}} {
		for layer := range 3 {
			out := b.activation(n, h.Heads*h.HeadDim)
			b.q.PagedAttention(out, qkv, kv, layer, kernels.Batch{NumSeqs: 1, MaxBlocks: 2,
				QueryStart: b.ints(0, int32(n)), SeqLens: b.ints(int32(n)), BlockTable: b.ints(table...)}, h.AttnShape, n)
			outs = append(outs, b.rows(out))
		}
	}
	b.sync()
	for layer := range 3 {
		same(t, fmt.Sprintf("layer %d read from its copy", layer), outs[3+layer].values, outs[layer].values)
	}
}
