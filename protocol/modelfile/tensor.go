package modelfile

import (
	"cmp"
	"math"
)

// Tensor is a row-major array inside a file: values in little-endian order, or
// rows of quantized blocks.
type Tensor struct {
	Name  string // as Hugging Face's checkpoints have it
	File  string // its base name, for messages
	DType DType
	Shape []int
	Data  []byte // a view; valid until Weights.Close

	origin     string                       // its name in the file, if that is another
	decode     func(dst []float32, row int) // where Data alone does not say
	parts      [][]byte                     // what decode reads, instead of Data
	start, end uint64                       // of Data in the file's data section
}

// own is the tensor's name in its file.
func (t *Tensor) own() string { return cmp.Or(t.origin, t.Name) }

// Plain says whether Data holds the values themselves, as DType: F32, F16 or
// BF16.
func (t *Tensor) Plain() bool {
	return t.decode == nil && (t.DType == F32 || t.DType == F16 || t.DType == BF16)
}

// decodes says whether Decode knows the type.
func (t *Tensor) decodes() bool {
	_, ok := ggmlBlocks[t.DType]
	return ok || t.decode != nil
}

// Rows returns the tensor as a matrix [n, k]: the last dimension, and all
// others. A vector is one row.
func (t *Tensor) Rows() (n, k int) {
	n, k = 1, 1
	for i, d := range t.Shape {
		if i < len(t.Shape)-1 {
			n *= d
		} else {
			k = d
		}
	}
	return n, k
}

// views are the bytes that rows [row, row+n) are decoded from.
func (t *Tensor) views(row, n int) [][]byte {
	rows, _ := t.Rows()
	if t.parts != nil { // rows lie across each other: all or nothing
		if row+n < rows {
			return nil
		}
		return t.parts
	}
	rowBytes := len(t.Data) / max(1, rows)
	return [][]byte{t.Data[row*rowBytes : (row+n)*rowBytes]}
}

// Decode sets dst to the values of whole rows, from the given one on.
func (t *Tensor) Decode(dst []float32, row int) {
	if t.decode != nil {
		t.decode(dst, row)
		return
	}
	_, k := t.Rows()
	b := ggmlBlocks[t.DType]
	src := t.Data[row*k/b.values*b.bytes:]
	switch t.DType {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(u32(src[4*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(u16(src[2*i:])) << 16)
		}
	case F16:
		for i := range dst {
			dst[i] = half(src[2*i:])
		}
	default:
		for ; len(dst) > 0; dst, src = dst[b.values:], src[b.bytes:] {
			b.decode(dst[:b.values], src[:b.bytes])
		}
	}
}

// floats decodes all of it.
func (t *Tensor) floats() []float32 {
	n, k := t.Rows()
	dst := make([]float32, n*k)
	t.Decode(dst, 0)
	return dst
}
