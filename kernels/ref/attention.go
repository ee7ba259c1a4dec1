package ref

import (
	"fmt"
	"math"

	"govllm/kernels"
)

// pagedAttention runs every query of the batch over its own cached positions.
func (d *Device) pagedAttention(out, qkv *activation, kv *kvCache, layer int, b kernels.Batch, s kernels.AttnShape, T int) error {
	start, lens, table := b.QueryStart.(ints), b.SeqLens.(ints), b.BlockTable.(ints)
	if err := checkBatch(kv, b, T); err != nil {
		return err
	}
	for i := range b.NumSeqs {
		first, n := int(start[i]), int(start[i+1]-start[i])
		blocks := table[i*b.MaxBlocks : (i+1)*b.MaxBlocks]
		d.parallel(n*s.Heads, func(lo, hi int) {
			for j := lo; j < hi; j++ {
				r, h := j/s.Heads, j%s.Heads
				q := qkv.row(first + r)[h*s.HeadDim : (h+1)*s.HeadDim]
				o := out.row(first + r)[h*s.HeadDim : (h+1)*s.HeadDim]
				attend(o, q, kv, layer, h/(s.Heads/s.KVHeads), int(lens[i])-n+r, blocks, s)
			}
		})
	}
	return nil
}

// checkBatch reports a batch whose numbers point outside the rows or the cache.
func checkBatch(kv *kvCache, b kernels.Batch, T int) error {
	const op = "PagedAttention"
	start, lens, table := b.QueryStart.(ints), b.SeqLens.(ints), b.BlockTable.(ints)
	bs := kv.shape.BlockSize
	for i := range b.NumSeqs {
		n := start[i+1] - start[i]
		if start[i] < 0 || n < 0 || int(start[i+1]) > T {
			return fmt.Errorf("%w: %s: rows [%d, %d) of sequence %d are not in [0, %d)", kernels.ErrIndex, op, start[i], start[i+1], i, T)
		}
		if lens[i] < n || int(lens[i]) > b.MaxBlocks*bs {
			return fmt.Errorf("%w: %s: length %d of sequence %d is not in [%d, %d]", kernels.ErrIndex, op, lens[i], i, n, b.MaxBlocks*bs)
		}
		for j := range (int(lens[i]) + bs - 1) / bs {
			if err := inRange(op, "block", i, table[i*b.MaxBlocks+j], kv.shape.NumBlocks); err != nil {
				return err
			}
		}
	}
	return nil
}

// attend sets out to softmax(q·kᵀ·scale)·v over the positions that the query
// at position pos sees.
func attend(out, q []float32, kv *kvCache, layer, head, pos int, blocks ints, s kernels.AttnShape) {
	bs := kv.shape.BlockSize
	first := 0
	if s.Window > 0 {
		first = max(0, pos-s.Window+1)
	}
	at := func(j int) int { return kv.at(layer, int(blocks[j/bs])*bs+j%bs, head) }

	scores := make([]float32, pos+1-first)
	top := float32(math.Inf(-1))
	for i := range scores {
		k := at(first + i)
		x := dot(q, kv.k[k:k+len(q)]) * s.Scale
		if s.SoftCap > 0 {
			x = softCap(x, s.SoftCap)
		}
		scores[i] = x
		top = max(top, x)
	}

	var sum float64
	for i, x := range scores {
		e := math.Exp(float64(x - top))
		scores[i] = float32(e)
		sum += e
	}

	clear(out)
	for i, p := range scores {
		v := at(first + i)
		for c, x := range kv.v[v : v+len(out)] {
			out[c] += float32(p * x)
		}
	}
	for c := range out {
		out[c] = float32(float64(out[c]) / sum)
	}
}
