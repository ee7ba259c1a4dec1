package protocol

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// The append functions write MessagePack in the widths that msgspec chooses:
// the smallest integer, string and header, and always a float64.

func appendNil(b []byte) []byte { return append(b, 0xc0) }

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 0xc3)
	}
	return append(b, 0xc2)
}

func appendInt(b []byte, v int64) []byte {
	switch {
	case v >= 0:
		return appendUint(b, uint64(v))
	case v >= -32:
		return append(b, byte(v))
	case v >= math.MinInt8:
		return append(b, 0xd0, byte(v))
	case v >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(b, 0xd1), uint16(v))
	case v >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(b, 0xd2), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(v))
}

func appendUint(b []byte, v uint64) []byte {
	switch {
	case v < 1<<7:
		return append(b, byte(v))
	case v <= math.MaxUint8:
		return append(b, 0xcc, byte(v))
	case v <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(v))
	case v <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), v)
}

func appendFloat(b []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(v))
}

func appendStr(b []byte, s string) []byte {
	switch n := len(s); {
	case n < 32:
		b = append(b, 0xa0|byte(n))
	case n <= math.MaxUint8:
		b = append(b, 0xd9, byte(n))
	case n <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, 0xda), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(n))
	}
	return append(b, s...)
}

// appendStrOrNil writes "" as nil, the wire's way to say unset.
func appendStrOrNil(b []byte, s string) []byte {
	if s == "" {
		return appendNil(b)
	}
	return appendStr(b, s)
}

func appendIntOrNil(b []byte, v int) []byte {
	if v == 0 {
		return appendNil(b)
	}
	return appendInt(b, int64(v))
}

func appendBin(b []byte, p []byte) []byte {
	switch n := len(p); {
	case n <= math.MaxUint8:
		b = append(b, 0xc4, byte(n))
	case n <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, 0xc5), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0xc6), uint32(n))
	}
	return append(b, p...)
}

func appendArrayLen(b []byte, n int) []byte {
	switch {
	case n < 16:
		return append(b, 0x90|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xdc), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(n))
}

func appendMapLen(b []byte, n int) []byte {
	switch {
	case n < 16:
		return append(b, 0x80|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xde), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xdf), uint32(n))
}

// appendExtHeader starts an extension value of n bytes, which the caller
// appends.
func appendExtHeader(b []byte, code int8, n int) []byte {
	switch n {
	case 1, 2, 4, 8, 16:
		return append(b, 0xd4+byte(log2(n)), byte(code))
	}
	switch {
	case n <= math.MaxUint8:
		return append(b, 0xc7, byte(n), byte(code))
	case n <= math.MaxUint16:
		return append(binary.BigEndian.AppendUint16(append(b, 0xc8), uint16(n)), byte(code))
	}
	return append(binary.BigEndian.AppendUint32(append(b, 0xc9), uint32(n)), byte(code))
}

func log2(n int) int {
	k := 0
	for ; n > 1; n >>= 1 {
		k++
	}
	return k
}

func appendInts[T ~int | ~int32](b []byte, v []T) []byte {
	b = appendArrayLen(b, len(v))
	for _, x := range v {
		switch {
		case 0 <= x && x < 1<<7:
			b = append(b, byte(x))
		case 1<<8 <= x && x < 1<<16: // most of a vocabulary
			b = append(b, 0xcd, byte(x>>8), byte(x))
		default:
			b = appendInt(b, int64(x))
		}
	}
	return b
}

func appendStrs(b []byte, v []string) []byte {
	b = appendArrayLen(b, len(v))
	for _, s := range v {
		b = appendStr(b, s)
	}
	return b
}

// appendStrMap writes keys in order, so that equal maps give equal bytes.
func appendStrMap(b []byte, m map[string]string) []byte {
	var room [16]string
	keys := room[:0]
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	b = appendMapLen(b, len(m))
	for _, k := range keys {
		b = appendStr(appendStr(b, k), m[k])
	}
	return b
}

// appendAny writes a utility call's argument or result. A type that the wire
// has no form for is a mistake of the caller.
func appendAny(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return appendNil(b)
	case bool:
		return appendBool(b, v)
	case int:
		return appendInt(b, int64(v))
	case int64:
		return appendInt(b, v)
	case uint64:
		return appendUint(b, v)
	case float64:
		return appendFloat(b, v)
	case string:
		return appendStr(b, v)
	case []byte:
		return appendBin(b, v)
	case []string:
		return appendStrs(b, v)
	case []any:
		b = appendArrayLen(b, len(v))
		for _, e := range v {
			b = appendAny(b, e)
		}
		return b
	case map[string]any:
		b = appendMapLen(b, len(v))
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			b = appendAny(appendStr(b, k), v[k])
		}
		return b
	}
	panic(fmt.Sprintf("protocol: no wire form for a %T", v))
}
