// Package shape checks what callers hand to a Device or a Queue, alike for
// every backend.
//
// The checks of constructors return errors: their sizes come from model files
// and flags. Those of queue operations panic with *Error: a wrong shape while
// recording is a mistake in our own code.
package shape

import (
	"fmt"

	"govllm/kernels"
)

// Error is the panic value of a shape mistake.
type Error struct {
	Op     string
	Detail string
}

func (e *Error) Error() string { return "kernels: " + e.Op + ": " + e.Detail }

func fail(op, format string, args ...any) {
	panic(&Error{Op: op, Detail: fmt.Sprintf(format, args...)})
}

// Weight checks the arguments of NewWeight.
func Weight(want kernels.DType, n, k int) error {
	if !valid(want) {
		return fmt.Errorf("kernels: weight: wanted type %d is not a DType", want)
	}
	return Sizes(fmt.Sprintf("weight [%d, %d]", n, k), n, k)
}

// Pack checks a Pack and returns the number of rows.
func Pack(w kernels.Weight, row int, srcType kernels.DType, src []byte) (n int, err error) {
	if !valid(srcType) {
		return 0, fmt.Errorf("kernels: pack: source type %d is not a DType", srcType)
	}
	rows, k := w.WeightShape()
	if n = len(src) / (k * srcType.Size()); n*k*srcType.Size() != len(src) {
		return 0, fmt.Errorf("kernels: pack: %d bytes of %v are no rows of %d", len(src), srcType, k)
	}
	if row < 0 || n > rows-row {
		return 0, fmt.Errorf("kernels: pack: rows %d to %d of a weight [%d, %d]", row, row+n, rows, k)
	}
	return n, nil
}

func valid(t kernels.DType) bool { return t >= kernels.F32 && t <= kernels.F16 }

// Sizes checks the arguments of NewWeight, NewActivation, NewInts and NewQueue.
func Sizes(what string, sizes ...int) error {
	for _, n := range sizes {
		if n <= 0 {
			return fmt.Errorf("kernels: %s: size %d must be positive", what, n)
		}
	}
	return nil
}

// KV checks the shape of a cache against what the device can do.
func KV(s kernels.KVShape, caps kernels.Caps) error {
	if err := Sizes("KV cache", s.Layers, s.NumBlocks, s.BlockSize, s.KVHeads, s.HeadDim); err != nil {
		return err
	}
	if s.BlockSize%caps.BlockSizeMultiple != 0 {
		return fmt.Errorf("kernels: KV cache: block size %d is no multiple of %d", s.BlockSize, caps.BlockSizeMultiple)
	}
	if s.HeadDim > caps.MaxHeadDim {
		return fmt.Errorf("kernels: KV cache: head_dim %d is over this device's %d", s.HeadDim, caps.MaxHeadDim)
	}
	for _, t := range caps.KVDTypes {
		if t == s.DType {
			return nil
		}
	}
	return fmt.Errorf("kernels: KV cache: this device has no %v cache, only %v", s.DType, caps.KVDTypes)
}

func rows(op, name string, a kernels.Activation, n int) (cols int) {
	have, cols := a.ActivationShape()
	if n < 0 || n > have {
		fail(op, "%d rows of %s [%d, %d]", n, name, have, cols)
	}
	return cols
}

func ints(op, name string, a kernels.Ints, n int) {
	if n > a.Len() {
		fail(op, "%s needs %d values, holds %d", name, n, a.Len())
	}
}

// Upload checks an Upload, Download checks a Download.
func Upload(dst kernels.Ints, src []int32) { ints("Upload", "dst", dst, len(src)) }

// Download checks that src holds what dst asks for.
func Download(dst []int32, src kernels.Ints) { ints("Download", "src", src, len(dst)) }

// DownloadRows checks a DownloadRows and returns the columns.
func DownloadRows(dst []float32, src kernels.Activation, n int) int {
	cols := rows("DownloadRows", "src", src, n)
	if len(dst) < n*cols {
		fail("DownloadRows", "dst holds %d values, [%d, %d] need %d", len(dst), n, cols, n*cols)
	}
	return cols
}

