package modelfile

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// DType is the type of a tensor's values, spelt as in a safetensors header.
type DType string

// The types that weights may have. Headers know others, which are accepted as
// long as nobody asks for such a tensor.
const (
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
)

// dtypeBits gives the width of every type of the format. A type that is not
// here is newer than this reader: its size is then not checked.
// Source: safetensors, tensor.rs, Dtype.
var dtypeBits = map[DType]uint64{
	"BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
	"F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
	"I16": 16, "U16": 16, F16: 16, BF16: 16, "I32": 32, "U32": 32, F32: 32,
	"F64": 64, "I64": 64, "U64": 64, "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}

const (
	maxHeader = 100_000_000 // bytes, the format's own bound
	maxRank   = 16          // dimensions; no model has more than 6
)

// parseSafetensors reads the header of a whole file and returns its tensors in
// the order of their data. They must lie one after the other, without gap or
// overlap, from the header's end to the file's.
//
//	[0:8]     header length n, little-endian
//	[8:8+n]   JSON: name → {"dtype", "shape", "data_offsets"}, and "__metadata__"
//	[8+n:]    the tensors' bytes
func parseSafetensors(file string, data []byte) ([]Tensor, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w safetensors file: %s", file, ErrInvalid, fmt.Sprintf(format, args...))
	}
	if len(data) < 8 {
		return nil, bad("%d bytes are too few for a header", len(data))
	}
	n := binary.LittleEndian.Uint64(data)
	if n > maxHeader {
		return nil, bad("header of %d bytes, the format allows %d", n, maxHeader)
	}
	if n > uint64(len(data)-8) {
		return nil, bad("header of %d bytes in a file of %d: truncated?", n, len(data))
	}
	tensors, err := parseHeader(data[8 : 8+n])
	if err != nil {
		return nil, bad("%v", err)
	}
	body := data[8+n:]
	slices.SortFunc(tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
	})
	end := uint64(0)
	for i := range tensors {
		t := &tensors[i]
		if t.end > uint64(len(body)) {
			return nil, bad("tensor %q ends at byte %d of %d: truncated?", t.Name, t.end, len(body))
		}
		if t.start < end {
			return nil, bad("tensor %q begins at byte %d, inside %q, which ends at %d", t.Name, t.start, tensors[i-1].Name, end)
		}
		if t.start > end {
			return nil, bad("bytes %d to %d, before tensor %q, belong to no tensor", end, t.start, t.Name)
		}
		end = t.end
		t.File, t.Data = file, body[t.start:t.end:t.end]
	}
	if end != uint64(len(body)) {
		return nil, bad("bytes %d to %d, at the end, belong to no tensor", end, len(body))
	}
	return tensors, nil
}

// parseHeader reads the JSON. It allocates in proportion to the header's
// length, whatever counts the header claims.
func parseHeader(header []byte) ([]Tensor, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(header), jsontext.AllowDuplicateNames(true))
	var tensors []Tensor
	seen := make(map[string]bool)
	err := eachMember(d, func(name string) error {
		if seen[name] {
			return fmt.Errorf("tensor %q is there twice", name)
		}
		seen[name] = true
		if name == "__metadata__" {
			return d.SkipValue()
		}
		t := Tensor{Name: name}
		if err := t.read(d); err != nil {
			return fmt.Errorf("tensor %q: %v", name, err)
		}
		tensors = append(tensors, t)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if rest := bytes.TrimRight(header[d.InputOffset():], " \x00"); len(rest) > 0 {
		return nil, fmt.Errorf("%d bytes after the header's JSON", len(rest))
	}
	return tensors, nil
}

// read fills t from {"dtype", "shape", "data_offsets"} and checks that the
// three agree.
func (t *Tensor) read(d *jsontext.Decoder) error {
	var offsets []uint64
	var have [3]bool
	err := eachMember(d, func(key string) (err error) {
		switch key {
		case "dtype":
			have[0] = true
			t.DType, err = readString(d)
		case "shape":
			have[1] = true
			t.Shape, err = readShape(d)
		case "data_offsets":
			have[2] = true
			offsets, err = readUints(d, 2)
		default:
			err = fmt.Errorf("unknown key %q", key)
		}
		return err
	})
	if err != nil {
		return err
	}
	if have != [3]bool{true, true, true} || len(offsets) != 2 {
		return fmt.Errorf("needs dtype, shape and two data_offsets")
	}
	t.start, t.end = offsets[0], offsets[1]
	if t.start > t.end {
		return fmt.Errorf("data_offsets %d and %d are in the wrong order", t.start, t.end)
	}
	width, known := dtypeBits[t.DType]
	if !known {
		return nil
	}
	size, ok := byteSize(t.Shape, width)
	if !ok || size != t.end-t.start {
		return fmt.Errorf("%s%v does not take the %d bytes of its data_offsets", t.DType, t.Shape, t.end-t.start)
	}
	return nil
}

// byteSize returns the bytes of a tensor; ok is false on overflow and where
// the last byte would be a fraction.
func byteSize(shape []int, width uint64) (size uint64, ok bool) {
	size = width
	for _, n := range shape {
		var high uint64
		if high, size = bits.Mul64(size, uint64(n)); high != 0 {
			return 0, false
		}
	}
	return size / 8, size%8 == 0
}

func readString(d *jsontext.Decoder) (DType, error) {
	if kind := d.PeekKind(); kind != '"' {
		return "", fmt.Errorf("dtype is not a string")
	}
	tok, err := d.ReadToken()
	return DType(tok.String()), err
}

func readShape(d *jsontext.Decoder) ([]int, error) {
	dims, err := readUints(d, maxRank)
	if err != nil {
		return nil, fmt.Errorf("shape: %v", err)
	}
	shape := make([]int, len(dims))
	for i, n := range dims {
		if n > math.MaxInt {
			return nil, fmt.Errorf("shape: dimension %d", n)
		}
		shape[i] = int(n)
	}
	return shape, nil
}

// readUints reads an array of at most limit non-negative integers.
func readUints(d *jsontext.Decoder, limit int) ([]uint64, error) {
	if d.PeekKind() != '[' {
		return nil, fmt.Errorf("an array of integers was expected")
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	var values []uint64
	for d.PeekKind() == '0' {
		tok, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		v, err := strconv.ParseUint(tok.String(), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is not a non-negative integer", tok)
		}
		if len(values) == limit {
			return nil, fmt.Errorf("more than %d values", limit)
		}
		values = append(values, v)
	}
	if d.PeekKind() != ']' {
		return nil, fmt.Errorf("an array of integers was expected")
	}
	_, err := d.ReadToken()
	return values, err
}
