//go:build cgo

package cpu

/*
#include "gk.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"govllm/kernels"
	"govllm/kernels/internal/shape"
)

// queue records operations in C memory. A download goes to the arena during the
// step and from there to its Go slice after it.
type queue struct {
	dev   *Device
	ops   []C.gk_op // C memory
	n     int
	arena arena
	ints  []intDownload
	rows  []rowDownload
	asked []logprobDownload
	plans []plan
	used  int // plans of this step
}

type intDownload struct {
	dst []int32
	src unsafe.Pointer
}

type rowDownload struct {
	dst []float32
	src unsafe.Pointer
}

// plan is the attention work of one batch and head shape; the layers of a step
// share it.
type plan struct {
	c     *C.gk_plan
	batch kernels.Batch
	kv    *C.gk_kv
	shape C.gk_shape
}

// maxRowsPerItem bounds the rows (queries × heads of a group) of an attention
// item, where a group alone does not exceed it.
const maxRowsPerItem = 48

// partialFloats is the room for results of split attention: 16 MiB, touched
// only as far as used.
const partialFloats = 4 << 20

func (d *Device) NewQueue(maxOps int) (kernels.Queue, error) {
	if err := shape.Sizes("queue", maxOps); err != nil {
		return nil, err
	}
	// Attention adds a plan for each batch and head shape of a step.
	n := 2 * maxOps
	p, err := d.alloc("a queue", int64(n)*C.sizeof_gk_op)
	if err != nil {
		return nil, err
	}
	return &queue{
		dev:   d,
		ops:   unsafe.Slice((*C.gk_op)(p), n),
		arena: arena{dev: d},
		ints:  make([]intDownload, 0, maxOps),
		rows:  make([]rowDownload, 0, maxOps),
	}, nil
}

// record returns the next operation to fill. Its first line and its chunks
// belong to the pool.
func (q *queue) record(kind, T int) *C.gk_op {
	if q.dev.c == nil {
		panic("cpu: the queue's device is closed")
	}
	if q.n == len(q.ops) {
		panic(fmt.Sprintf("cpu: more than the queue's %d operations between two Syncs", len(q.ops)/2))
	}
	op := &q.ops[q.n]
	q.n++
	op.kind, op.T = C.int32_t(kind), C.int32_t(T)
	return op
}

func (q *queue) Sync() error {
	n := q.n
	q.n, q.used = 0, 0
	if q.dev.err == nil && n > 0 {
		q.dev.run(&q.ops[0], n)
	}
	if q.dev.err == nil {
		for _, d := range q.ints {
			copy(d.dst, unsafe.Slice((*int32)(d.src), len(d.dst)))
		}
		for _, d := range q.rows {
			copy(d.dst, unsafe.Slice((*float32)(d.src), len(d.dst)))
		}
		for _, d := range q.asked {
			d.finish()
		}
	}
	clear(q.ints)
	clear(q.rows)
	clear(q.asked)
	q.ints, q.rows, q.asked = q.ints[:0], q.rows[:0], q.asked[:0]
	q.arena.reset()
	return q.dev.err
}

func (d *Device) run(ops *C.gk_op, n int) {
	switch C.gk_run(d.c, ops, C.int(n)) {
	case 0:
	case 1:
		d.err = indexError(&d.c.error)
	default:
		d.err = fmt.Errorf("cpu: no memory for a step's scratch")
	}
}

var opNames = map[C.int32_t]string{
	C.GK_EMBED: "Embed", C.GK_ROPE_WRITE: "RopeKVWrite", C.GK_PLAN: "PagedAttention",
	C.GK_GATHER: "GatherRows", C.GK_COPY_BLOCKS: "CopyBlocks", C.GK_LINEAR_EACH: "LinearEach",
}

var indexNames = map[C.int32_t]string{
	C.GK_TOKEN: "token", C.GK_ROW: "row", C.GK_POSITION: "position", C.GK_SLOT: "slot",
	C.GK_BLOCK: "block", C.GK_LENGTH: "length", C.GK_QUERIES: "end of queries",
	C.GK_MATRIX: "matrix",
}

func indexError(e *C.gk_error) error {
	return fmt.Errorf("%w: %s: %s %d of entry %d is not in [0, %d)", kernels.ErrIndex,
		opNames[e.kind], indexNames[e.what], int64(e.value), int32(e.entry), int64(e.limit))
}

func (q *queue) copyOp(dst, src unsafe.Pointer, bytes int) {
	op := q.record(C.GK_COPY, 1)
	op.dst, op.src, op.bytes = dst, src, C.int64_t(bytes)
}

func (q *queue) Upload(dst kernels.Ints, src []int32) {
	shape.Upload(dst, src)
	if len(src) == 0 {
		return
	}
	p := q.arena.take(4 * len(src))
	copy(unsafe.Slice((*int32)(p), len(src)), src)
	q.copyOp(unsafe.Pointer(dst.(*ints).c.data), p, 4*len(src))
	// A batch uploaded anew needs a new plan.
	for i := range q.plans[:q.used] {
		b := &q.plans[i].batch
		if b.QueryStart == dst || b.SeqLens == dst || b.BlockTable == dst {
			q.plans[i].batch = kernels.Batch{}
		}
	}
}

func (q *queue) Download(dst []int32, src kernels.Ints) {
	shape.Download(dst, src)
	if len(dst) == 0 {
		return
	}
	p := q.arena.take(4 * len(dst))
	q.copyOp(p, unsafe.Pointer(src.(*ints).c.data), 4*len(dst))
	q.ints = append(q.ints, intDownload{dst, p})
}

func (q *queue) DownloadRows(dst []float32, src kernels.Activation, n int) {
	cols := shape.DownloadRows(dst, src, n)
	if n == 0 {
		return
	}
	op := q.record(C.GK_COPY_ROWS, n)
	op.x = src.(*activation).c
	op.dst = q.arena.take(4 * n * cols)
	q.rows = append(q.rows, rowDownload{dst[:n*cols], op.dst})
}

func (q *queue) Embed(out kernels.Activation, table kernels.Weight, ids kernels.Ints, scale float32, T int) {
	shape.Embed(out, table, ids, T)
	op := q.record(C.GK_EMBED, T)
	op.out, op.w, op.idx = out.(*activation).c, table.(*weight).c, ids.(*ints).c
	op.f0 = C.float(scale)
}

func (q *queue) RMSNorm(out, x kernels.Activation, w kernels.Vector, eps float32, T int) {
	shape.RMSNorm("RMSNorm", out, x, w, T)
	q.norm(C.GK_RMSNORM, out, x, w, eps, T)
}

func (q *queue) AddRMSNorm(out, x kernels.Activation, w kernels.Vector, eps float32, T int) {
	shape.RMSNorm("AddRMSNorm", out, x, w, T)
	q.norm(C.GK_ADD_RMSNORM, out, x, w, eps, T)
}

func (q *queue) norm(kind int, out, x kernels.Activation, w kernels.Vector, eps float32, T int) {
	op := q.record(kind, T)
	op.out, op.x, op.bias = out.(*activation).c, x.(*activation).c, floats(w)
	op.f0 = C.float(eps)
}

func (q *queue) Linear(out, x kernels.Activation, w kernels.Weight, bias kernels.Vector, accumulate bool, T int) {
	shape.Linear(out, x, w, bias, T)
	op := q.record(C.GK_LINEAR, T)
	op.out, op.x, op.w, op.bias = out.(*activation).c, x.(*activation).c, w.(*weight).c, floats(bias)
	op.flag = 0
	if accumulate {
		op.flag = 1
	}
}

func (q *queue) GateMul(out, gu kernels.Activation, kind kernels.GateKind, T int) {
	shape.GateMul(out, gu, kind, T)
	op := q.record(C.GK_GATE, T)
	op.out, op.x, op.flag = out.(*activation).c, gu.(*activation).c, C.int32_t(kind)
}

func (q *queue) Route(ids kernels.Ints, weights, logits kernels.Activation, k int, normalize bool, T int) {
	shape.Route(ids, weights, logits, k, T)
	op := q.record(C.GK_ROUTE, T)
	op.idx, op.out, op.x = ids.(*ints).c, weights.(*activation).c, logits.(*activation).c
	op.flag = 0
	if normalize {
		op.flag = 1
	}
}

func (q *queue) LinearEach(out, x kernels.Activation, ws []kernels.Weight, ids kernels.Ints, each, S int) {
	shape.LinearEach(out, x, ws, ids, each, S)
	list := unsafe.Slice((**C.gk_weight)(q.arena.take(len(ws)*int(unsafe.Sizeof(uintptr(0))))), len(ws))
	for i, w := range ws {
		list[i] = w.(*weight).c
	}
	op := q.record(C.GK_LINEAR_EACH, S)
	op.out, op.x, op.idx = out.(*activation).c, x.(*activation).c, ids.(*ints).c
	op.ws, op.num_ws, op.each = &list[0], C.int32_t(len(ws)), C.int32_t(each)
}

func (q *queue) AddWeighted(out, x, weights kernels.Activation, T int) {
	shape.AddWeighted(out, x, weights, T)
	w := (*C.gk_act)(q.arena.take(C.sizeof_gk_act))
	*w = weights.(*activation).c
	op := q.record(C.GK_ADD_WEIGHTED, T)
	op.out, op.x, op.src = out.(*activation).c, x.(*activation).c, unsafe.Pointer(w)
}

func (q *queue) SoftCap(x kernels.Activation, cap float32, T int) {
	shape.SoftCap(x, cap, T)
	op := q.record(C.GK_SOFTCAP, T)
	op.x, op.f0 = x.(*activation).c, C.float(cap)
}

func (q *queue) RopeKVWrite(qkv kernels.Activation, kv kernels.KVCache, layer int, positions, slots kernels.Ints,
	rope kernels.Rope, s kernels.AttnShape, qNorm, kNorm kernels.Vector, eps float32, T int) {
	shape.RopeKVWrite(qkv, kv, layer, positions, slots, rope, s, qNorm, kNorm, T)
	op := q.record(C.GK_ROPE_WRITE, T)
	op.x, op.kv, op.layer = qkv.(*activation).c, kv.(*kvCache).c, C.int32_t(layer)
	op.idx, op.idx2 = positions.(*ints).c, slots.(*ints).c
	op.shape = attnShape(s)
	op.rotary, op.style = C.int32_t(rope.RotaryDim), C.int32_t(rope.Style)
	op.cos, op.sin, op.positions = nil, nil, 1<<31-1
	if rope.RotaryDim > 0 {
		op.cos, op.sin = floats(rope.Cos), floats(rope.Sin)
		op.positions = C.int32_t(rope.Cos.Len() / (rope.RotaryDim / 2))
	}
	op.bias, op.bias2, op.f0 = floats(qNorm), floats(kNorm), C.float(eps)
}

func (q *queue) PagedAttention(out, qkv kernels.Activation, kv kernels.KVCache, layer int, b kernels.Batch, s kernels.AttnShape, T int) {
	shape.PagedAttention(out, qkv, kv, layer, b, s, T)
	p := q.planFor(kv.(*kvCache).c, b, s, T)
	op := q.record(C.GK_ATTENTION, T)
	q.setBatch(op, kv.(*kvCache).c, b, s)
	op.out, op.x, op.layer, op.plan = out.(*activation).c, qkv.(*activation).c, C.int32_t(layer), p
}

// setBatch fills what a plan and its attention operations have in common.
func (q *queue) setBatch(op *C.gk_op, kv *C.gk_kv, b kernels.Batch, s kernels.AttnShape) {
	op.kv, op.shape = kv, attnShape(s)
	op.idx, op.idx2, op.idx3 = b.QueryStart.(*ints).c, b.SeqLens.(*ints).c, b.BlockTable.(*ints).c
	op.num_seqs, op.max_blocks = C.int32_t(b.NumSeqs), C.int32_t(b.MaxBlocks)
	op.tile_queries = C.int32_t(tileQueries(s))
}

// tileQueries is how many queries of a sequence an attention item takes.
func tileQueries(s kernels.AttnShape) int { return max(1, maxRowsPerItem/(s.Heads/s.KVHeads)) }

// planFor returns the plan of this batch and shape, recording it if this step
// has none yet.
func (q *queue) planFor(kv *C.gk_kv, b kernels.Batch, s kernels.AttnShape, T int) *C.gk_plan {
	cs := attnShape(s)
	for i := range q.plans[:q.used] {
		if p := &q.plans[i]; p.batch == b && p.kv == kv && p.shape == cs {
			return p.c
		}
	}
	if q.used == len(q.plans) {
		q.plans = append(q.plans, plan{c: (*C.gk_plan)(q.mustAlloc("a plan", C.sizeof_gk_plan))})
	}
	p := &q.plans[q.used]
	q.used++
	p.batch, p.kv, p.shape = b, kv, cs
	q.growPlan(p.c, b, s, T)
	op := q.record(C.GK_PLAN, T)
	q.setBatch(op, kv, b, s)
	op.plan = p.c
	return p.c
}

// growPlan makes room for a plan's items: every sequence has at most one tile
// that is not full, and tiles are split only while there are few.
func (q *queue) growPlan(p *C.gk_plan, b kernels.Batch, s kernels.AttnShape, T int) {
	tiles := 4 * q.dev.threads
	items := s.KVHeads*(T/tileQueries(s)+b.NumSeqs) + tiles*(tiles+1)
	if int(p.cap_items) < items {
		items += items / 2
		p.items = (*C.gk_item)(q.mustAlloc("a plan", int64(items)*C.sizeof_gk_item))
		p.cap_items = C.int32_t(items)
	}
	if p.tiles == nil {
		p.tiles = (*C.gk_tile)(q.mustAlloc("a plan", int64(tiles)*C.sizeof_gk_tile))
		p.cap_tiles = C.int32_t(tiles)
		p.partial = (*C.float)(q.mustAlloc("a plan", 4*partialFloats))
		p.cap_partial = partialFloats
	}
}

// mustAlloc panics where the system has no memory: recording returns no error.
func (q *queue) mustAlloc(what string, bytes int64) unsafe.Pointer {
	p, err := q.dev.alloc(what, bytes)
	if err != nil {
		panic(err)
	}
	return p
}

func (q *queue) GatherRows(out, x kernels.Activation, rows kernels.Ints, n int) {
	shape.GatherRows(out, x, rows, n)
	op := q.record(C.GK_GATHER, n)
	op.out, op.x, op.idx = out.(*activation).c, x.(*activation).c, rows.(*ints).c
}

func (q *queue) CopyBlocks(kv kernels.KVCache, pairs kernels.Ints, n int) {
	shape.CopyBlocks(pairs, n)
	op := q.record(C.GK_COPY_BLOCKS, n)
	op.kv, op.idx = kv.(*kvCache).c, pairs.(*ints).c
}

// floats returns a vector's data, nil for none.
func floats(v kernels.Vector) *C.float {
	if v == nil {
		return nil
	}
	return v.(*vector).data
}

func attnShape(s kernels.AttnShape) C.gk_shape {
	return C.gk_shape{
		heads: C.int32_t(s.Heads), kv_heads: C.int32_t(s.KVHeads), head_dim: C.int32_t(s.HeadDim),
		window: C.int32_t(s.Window), scale: C.float(s.Scale), softcap: C.float(s.SoftCap),
	}
}

// arena is C memory for what a step uploads and downloads. It grows by new
// pieces, since operations point into the old ones, and keeps them all.
type arena struct {
	dev    *Device
	pieces []arenaPiece
	at     int // piece in use
	used   int // bytes of it
}

type arenaPiece struct {
	p     unsafe.Pointer
	bytes int
}

func (a *arena) reset() { a.at, a.used = 0, 0 }

func (a *arena) take(bytes int) unsafe.Pointer {
	bytes = (bytes + 63) &^ 63
	for ; a.at < len(a.pieces); a.at, a.used = a.at+1, 0 {
		if piece := a.pieces[a.at]; a.used+bytes <= piece.bytes {
			p := unsafe.Add(piece.p, a.used)
			a.used += bytes
			return p
		}
	}
	size := max(bytes, 1<<20)
	if n := len(a.pieces); n > 0 {
		size = max(size, 2*a.pieces[n-1].bytes)
	}
	p, err := a.dev.alloc("a step's transfers", int64(size))
	if err != nil {
		panic(err)
	}
	a.pieces = append(a.pieces, arenaPiece{p, size})
	a.used = bytes
	return p
}