// Embed checks an Embed.
func Embed(out kernels.Activation, table kernels.Weight, ids kernels.Ints, T int) {
	cols := rows("Embed", "out", out, T)
	ints("Embed", "ids", ids, T)
	if _, k := table.WeightShape(); k != cols {
		fail("Embed", "table has %d columns, out %d", k, cols)
	}
}

// RMSNorm checks an RMSNorm or an AddRMSNorm.
func RMSNorm(op string, out, x kernels.Activation, w kernels.Vector, T int) {
	d := rows(op, "x", x, T)
	if o := rows(op, "out", out, T); o != d || w.Len() != d {
		fail(op, "x has %d columns, out %d, w %d", d, o, w.Len())
	}
}

// Route checks a Route.
func Route(out kernels.Ints, weights, logits kernels.Activation, k, T int) {
	cols := rows("Route", "logits", logits, T)
	if have := rows("Route", "weights", weights, T); k < 1 || k > cols || have != k {
		fail("Route", "%d of %d columns, %d weights", k, cols, have)
	}
	ints("Route", "ids", out, T*k)
}

// LinearEach checks a LinearEach.
func LinearEach(out, x kernels.Activation, ws []kernels.Weight, ids kernels.Ints, each, S int) {
	if each < 1 || len(ws) == 0 {
		fail("LinearEach", "%d matrices, %d rows of each x", len(ws), each)
	}
	n, k := ws[0].WeightShape()
	for i, w := range ws {
		if wn, wk := w.WeightShape(); wn != n || wk != k {
			fail("LinearEach", "matrix %d is [%d, %d], the first [%d, %d]", i, wn, wk, n, k)
		}
	}
	if cols := rows("LinearEach", "x", x, (S+each-1)/each); cols != k {
		fail("LinearEach", "x has %d columns, the matrices are [%d, %d]", cols, n, k)
	}
	if cols := rows("LinearEach", "out", out, S); cols != n {
		fail("LinearEach", "out has %d columns, the matrices are [%d, %d]", cols, n, k)
	}
	ints("LinearEach", "ids", ids, S)
}

// AddWeighted checks an AddWeighted.
func AddWeighted(out, x, weights kernels.Activation, T int) {
	k := rows("AddWeighted", "weights", weights, T)
	if o, d := rows("AddWeighted", "out", out, T), rows("AddWeighted", "x", x, T*k); o != d {
		fail("AddWeighted", "x has %d columns, out %d", d, o)
	}
}

// SoftCap checks a SoftCap.
func SoftCap(x kernels.Activation, cap float32, T int) {
	rows("SoftCap", "x", x, T)
	if !(cap > 0) {
		fail("SoftCap", "cap %v must be positive", cap)
	}
}

// Linear checks a Linear.
func Linear(out, x kernels.Activation, w kernels.Weight, bias kernels.Vector, T int) {
	n, k := w.WeightShape()
	if cols := rows("Linear", "x", x, T); cols != k {
		fail("Linear", "x has %d columns, w is [%d, %d]", cols, n, k)
	}
	if cols := rows("Linear", "out", out, T); cols != n {
		fail("Linear", "out has %d columns, w is [%d, %d]", cols, n, k)
	}
	if bias != nil && bias.Len() != n {
		fail("Linear", "bias has %d values, w is [%d, %d]", bias.Len(), n, k)
	}
}

// GateMul checks a GateMul.
func GateMul(out, gu kernels.Activation, kind kernels.GateKind, T int) {
	f := rows("GateMul", "out", out, T)
	if cols := rows("GateMul", "gu", gu, T); cols != 2*f {
		fail("GateMul", "gu has %d columns, out %d", cols, f)
	}
	if kind > kernels.GELUTanh {
		fail("GateMul", "no gate %d", kind)
	}
}

func attn(op string, qkv kernels.Activation, kv kernels.KVCache, layer int, s kernels.AttnShape, T int) {
	c := kv.KVShape()
	if s.KVHeads != c.KVHeads || s.HeadDim != c.HeadDim || s.KVHeads <= 0 || s.Heads%s.KVHeads != 0 {
		fail(op, "%d heads, %d KV heads of %d on a cache of %d KV heads of %d", s.Heads, s.KVHeads, s.HeadDim, c.KVHeads, c.HeadDim)
	}
	if layer < 0 || layer >= c.Layers {
		fail(op, "layer %d of %d", layer, c.Layers)
	}
	want := (s.Heads + 2*s.KVHeads) * s.HeadDim
	if cols := rows(op, "qkv", qkv, T); cols != want {
		fail(op, "qkv has %d columns, the heads need %d", cols, want)
	}
}

