package modelfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// metadata is a GGUF file's key-value pairs, read key by key. A reader asks
// for all it wants and then for err, which tells every problem at once.
type metadata struct {
	file    string // for messages
	prefix  string // of the architecture's own keys
	values  map[string]ggufValue
	wasRead map[string]bool
	errs    []error
}

// key returns the name of one of the architecture's own keys.
func (m *metadata) key(name string) string { return m.prefix + name }

// read looks a value up.
func (m *metadata) read(key string) (ggufValue, bool) {
	v, ok := m.values[key]
	m.wasRead[key] = true
	return v, ok
}

func (m *metadata) err() error { return errors.Join(m.errs...) }

func (m *metadata) has(key string) bool {
	_, ok := m.values[key]
	return ok
}

func (m *metadata) missing(key string) {
	m.errs = append(m.errs, fmt.Errorf("%s: %w: no metadata %s", m.file, ErrInvalid, key))
}

// invalid reports a value of the wrong kind or range.
func (m *metadata) invalid(key, want string) {
	m.errs = append(m.errs, fmt.Errorf("%s: %w metadata %s = %s: must be %s", m.file, ErrInvalid, key, m.values[key], want))
}

// refuse reports a value that is meant well and that we can't do.
func (m *metadata) refuse(key, why string) {
	m.errs = append(m.errs, fmt.Errorf("%s: metadata %s = %s is %w: %s", m.file, key, m.values[key], ErrUnsupported, why))
}

// size is a required int in [1, 1<<30].
func (m *metadata) size(key string) int {
	if !m.has(key) {
		m.missing(key)
		return 1
	}
	return m.sizeOr(key, 1)
}

// sizeOr reads a size. An array is one size for each layer, and those must be
// the same.
func (m *metadata) sizeOr(key string, def int) int {
	v, ok := m.read(key)
	if !ok {
		return def
	}
	n, ok := v.int()
	if v.kind == ggufArray && v.count > 0 {
		n, ok = v.at(0).int()
		for i := range v.count {
			if other, _ := v.at(i).int(); ok && other != n {
				m.refuse(key, "all layers must have the same")
				return def
			}
		}
	}
	if !ok || n < 1 || n > 1<<30 {
		m.invalid(key, fmt.Sprintf("an integer between 1 and %d", 1<<30))
		return def
	}
	return int(n)
}

func (m *metadata) float(key string, def float64) float64 {
	v, ok := m.read(key)
	if !ok {
		return def
	}
	f, ok := v.float()
	if !ok {
		m.invalid(key, "a number")
		return def
	}
	return f
}

func (m *metadata) string(key, def string) string {
	v, ok := m.read(key)
	if !ok {
		return def
	}
	if v.kind != ggufString {
		m.invalid(key, "a string")
		return def
	}
	return string(v.data)
}

// bool returns nil where the file says nothing.
func (m *metadata) bool(key string) *bool {
	v, ok := m.read(key)
	if !ok {
		return nil
	}
	if v.kind != ggufBool {
		m.invalid(key, "true or false")
		return nil
	}
	b := v.data[0] != 0
	return &b
}

// strings returns an array of strings; they share one copy of its bytes.
func (m *metadata) strings(key string) []string {
	v, ok := m.read(key)
	if !ok {
		return nil
	}
	if v.kind != ggufArray || v.elem != ggufString {
		m.invalid(key, "an array of strings")
		return nil
	}
	all, list, pos := string(v.data), make([]string, v.count), 0
	v.eachString(func(i int, text []byte) {
		pos += 8 + len(text)
		list[i] = all[pos-len(text) : pos]
	})
	return list
}

// eachString walks over an array of strings.
func (v ggufValue) eachString(f func(i int, text []byte)) {
	if v.kind != ggufArray || v.elem != ggufString {
		return
	}
	rest := v.data
	for i := range v.count {
		n := 8 + binary.LittleEndian.Uint64(rest)
		f(i, rest[8:n])
		rest = rest[n:]
	}
}

// bytes returns an array of bytes.
func (m *metadata) bytes(key string) []byte {
	v, ok := m.read(key)
	if !ok {
		return nil
	}
	if v.kind != ggufArray || v.elem != ggufU8 && v.elem != ggufI8 {
		m.invalid(key, "an array of bytes")
		return nil
	}
	return v.data
}

// bools returns an array of n truth values, which may be given as numbers.
func (m *metadata) bools(key string, n int) []bool {
	v, ok := m.read(key)
	if !ok {
		return nil
	}
	if v.kind != ggufArray || v.count != n || v.elem == ggufString {
		m.invalid(key, fmt.Sprintf("an array of %d truth values", n))
		return nil
	}
	list := make([]bool, n)
	for i := range list {
		list[i] = slices.ContainsFunc(v.at(i).data, func(b byte) bool { return b != 0 })
	}
	return list
}

// numbers returns an array of n numbers of type T.
func numbers[T int32 | float32](m *metadata, key string, n int) []T {
	v, ok := m.read(key)
	if !ok {
		return nil
	}
	want := fmt.Sprintf("an array of %d numbers", n)
	if v.kind != ggufArray || v.count != n {
		m.invalid(key, want)
		return nil
	}
	list := make([]T, v.count)
	for i := range list {
		f, ok := v.at(i).float()
		if list[i] = T(f); !ok {
			m.invalid(key, want)
			return nil
		}
	}
	return list
}

// at returns an element of an array whose elements have one size.
func (v ggufValue) at(i int) ggufValue {
	size := ggufKindSizes[v.elem]
	return ggufValue{kind: v.elem, data: v.data[i*size : (i+1)*size]}
}

// int returns a value of any of the integer kinds.
func (v ggufValue) int() (n int64, ok bool) {
	switch v.kind {
	case ggufU8:
		return int64(v.data[0]), true
	case ggufI8:
		return int64(int8(v.data[0])), true
	case ggufU16:
		return int64(binary.LittleEndian.Uint16(v.data)), true
	case ggufI16:
		return int64(int16(binary.LittleEndian.Uint16(v.data))), true
	case ggufU32:
		return int64(binary.LittleEndian.Uint32(v.data)), true
	case ggufI32:
		return int64(int32(binary.LittleEndian.Uint32(v.data))), true
	case ggufI64, ggufU64:
		n := int64(binary.LittleEndian.Uint64(v.data))
		return n, v.kind == ggufI64 || n >= 0
	}
	return 0, false
}

// float returns a value of any of the numeric kinds.
func (v ggufValue) float() (f float64, ok bool) {
	switch v.kind {
	case ggufF32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(v.data))), true
	case ggufF64:
		return math.Float64frombits(binary.LittleEndian.Uint64(v.data)), true
	}
	n, ok := v.int()
	return float64(n), ok
}

// String is the value for messages, cut to a readable length.
func (v ggufValue) String() string {
	switch v.kind {
	case ggufString:
		if len(v.data) > 120 {
			return fmt.Sprintf("%q…", v.data[:120])
		}
		return fmt.Sprintf("%q", v.data)
	case ggufArray:
		return fmt.Sprintf("[%d]%v", v.count, v.elem)
	case ggufBool:
		return fmt.Sprint(v.data[0] != 0)
	case ggufU64:
		return fmt.Sprint(binary.LittleEndian.Uint64(v.data))
	}
	if n, ok := v.int(); ok {
		return fmt.Sprint(n)
	}
	f, _ := v.float()
	return fmt.Sprint(float32(f))
}
