package ref

import (
	"fmt"
	"slices"

	"govllm/kernels"
	"govllm/kernels/internal/shape"
)

// queue keeps what was recorded as closures; Sync calls them in order.
type queue struct {
	dev *Device
	ops []func() error
	err error // of an earlier Sync
}

func (d *Device) NewQueue(maxOps int) (kernels.Queue, error) {
	if err := shape.Sizes("queue", maxOps); err != nil {
		return nil, err
	}
	return &queue{dev: d, ops: make([]func() error, 0, maxOps)}, nil
}

func (q *queue) record(op func() error) {
	if len(q.ops) == cap(q.ops) {
		panic(fmt.Sprintf("ref: more than the queue's %d operations between two Syncs", cap(q.ops)))
	}
	q.ops = append(q.ops, op)
}

func (q *queue) Sync() error {
	for _, op := range q.ops {
		if q.err != nil {
			break
		}
		q.err = op()
	}
	clear(q.ops)
	q.ops = q.ops[:0]
	return q.err
}

func (q *queue) Upload(dst kernels.Ints, src []int32) {
	shape.Upload(dst, src)
	src = slices.Clone(src)
	q.record(func() error { copy(dst.(ints), src); return nil })
}

func (q *queue) Download(dst []int32, src kernels.Ints) {
	shape.Download(dst, src)
	q.record(func() error { copy(dst, src.(ints)); return nil })
}

func (q *queue) DownloadRows(dst []float32, src kernels.Activation, n int) {
	cols := shape.DownloadRows(dst, src, n)
	q.record(func() error { copy(dst[:n*cols], src.(*activation).values); return nil })
}

func (q *queue) Embed(out kernels.Activation, table kernels.Weight, ids kernels.Ints, scale float32, T int) {
	shape.Embed(out, table, ids, T)
	q.record(func() error {
		return embed(out.(*activation), table.(*weight), ids.(ints), scale, T)
	})
}

func (q *queue) RMSNorm(out, x kernels.Activation, w kernels.Vector, eps float32, T int) {
	shape.RMSNorm("RMSNorm", out, x, w, T)
	q.record(func() error {
		for t := range T {
			rmsNorm(out.(*activation).row(t), x.(*activation).row(t), w.(vector), eps)
		}
		return nil
	})
}

func (q *queue) AddRMSNorm(out, x kernels.Activation, w kernels.Vector, eps float32, T int) {
	shape.RMSNorm("AddRMSNorm", out, x, w, T)
	q.record(func() error {
		normed := make([]float32, w.Len())
		for t := range T {
			rmsNorm(normed, x.(*activation).row(t), w.(vector), eps)
			for i, v := range normed {
				out.(*activation).row(t)[i] += v
			}
		}
		return nil
	})
}

func (q *queue) Linear(out, x kernels.Activation, w kernels.Weight, bias kernels.Vector, accumulate bool, T int) {
	shape.Linear(out, x, w, bias, T)
	var b vector
	if bias != nil {
		b = bias.(vector)
	}
	q.record(func() error {
		wm := w.(*weight)
		q.dev.parallel(wm.n, func(lo, hi int) {
			linear(out.(*activation), x.(*activation), wm, b, accumulate, T, lo, hi)
		})
		return nil
	})
}

func (q *queue) GateMul(out, gu kernels.Activation, kind kernels.GateKind, T int) {
	shape.GateMul(out, gu, kind, T)
	q.record(func() error {
		for t := range T {
			gateMul(out.(*activation).row(t), gu.(*activation).row(t), kind)
		}
		return nil
	})
}

func (q *queue) Route(ids kernels.Ints, weights, logits kernels.Activation, k int, normalize bool, T int) {
	shape.Route(ids, weights, logits, k, T)
	q.record(func() error {
		for t := range T {
			route(ids.(ints)[t*k:(t+1)*k], weights.(*activation).row(t), logits.(*activation).row(t), normalize)
		}
		return nil
	})
}

func (q *queue) LinearEach(out, x kernels.Activation, ws []kernels.Weight, ids kernels.Ints, each, S int) {
	shape.LinearEach(out, x, ws, ids, each, S)
	q.record(func() error {
		for s, id := range ids.(ints)[:S] {
			if err := inRange("LinearEach", "matrix", s, id, len(ws)); err != nil {
				return err
			}
		}
		n, _ := ws[0].WeightShape()
		q.dev.parallel(n, func(lo, hi int) {
			for s, id := range ids.(ints)[:S] {
				for c := lo; c < hi; c++ {
					out.(*activation).row(s)[c] = dot(ws[id].(*weight).row(c), x.(*activation).row(s/each))
				}
			}
		})
		return nil
	})
}

