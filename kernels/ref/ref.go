// Package ref defines every operation of a kernels.Device in plain Go: loops
// and the formula, in float32. Other backends are tested against it, and a
// program built without cgo runs on it.
//
// Products of Linear and attention are summed in float32 in ascending order of
// K or of position; means, softmax sums and the functions of math are taken in
// float64 and rounded once. A product is rounded before it is added, on every
// architecture. Weights and cache hold values of their dtype, as float32.
//
// Work is split over goroutines by output element, so the number of threads
// changes no sum.
package ref

import (
	"fmt"
	"sync"

	"govllm/kernels"
	"govllm/kernels/internal/shape"
)

func init() { kernels.Register("ref", Open) }

// Device is the reference backend. Its memory is the Go heap.
type Device struct{ threads int }

// Open returns a reference device. Options.ISA must be empty.
func Open(opt kernels.Options) (kernels.Device, error) {
	if opt.ISA != "" {
		return nil, fmt.Errorf("ref: no instruction set %q: the reference is plain Go", opt.ISA)
	}
	if opt.Threads < 0 {
		return nil, fmt.Errorf("ref: %d threads", opt.Threads)
	}
	n := opt.Threads
	if n == 0 {
		n = kernels.DefaultThreads()
	}
	return &Device{threads: n}, nil
}

func (d *Device) Name() string { return fmt.Sprintf("ref (plain Go, %d threads)", d.threads) }

func (d *Device) Caps() kernels.Caps {
	all := []kernels.DType{kernels.F32, kernels.BF16, kernels.F16}
	return kernels.Caps{WeightDTypes: all, KVDTypes: all, BlockSizeMultiple: 1, MaxHeadDim: 1024}
}

func (d *Device) Close() error { return nil }

type weight struct {
	n, k   int
	dtype  kernels.DType // values are rounded to it
	values []float32     // [n, k]
}

func (w *weight) WeightShape() (n, k int) { return w.n, w.k }

func (w *weight) row(i int) []float32 { return w.values[i*w.k : (i+1)*w.k] }

type vector []float32

func (v vector) Len() int { return len(v) }

type activation struct {
	rows, cols int
	values     []float32 // [rows, cols]
}

func (a *activation) ActivationShape() (rows, cols int) { return a.rows, a.cols }

func (a *activation) row(t int) []float32 { return a.values[t*a.cols : (t+1)*a.cols] }

type ints []int32

func (v ints) Len() int { return len(v) }

// kvCache holds k and v as [layers, numBlocks·blockSize, kvHeads, headDim].
type kvCache struct {
	shape kernels.KVShape
	k, v  []float32
}

func (c *kvCache) KVShape() kernels.KVShape { return c.shape }

func (c *kvCache) slots() int { return c.shape.NumBlocks * c.shape.BlockSize }

// at returns where the vector of one slot and head begins.
func (c *kvCache) at(layer, slot, head int) int {
	return ((layer*c.slots()+slot)*c.shape.KVHeads + head) * c.shape.HeadDim
}

// WeightBytes: 4 bytes a value whatever the dtype.
func (d *Device) WeightBytes(_ kernels.DType, n, k int) int64 { return 4 * int64(n) * int64(k) }

func (d *Device) NewWeight(want kernels.DType, n, k int) (kernels.Weight, error) {
	if err := shape.Weight(want, n, k); err != nil {
		return nil, err
	}
	return &weight{n: n, k: k, dtype: want, values: make([]float32, n*k)}, nil
}

func (d *Device) Pack(w kernels.Weight, row int, srcType kernels.DType, src []byte) error {
	n, err := shape.Pack(w, row, srcType, src)
	if err != nil {
		return err
	}
	m := w.(*weight)
	part := m.values[row*m.k : (row+n)*m.k]
	srcType.Float32s(part, src)
	for i, f := range part {
		part[i] = m.dtype.Round(f)
	}
	return nil
}

func (d *Device) NewVector(values []float32) (kernels.Vector, error) {
	return append(vector(nil), values...), nil
}

func (d *Device) NewActivation(rows, cols int) (kernels.Activation, error) {
	if err := shape.Sizes("activation", rows, cols); err != nil {
		return nil, err
	}
	return &activation{rows, cols, make([]float32, rows*cols)}, nil
}

func (d *Device) NewInts(n int) (kernels.Ints, error) {
	if err := shape.Sizes("ints", n); err != nil {
		return nil, err
	}
	return make(ints, n), nil
}

// KVCacheBytes: 4 bytes a value whatever the dtype.
func (d *Device) KVCacheBytes(s kernels.KVShape) int64 {
	s.DType = kernels.F32
	return s.BlockBytes() * int64(s.NumBlocks)
}

func (d *Device) NewKVCache(s kernels.KVShape) (kernels.KVCache, error) {
	if err := shape.KV(s, d.Caps()); err != nil {
		return nil, err
	}
	n := s.Layers * s.NumBlocks * s.BlockSize * s.KVHeads * s.HeadDim
	return &kvCache{shape: s, k: make([]float32, n), v: make([]float32, n)}, nil
}

// parallel calls f over pieces of [0, n), cut for the device's threads.
func (d *Device) parallel(n int, f func(lo, hi int)) {
	pieces := min(d.threads, n)
	if pieces <= 1 {
		f(0, n)
		return
	}
	var wg sync.WaitGroup
	for i := range pieces {
		wg.Go(func() { f(i*n/pieces, (i+1)*n/pieces) })
	}
	wg.Wait()
}
