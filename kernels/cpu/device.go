//go:build cgo

package cpu

/*
#cgo CFLAGS: -O3 -std=c11 -Wall
#cgo LDFLAGS: -lm -pthread
#cgo noescape gk_run
#cgo nocallback gk_run
#cgo noescape gk_pack
#cgo nocallback gk_pack
#include <stdlib.h>
#include "gk.h"
*/
import "C"

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"govllm/kernels"
	"govllm/kernels/internal/shape"
)

// maxHeadDim bounds what an attention tile keeps per row.
const maxHeadDim = 512

// Device is a pool of threads and all the memory that was asked of it.
type Device struct {
	c       *C.gk_dev
	threads int
	isa     string
	err     error // of a failed Sync: the device is unusable
}

var levels = sync.OnceValue(func() []string { return strings.Fields(C.GoString(C.gk_isa_names())) })

// Levels returns the names of the instruction-set levels that this machine has,
// best first.
func Levels() []string { return slices.Clone(levels()) }

// Open starts the threads of a device.
func Open(opt kernels.Options) (kernels.Device, error) {
	isa := opt.ISA
	if isa == "" {
		isa = os.Getenv(ISAEnv)
	}
	name := C.CString(isa)
	defer C.free(unsafe.Pointer(name))
	level := C.gk_find_isa(name)
	if level == nil {
		return nil, fmt.Errorf("cpu: this machine has no instruction set %q, only %s", isa, strings.Join(Levels(), ", "))
	}
	threads := opt.Threads
	if threads == 0 {
		threads = kernels.DefaultThreads()
	}
	if threads < 0 || threads > 1024 {
		return nil, fmt.Errorf("cpu: %d threads are not in [1, 1024]", threads)
	}
	c := C.gk_open(level, C.int(threads))
	if c == nil {
		return nil, fmt.Errorf("cpu: the system gives no %d threads", threads)
	}
	return &Device{c: c, threads: threads, isa: C.GoString(level.name)}, nil
}

func (d *Device) Name() string { return fmt.Sprintf("cpu (%s, %d threads)", d.isa, d.threads) }

func (d *Device) Caps() kernels.Caps {
	all := []kernels.DType{kernels.F32, kernels.BF16, kernels.F16}
	return kernels.Caps{WeightDTypes: all, KVDTypes: all, BlockSizeMultiple: C.GK_LANES, MaxHeadDim: maxHeadDim}
}

// Close ends the threads and gives all memory back, that of buffers too.
func (d *Device) Close() error {
	if d.c == nil {
		return ErrClosed
	}
	C.gk_close(d.c)
	d.c, d.err = nil, ErrClosed
	return nil
}

// alloc returns zeroed memory of the device.
func (d *Device) alloc(what string, bytes int64) (unsafe.Pointer, error) {
	return d.allocPages(what, bytes, 0)
}

// allocHuge asks for huge pages, for what is read from end to end.
func (d *Device) allocHuge(what string, bytes int64) (unsafe.Pointer, error) {
	return d.allocPages(what, bytes, 1)
}

func (d *Device) allocPages(what string, bytes int64, huge C.int) (unsafe.Pointer, error) {
	if d.c == nil {
		return nil, ErrClosed
	}
	p := C.gk_alloc(d.c, C.size_t(bytes), huge)
	if p == nil {
		return nil, fmt.Errorf("cpu: no memory for %s of %d bytes", what, bytes)
	}
	return p, nil
}

// Each buffer is a C struct that operations copy or point at.

type weight struct{ c *C.gk_weight }

func (w *weight) WeightShape() (n, k int) { return int(w.c.n), int(w.c.k) }

type vector struct {
	data *C.float
	n    int
}

func (v *vector) Len() int { return v.n }

type activation struct{ c C.gk_act }

func (a *activation) ActivationShape() (rows, cols int) { return int(a.c.rows), int(a.c.cols) }

type ints struct{ c C.gk_ints }

func (v *ints) Len() int { return int(v.c.len) }

type kvCache struct {
	c     *C.gk_kv
	shape kernels.KVShape
}

func (c *kvCache) KVShape() kernels.KVShape { return c.shape }

// padded rounds up to whole lanes.
func padded(n int) int { return (n + C.GK_LANES - 1) / C.GK_LANES * C.GK_LANES }

func (d *Device) WeightBytes(want kernels.DType, n, k int) int64 {
	return int64(padded(n)) * int64(k) * int64(want.Size())
}

