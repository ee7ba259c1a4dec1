package modelfile

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// ggufFile is one GGUF file, or all shards of a split one: metadata and
// tensors, as views into the mapped bytes.
//
//	"GGUF", version, number of tensors, number of metadata pairs
//	metadata: key, kind, value
//	tensors:  name, dimensions (fastest first), type, offset into the data
//	data:     at a multiple of general.alignment, as every tensor in it
//
// All numbers are little-endian. Reading allocates in proportion to the bytes
// that are there, whatever counts they claim.
//
// Source: ggml/docs/gguf.md and ggml/src/gguf.cpp of llama.cpp.
type ggufFile struct {
	metadata
	tensors []Tensor // by name as in the file, in the order of their data
}

const (
	ggufMagic     = "GGUF"
	ggufAlignment = 32 // where general.alignment says nothing
	ggufMaxRank   = 4
)

// ggufKind is the type of a metadata value.
type ggufKind uint32

const (
	ggufU8 ggufKind = iota
	ggufI8
	ggufU16
	ggufI16
	ggufU32
	ggufI32
	ggufF32
	ggufBool
	ggufString
	ggufArray
	ggufU64
	ggufI64
	ggufF64
)

// ggufKindNames spells kinds for messages; ggufKindSizes has their bytes, 0
// where the value says itself.
var (
	ggufKindNames = []string{"uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool", "string", "array", "uint64", "int64", "float64"}
	ggufKindSizes = []int{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}
)

func (k ggufKind) String() string {
	if int(k) < len(ggufKindNames) {
		return ggufKindNames[k]
	}
	return fmt.Sprintf("kind %d", uint32(k))
}

// ggufValue is one metadata value, not yet decoded.
type ggufValue struct {
	kind  ggufKind
	elem  ggufKind // of an array
	count int      // of an array
	data  []byte   // a string's bytes, else as in the file
}

// parseGGUF reads the header of a whole file. file is its name in messages.
func parseGGUF(file string, data []byte) (*ggufFile, error) {
	r := &ggufReader{file: file, data: data}
	g := &ggufFile{metadata: metadata{file: file, values: map[string]ggufValue{}, wasRead: map[string]bool{}}}
	numTensors, numPairs := r.head()
	for i := uint64(0); i < numPairs && r.err == nil; i++ {
		r.pair(g.values, i, numPairs)
	}
	align := r.alignment(g.values)
	seen := map[string]bool{}
	for i := uint64(0); i < numTensors && r.err == nil; i++ {
		if t, ok := r.tensor(i, numTensors, seen, align); ok {
			g.tensors = append(g.tensors, t)
		}
	}
	r.place(g.tensors, align)
	return g, r.err
}

// ggufReader walks over a file. After the first error it reads zeros, so that
// callers check once.
type ggufReader struct {
	file string
	data []byte
	pos  int
	err  error
}

func (r *ggufReader) bad(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %w GGUF file: %s", r.file, ErrInvalid, fmt.Sprintf(format, args...))
	}
}

// take returns the next n bytes; what they are for is said if they end early.
func (r *ggufReader) take(n uint64, what string, args ...any) []byte {
	if r.err != nil {
		return nil
	}
	if left := len(r.data) - r.pos; n > uint64(left) {
		r.bad("%s needs %d bytes at byte %d, of the file's %d there are %d left: truncated?",
			fmt.Sprintf(what, args...), n, r.pos, len(r.data), left)
		return nil
	}
	b := r.data[r.pos : r.pos+int(n) : r.pos+int(n)]
	r.pos += int(n)
	return b
}

func (r *ggufReader) u32(what string, args ...any) uint32 {
	if b := r.take(4, what, args...); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *ggufReader) u64(what string, args ...any) uint64 {
	if b := r.take(8, what, args...); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *ggufReader) bytes(what string, args ...any) []byte {
	return r.take(r.u64(what, args...), what, args...)
}

// head reads the counts, and refuses what is no GGUF file of version 2 or 3.
func (r *ggufReader) head() (numTensors, numPairs uint64) {
	magic := r.take(4, "the header")
	if r.err == nil && string(magic) != ggufMagic {
		r.bad("it begins with %q, not %q", magic, ggufMagic)
	}
	version := r.u32("the header")
	switch {
	case r.err != nil:
	case version != 0 && version<<16 == 0:
		r.err = fmt.Errorf("%s: a big-endian GGUF file is %w; convert it to little-endian", r.file, ErrUnsupported)
	case version != 2 && version != 3:
		r.err = fmt.Errorf("%s: GGUF version %d is %w; 2 and 3 are", r.file, version, ErrUnsupported)
	}
	return r.u64("the header"), r.u64("the header")
}

// pair reads the i-th of n keys and its value.
func (r *ggufReader) pair(values map[string]ggufValue, i, n uint64) {
	key := string(r.bytes("key %d of %d", i+1, n))
	v := r.value(key, ggufKind(r.u32("metadata %q", key)))
	if r.err != nil {
		return
	}
	if _, ok := values[key]; ok {
		r.bad("metadata %q is there twice", key)
	}
	values[key] = v
}