// RopeKVWrite checks a RopeKVWrite.
func RopeKVWrite(qkv kernels.Activation, kv kernels.KVCache, layer int, positions, slots kernels.Ints,
	rope kernels.Rope, s kernels.AttnShape, qNorm, kNorm kernels.Vector, T int) {
	const op = "RopeKVWrite"
	attn(op, qkv, kv, layer, s, T)
	ints(op, "positions", positions, T)
	ints(op, "slots", slots, T)
	if r := rope.RotaryDim; r < 0 || r%2 != 0 || r > s.HeadDim {
		fail(op, "rotary dimension %d of head_dim %d", r, s.HeadDim)
	} else if r > 0 && (rope.Cos.Len() != rope.Sin.Len() || rope.Cos.Len()%(r/2) != 0) {
		fail(op, "rope tables of %d and %d values are no [positions, %d]", rope.Cos.Len(), rope.Sin.Len(), r/2)
	}
	if rope.Style > kernels.RopeInterleaved {
		fail(op, "no rope style %d", rope.Style)
	}
	if qNorm != nil && qNorm.Len() != s.HeadDim || kNorm != nil && kNorm.Len() != s.HeadDim {
		fail(op, "q or k norm is not %d long", s.HeadDim)
	}
}

// PagedAttention checks a PagedAttention.
func PagedAttention(out, qkv kernels.Activation, kv kernels.KVCache, layer int, b kernels.Batch, s kernels.AttnShape, T int) {
	const op = "PagedAttention"
	attn(op, qkv, kv, layer, s, T)
	if cols := rows(op, "out", out, T); cols != s.Heads*s.HeadDim {
		fail(op, "out has %d columns, %d heads of %d need %d", cols, s.Heads, s.HeadDim, s.Heads*s.HeadDim)
	}
	ints(op, "QueryStart", b.QueryStart, b.NumSeqs+1)
	ints(op, "SeqLens", b.SeqLens, b.NumSeqs)
	ints(op, "BlockTable", b.BlockTable, b.NumSeqs*b.MaxBlocks)
}

// GatherRows checks a GatherRows.
func GatherRows(out, x kernels.Activation, idx kernels.Ints, n int) {
	d := rows("GatherRows", "out", out, n)
	if _, cols := x.ActivationShape(); cols != d {
		fail("GatherRows", "x has %d columns, out %d", cols, d)
	}
	ints("GatherRows", "rows", idx, n)
}

// Sample checks a Sample of n rows.
func Sample(out kernels.Ints, logits kernels.Activation, n int) {
	rows("Sample", "logits", logits, n)
	ints("Sample", "out", out, n)
}

// Process checks a Process of n rows.
func Process(logits kernels.Activation, n int) { rows("Process", "logits", logits, n) }

// Logprobs checks a Logprobs.
func Logprobs(out kernels.Logprobs, logits kernels.Activation, chosen kernels.Ints, asked []kernels.LogprobRow) {
	width, last := 0, -1
	_, cols := logits.ActivationShape()
	for i := range asked {
		r := &asked[i]
		if r.Row < 0 || r.K < 0 || r.K > cols {
			fail("Logprobs", "%d alternatives of %d in row %d", r.K, cols, r.Row)
		}
		width, last = width+r.Width(), max(last, r.Row)
	}
	rows("Logprobs", "logits", logits, last+1)
	ints("Logprobs", "chosen", chosen, last+1)
	if len(out.TokenIDs) != width || len(out.Values) != width || len(out.Ranks) != len(asked) {
		fail("Logprobs", "out holds %d IDs, %d values, %d ranks; asked are %d, %d, %d",
			len(out.TokenIDs), len(out.Values), len(out.Ranks), width, width, len(asked))
	}
}

// CopyBlocks checks a CopyBlocks.
func CopyBlocks(pairs kernels.Ints, n int) { ints("CopyBlocks", "pairs", pairs, 2*n) }