func (d *Device) NewWeight(want kernels.DType, n, k int) (kernels.Weight, error) {
	if err := shape.Weight(want, n, k); err != nil {
		return nil, err
	}
	if d.err != nil {
		return nil, d.err
	}
	data, err := d.allocHuge("a weight", d.WeightBytes(want, n, k))
	if err != nil {
		return nil, err
	}
	head, err := d.alloc("a weight", C.sizeof_gk_weight)
	if err != nil {
		return nil, err
	}
	w := &weight{(*C.gk_weight)(head)}
	*w.c = C.gk_weight{data: data, n: C.int32_t(n), k: C.int32_t(k), dtype: C.int32_t(want)}
	return w, nil
}

func (d *Device) Pack(w kernels.Weight, row int, srcType kernels.DType, src []byte) error {
	n, err := shape.Pack(w, row, srcType, src)
	if err != nil || n == 0 {
		return err
	}
	if d.c == nil {
		return ErrClosed
	}
	C.gk_pack(d.c.isa, w.(*weight).c, C.int(row), C.int(n), C.int(srcType), unsafe.Pointer(&src[0]))
	return nil
}

func (d *Device) NewVector(values []float32) (kernels.Vector, error) {
	p, err := d.alloc("a vector", 4*int64(padded(max(1, len(values)))))
	if err != nil {
		return nil, err
	}
	copy(unsafe.Slice((*float32)(p), len(values)), values)
	return &vector{(*C.float)(p), len(values)}, nil
}

func (d *Device) NewActivation(rows, cols int) (kernels.Activation, error) {
	if err := shape.Sizes("activation", rows, cols); err != nil {
		return nil, err
	}
	// Rows a whole number of 4 KiB apart would share their cache sets.
	stride := padded(cols)
	if stride%1024 == 0 {
		stride += C.GK_LANES
	}
	p, err := d.alloc("an activation", 4*int64(rows)*int64(stride))
	if err != nil {
		return nil, err
	}
	return &activation{C.gk_act{data: (*C.float)(p), stride: C.int64_t(stride), rows: C.int32_t(rows), cols: C.int32_t(cols)}}, nil
}

func (d *Device) NewInts(n int) (kernels.Ints, error) {
	if err := shape.Sizes("ints", n); err != nil {
		return nil, err
	}
	p, err := d.alloc("ints", 4*int64(n))
	if err != nil {
		return nil, err
	}
	return &ints{C.gk_ints{data: (*C.int32_t)(p), len: C.int64_t(n)}}, nil
}

// unit returns the bytes of one KV head's keys and values of GK_LANES tokens,
// and of the keys alone.
func unit(s kernels.KVShape) (kBytes, bytes int64) {
	size := int64(s.DType.Size())
	kBytes = int64(s.HeadDim) * C.GK_LANES * size
	return kBytes, kBytes + int64(padded(s.HeadDim))*C.GK_LANES*size
}

func (d *Device) KVCacheBytes(s kernels.KVShape) int64 {
	_, bytes := unit(s)
	return bytes * int64(s.BlockSize/C.GK_LANES) * int64(s.KVHeads) * int64(s.NumBlocks) * int64(s.Layers)
}

// NewKVCache reserves the cache; its pages take memory when first written.
func (d *Device) NewKVCache(s kernels.KVShape) (kernels.KVCache, error) {
	if err := shape.KV(s, d.Caps()); err != nil {
		return nil, err
	}
	kBytes, unit := unit(s)
	block := unit * int64(s.BlockSize/C.GK_LANES) * int64(s.KVHeads)
	layer := block * int64(s.NumBlocks)
	data, err := d.allocHuge("a KV cache", layer*int64(s.Layers))
	if err != nil {
		return nil, err
	}
	head, err := d.alloc("a KV cache", C.sizeof_gk_kv)
	if err != nil {
		return nil, err
	}
	kv := (*C.gk_kv)(head)
	*kv = C.gk_kv{
		data:   (*C.char)(data),
		layers: C.int32_t(s.Layers), blocks: C.int32_t(s.NumBlocks), block_size: C.int32_t(s.BlockSize),
		kv_heads: C.int32_t(s.KVHeads), head_dim: C.int32_t(s.HeadDim), dtype: C.int32_t(s.DType),
		k_bytes: C.int64_t(kBytes), unit_bytes: C.int64_t(unit), block_bytes: C.int64_t(block), layer_bytes: C.int64_t(layer),
	}
	return &kvCache{kv, s}, nil
}