func (r *ggufReader) value(key string, kind ggufKind) ggufValue {
	v := ggufValue{kind: kind}
	switch {
	case r.err != nil:
	case kind == ggufString:
		v.data = r.bytes("metadata %q", key)
	case kind == ggufArray:
		r.array(key, &v)
	case int(kind) >= len(ggufKindSizes):
		r.bad("metadata %q has the unknown %v", key, kind)
	default:
		v.data = r.take(uint64(ggufKindSizes[kind]), "metadata %q", key)
	}
	return v
}

// array finds an array's end, for strings by walking over them.
func (r *ggufReader) array(key string, v *ggufValue) {
	v.elem = ggufKind(r.u32("metadata %q", key))
	count := r.u64("metadata %q", key)
	start := r.pos
	switch {
	case r.err != nil:
		return
	case v.elem == ggufArray:
		r.err = fmt.Errorf("%s: metadata %q is an array of arrays, which is %w", r.file, key, ErrUnsupported)
	case int(v.elem) >= len(ggufKindSizes):
		r.bad("metadata %q is an array of the unknown %v", key, v.elem)
	case v.elem == ggufString:
		for i := uint64(0); i < count && r.err == nil; i++ {
			r.bytes("string %d of %d in metadata %q", i+1, count, key)
		}
	default:
		high, size := bits.Mul64(count, uint64(ggufKindSizes[v.elem]))
		if high != 0 {
			size = math.MaxUint64
		}
		r.take(size, "metadata %q, an array of %d %v,", key, count, v.elem)
	}
	if r.err == nil {
		v.count, v.data = int(count), r.data[start:r.pos:r.pos]
	}
}

func (r *ggufReader) alignment(values map[string]ggufValue) uint64 {
	const key = "general.alignment"
	v, ok := values[key]
	if r.err != nil || !ok {
		return ggufAlignment
	}
	n, ok := v.int()
	if !ok || n < 8 || n > 1<<20 || n&(n-1) != 0 {
		r.bad("%s = %s must be a power of two between 8 and %d", key, v, 1<<20)
		return ggufAlignment
	}
	return uint64(n)
}

// tensor reads the i-th of n descriptions. start and end are set relative to
// the data section, which begins after the last of them.
func (r *ggufReader) tensor(i, n uint64, seen map[string]bool, align uint64) (t Tensor, ok bool) {
	name := r.bytes("the name of tensor %d of %d", i+1, n)
	t.Name, t.File = string(name), r.file
	rank := r.u32("tensor %q", t.Name)
	switch {
	case r.err != nil:
		return t, false
	case !utf8.Valid(name):
		r.bad("the name %q of tensor %d is not UTF-8", name, i+1)
	case seen[t.Name]:
		r.bad("tensor %q is there twice", t.Name)
	case rank > ggufMaxRank:
		r.bad("tensor %q has %d dimensions, the format allows %d", t.Name, rank, ggufMaxRank)
	}
	seen[t.Name] = true
	t.Shape = make([]int, min(rank, ggufMaxRank))
	for d := range t.Shape {
		size := r.u64("tensor %q", t.Name)
		if size > math.MaxInt {
			r.bad("tensor %q has a dimension of %d", t.Name, size)
		}
		t.Shape[len(t.Shape)-1-d] = int(size) // the fastest last, as everywhere else
	}
	kind := r.u32("tensor %q", t.Name)
	t.start = r.u64("tensor %q", t.Name)
	if r.err != nil {
		return t, false
	}
	if t.DType, ok = ggmlTypes[kind]; !ok {
		r.err = fmt.Errorf("%s: tensor %q: type %s is %w; %s are", r.file, t.Name, ggmlTypeName(kind), ErrUnsupported, ggmlTypeNames())
		return t, false
	}
	size, ok := t.DType.ggmlBytes(t.Shape)
	if !ok || t.start > math.MaxUint64-size {
		r.bad("tensor %q: %v values of type %s are no whole number of blocks, or more than any file holds", t.Name, t.Shape, t.DType)
		return t, false
	}
	if t.start%align != 0 {
		r.bad("tensor %q begins at byte %d of the data, no multiple of the alignment %d", t.Name, t.start, align)
	}
	t.end = t.start + size
	return t, r.err == nil
}

// place finds each tensor's bytes. Between them is padding and nothing else.
func (r *ggufReader) place(tensors []Tensor, align uint64) {
	if r.err != nil || len(tensors) == 0 {
		return
	}
	begin := (uint64(r.pos) + align - 1) / align * align
	body := r.data[min(begin, uint64(len(r.data))):]
	slices.SortFunc(tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
	})
	end := uint64(0)
	for i := range tensors {
		t := &tensors[i]
		switch {
		case t.end > uint64(len(body)):
			r.bad("tensor %q ends at byte %d of the data, the file holds %d: truncated?", t.Name, t.end, len(body))
			return
		case t.start < end:
			r.bad("tensor %q begins at byte %d of the data, inside %q, which ends at %d", t.Name, t.start, tensors[i-1].Name, end)
			return
		case t.start-end >= align:
			r.bad("bytes %d to %d of the data, before tensor %q, belong to no tensor", end, t.start, t.Name)
			return
		}
		end, t.Data = t.end, body[t.start:t.end:t.end]
	}
}
