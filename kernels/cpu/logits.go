//go:build cgo

package cpu

/*
#include "gk.h"
*/
import "C"

import (
	"math"
	"unsafe"

	"govllm/kernels"
	"govllm/kernels/internal/shape"
)

func (q *queue) Sample(out kernels.Ints, logits kernels.Activation, rows []kernels.SamplingRow) {
	shape.Sample(out, logits, len(rows))
	if len(rows) == 0 {
		return
	}
	p := q.samplingRows(rows)
	op := q.record(C.GK_SAMPLE, len(rows))
	op.x, op.idx, op.sampling = logits.(*activation).c, out.(*ints).c, p
}

func (q *queue) Process(logits kernels.Activation, rows []kernels.SamplingRow) {
	shape.Process(logits, len(rows))
	if len(rows) == 0 {
		return
	}
	p := q.samplingRows(rows)
	op := q.record(C.GK_PROCESS, len(rows))
	op.x, op.sampling = logits.(*activation).c, p
}

// samplingRows copies rows to the arena.
func (q *queue) samplingRows(rows []kernels.SamplingRow) *C.gk_sampling {
	p := q.arena.take(len(rows) * C.sizeof_gk_sampling)
	for i := range rows {
		r := &rows[i]
		c := (*C.gk_sampling)(unsafe.Add(p, i*C.sizeof_gk_sampling))
		*c = C.gk_sampling{
			temperature: C.float(r.Temperature), top_p: C.float(r.TopP), min_p: C.float(r.MinP), top_k: C.int32_t(r.TopK),
			seed: C.uint64_t(r.Seed), position: C.uint64_t(r.Position),
		}
		if r.Allowed == nil && len(r.Banned)+len(r.Bias)+len(r.Seen) == 0 {
			continue
		}
		c.changes = 1
		if r.Allowed != nil { // an empty list is not none
			c.allowed, c.num_allowed = (*C.int32_t)(toArena(q, r.Allowed)), C.int32_t(len(r.Allowed))
		}
		c.banned, c.num_banned = (*C.int32_t)(toArena(q, r.Banned)), C.int32_t(len(r.Banned))
		c.bias, c.num_bias = (*C.gk_bias)(toArena(q, r.Bias)), C.int32_t(len(r.Bias))
		c.seen, c.num_seen = (*C.gk_count)(toArena(q, r.Seen)), C.int32_t(len(r.Seen))
		c.repetition, c.frequency, c.presence = C.float(r.Repetition), C.float(r.Frequency), C.float(r.Presence)
	}
	return (*C.gk_sampling)(p)
}

// toArena copies values without pointers to the arena. It never returns nil.
func toArena[T any](q *queue, values []T) unsafe.Pointer {
	var v T
	p := q.arena.take(int(unsafe.Sizeof(v)) * max(1, len(values)))
	copy(unsafe.Slice((*T)(p), len(values)), values)
	return p
}

// logprobDownload is one Logprobs of a step: the device leaves logits, and the
// logarithm is taken here.
type logprobDownload struct {
	dst  kernels.Logprobs
	rows []C.gk_logprobs // C memory
}

func (q *queue) Logprobs(out kernels.Logprobs, logits kernels.Activation, chosen kernels.Ints, rows []kernels.LogprobRow) {
	shape.Logprobs(out, logits, chosen, rows)
	if len(rows) == 0 {
		return
	}
	asked := unsafe.Slice((*C.gk_logprobs)(q.arena.take(len(rows)*C.sizeof_gk_logprobs)), len(rows))
	for i := range rows {
		r := &rows[i]
		n := r.Width()
		ids := q.arena.take(4 * n)
		k := r.K
		if len(r.IDs) > 0 {
			k = 0
			copy(unsafe.Slice((*int32)(ids), n)[1:], r.IDs)
		}
		asked[i] = C.gk_logprobs{row: C.int32_t(r.Row), n: C.int32_t(n), k: C.int32_t(k),
			ids: (*C.int32_t)(ids), logits: (*C.float)(q.arena.take(4 * n))}
	}
	op := q.record(C.GK_LOGPROBS, len(rows))
	op.x, op.idx, op.logprobs = logits.(*activation).c, chosen.(*ints).c, &asked[0]
	q.asked = append(q.asked, logprobDownload{out, asked})
}

// finish writes the answers to where they were asked for.
func (d *logprobDownload) finish() {
	ids, values := d.dst.TokenIDs, d.dst.Values
	for i := range d.rows {
		r := &d.rows[i]
		n := int(r.n)
		copy(ids, unsafe.Slice((*int32)(r.ids), n))
		logSum := math.NaN()
		if r.mass > 0 {
			logSum = math.Log(float64(r.mass) / (1 << 40))
		}
		for j, x := range unsafe.Slice((*float32)(r.logits), n) {
			values[j] = float32(float64(x) - float64(r.top) - logSum)
		}
		d.dst.Ranks[i] = int32(r.rank)
		ids, values = ids[n:], values[n:]
	}
}