func (q *queue) AddWeighted(out, x, weights kernels.Activation, T int) {
	shape.AddWeighted(out, x, weights, T)
	q.record(func() error {
		for t := range T {
			addWeighted(out.(*activation).row(t), x.(*activation), t, weights.(*activation).row(t))
		}
		return nil
	})
}

func (q *queue) SoftCap(x kernels.Activation, cap float32, T int) {
	shape.SoftCap(x, cap, T)
	q.record(func() error {
		for t := range T {
			for i, v := range x.(*activation).row(t) {
				x.(*activation).row(t)[i] = softCap(v, cap)
			}
		}
		return nil
	})
}

func (q *queue) RopeKVWrite(qkv kernels.Activation, kv kernels.KVCache, layer int, positions, slots kernels.Ints,
	rope kernels.Rope, s kernels.AttnShape, qNorm, kNorm kernels.Vector, eps float32, T int) {
	shape.RopeKVWrite(qkv, kv, layer, positions, slots, rope, s, qNorm, kNorm, T)
	var qn, kn vector
	if qNorm != nil {
		qn = qNorm.(vector)
	}
	if kNorm != nil {
		kn = kNorm.(vector)
	}
	q.record(func() error {
		return ropeKVWrite(qkv.(*activation), kv.(*kvCache), layer, positions.(ints), slots.(ints), rope, s, qn, kn, eps, T)
	})
}

func (q *queue) PagedAttention(out, qkv kernels.Activation, kv kernels.KVCache, layer int, b kernels.Batch, s kernels.AttnShape, T int) {
	shape.PagedAttention(out, qkv, kv, layer, b, s, T)
	q.record(func() error {
		return q.dev.pagedAttention(out.(*activation), qkv.(*activation), kv.(*kvCache), layer, b, s, T)
	})
}

func (q *queue) GatherRows(out, x kernels.Activation, rows kernels.Ints, n int) {
	shape.GatherRows(out, x, rows, n)
	q.record(func() error {
		src, idx := x.(*activation), rows.(ints)
		for i := range n {
			if err := inRange("GatherRows", "row", i, idx[i], src.rows); err != nil {
				return err
			}
			copy(out.(*activation).row(i), src.row(int(idx[i])))
		}
		return nil
	})
}

func (q *queue) Sample(out kernels.Ints, logits kernels.Activation, rows []kernels.SamplingRow) {
	shape.Sample(out, logits, len(rows))
	rows = cloneRows(rows)
	q.record(func() error {
		q.dev.parallel(len(rows), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				out.(ints)[i] = int32(sample(logits.(*activation).row(i), rows[i]))
			}
		})
		return nil
	})
}

func cloneRows(rows []kernels.SamplingRow) []kernels.SamplingRow {
	rows = slices.Clone(rows)
	for i := range rows {
		r := &rows[i]
		r.Allowed, r.Banned = slices.Clone(r.Allowed), slices.Clone(r.Banned)
		r.Bias, r.Seen = slices.Clone(r.Bias), slices.Clone(r.Seen)
	}
	return rows
}

func (q *queue) Process(logits kernels.Activation, rows []kernels.SamplingRow) {
	shape.Process(logits, len(rows))
	rows = cloneRows(rows)
	q.record(func() error {
		for i, r := range rows {
			copy(logits.(*activation).row(i), process(logits.(*activation).row(i), r))
		}
		return nil
	})
}

func (q *queue) Logprobs(out kernels.Logprobs, logits kernels.Activation, chosen kernels.Ints, rows []kernels.LogprobRow) {
	shape.Logprobs(out, logits, chosen, rows)
	rows = slices.Clone(rows)
	for i := range rows {
		rows[i].IDs = slices.Clone(rows[i].IDs)
	}
	q.record(func() error {
		ids, values := out.TokenIDs, out.Values
		for i, r := range rows {
			n := r.Width()
			out.Ranks[i] = logprobs(logits.(*activation).row(r.Row), chosen.(ints)[r.Row], r, ids[:n], values[:n])
			ids, values = ids[n:], values[n:]
		}
		return nil
	})
}

func (q *queue) CopyBlocks(kv kernels.KVCache, pairs kernels.Ints, n int) {
	shape.CopyBlocks(pairs, n)
	q.record(func() error { return copyBlocks(kv.(*kvCache), pairs.(ints)[:2*n]) })
}

// inRange reports value i of an operation's index array if it is not in [0, n).
func inRange(op, what string, i int, value int32, n int) error {
	if value < 0 || int(value) >= n {
		return fmt.Errorf("%w: %s: %s %d of entry %d is not in [0, %d)", kernels.ErrIndex, op, what, value, i, n)
	}
	return nil
}
