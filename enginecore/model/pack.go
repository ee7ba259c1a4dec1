package model

import (
	"fmt"
	"sync"
	"unsafe"

	"govllm/kernels"
	"govllm/protocol/modelfile"
)

// packer fills weights from tensors, piece by piece on several goroutines. A
// piece is read from the mapped file, decoded if it is quantized, packed into
// the device's layout and its pages given back before the next: beside the
// packed weights there is one piece for each goroutine in memory.
type packer struct {
	dev   kernels.Device
	src   *modelfile.Weights
	parts []part
	opt   Options

	mu          sync.Mutex // of what follows
	current     int        // part, and row of it, that the next piece begins at
	row         int
	done, total int64 // bytes of packed values
	err         error
}

// part is a tensor whose rows become rows [at, at+n) of a weight.
type part struct {
	weight kernels.Weight
	at     int
	tensor modelfile.Tensor
}

// pieceValues is about how many values a piece holds: as float32 they stay in
// the second-level cache between decoding and packing. Its rows are a multiple
// of pieceRows, since devices interleave that many or fewer.
const (
	pieceValues = 64 << 10
	pieceRows   = 16
)

func (p *packer) add(w kernels.Weight, at int, t modelfile.Tensor) {
	p.parts = append(p.parts, part{w, at, t})
	p.total += p.bytes(w, t.Shape[0])
}

// run fills all weights.
func (p *packer) run() error {
	threads := p.opt.Threads
	if threads == 0 {
		threads = kernels.DefaultThreads()
	}
	var group sync.WaitGroup
	for range threads {
		group.Go(p.work)
	}
	group.Wait()
	return p.err
}

// work packs pieces until there are no more, or one failed.
func (p *packer) work() {
	var buffer []float32
	for {
		part, row, n := p.next()
		if n == 0 {
			return
		}
		err := p.pack(part, row, n, &buffer)
		p.src.Release(part.tensor, row, n)
		p.finish(part.weight, n, err)
	}
}

// next takes a piece: n rows of a part's tensor; 0 if there is none left.
func (p *packer) next() (_ *part, row, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil || p.current == len(p.parts) {
		return nil, 0, 0
	}
	part := &p.parts[p.current]
	rows, k := part.tensor.Rows()
	row, n = p.row, max(1, pieceValues/k/pieceRows)*pieceRows
	if row+n >= rows {
		n = rows - row
		p.current, p.row = p.current+1, 0
	} else {
		p.row += n
	}
	return part, row, n
}

func (p *packer) pack(part *part, row, n int, buffer *[]float32) error {
	t := &part.tensor
	_, k := t.Rows()
	if t.Plain() {
		dtype := fileDTypes[t.DType]
		rowBytes := k * dtype.Size()
		return p.dev.Pack(part.weight, part.at+row, dtype, t.Data[row*rowBytes:(row+n)*rowBytes])
	}
	if len(*buffer) < n*k {
		*buffer = make([]float32, n*k)
	}
	values := (*buffer)[:n*k]
	t.Decode(values, row)
	return p.dev.Pack(part.weight, part.at+row, kernels.F32, littleEndian(values))
}

// bytes is what the values of n rows take when packed.
func (p *packer) bytes(w kernels.Weight, n int) int64 {
	_, k := w.WeightShape()
	return int64(n) * int64(k) * int64(p.opt.DType.Size())
}

// finish reports progress, one piece at a time.
func (p *packer) finish(w kernels.Weight, n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("packing weights: %w", err)
	}
	p.done += p.bytes(w, n)
	if p.opt.Progress != nil {
		p.opt.Progress(p.done, p.total)
	}
}

// littleEndian is a view of values as a file holds them; all machines that Go
// and the kernels serve store them so.
func littleEndian(values []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values))
}
