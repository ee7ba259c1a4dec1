package modelfile

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// The types that a GGUF file packs weights to, beside F32, F16 and BF16. A row
// is a whole number of blocks, each with scales of its own:
//
//	_0  blocks of 32: w = d·q
//	_1  blocks of 32: w = d·q + m
//	_K  blocks of 256, in 8 or 16 groups whose scales are packed integers
//
// Each decoder computes what the format's own does, in float32, one rounding
// per operation (an explicit conversion keeps a compiler from fusing two): bit
// for bit what gguf-py's dequantize gives.
//
// Source: ggml/src/ggml-common.h and ggml-quants.c of llama.cpp.
const (
	Q4_0 DType = "Q4_0"
	Q4_1 DType = "Q4_1"
	Q5_0 DType = "Q5_0"
	Q5_1 DType = "Q5_1"
	Q8_0 DType = "Q8_0"
	Q2_K DType = "Q2_K"
	Q3_K DType = "Q3_K"
	Q4_K DType = "Q4_K"
	Q5_K DType = "Q5_K"
	Q6_K DType = "Q6_K"
)

// ggmlTypes are the types we read, by the number that stands for each.
var ggmlTypes = map[uint32]DType{
	0: F32, 1: F16, 2: Q4_0, 3: Q4_1, 6: Q5_0, 7: Q5_1, 8: Q8_0,
	10: Q2_K, 11: Q3_K, 12: Q4_K, 13: Q5_K, 14: Q6_K, 30: BF16,
}

// ggmlOtherTypes names those we don't.
var ggmlOtherTypes = map[uint32]string{
	9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL",
	21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64",
	29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4", 41: "Q1_0",
}

func ggmlTypeName(number uint32) string {
	if name, ok := ggmlOtherTypes[number]; ok {
		return name
	}
	return fmt.Sprintf("number %d", number)
}

// ggmlTypeNames lists what we read.
func ggmlTypeNames() string {
	var names []string
	for number := range uint32(31) {
		if t, ok := ggmlTypes[number]; ok {
			names = append(names, string(t))
		}
	}
	return strings.Join(names, ", ")
}

// ggmlBlock is how a type packs values.
type ggmlBlock struct {
	values, bytes int
	decode        func(dst []float32, src []byte) // one block
}

var ggmlBlocks = map[DType]ggmlBlock{
	F32:  {1, 4, nil}, // these have loops of their own
	F16:  {1, 2, nil},
	BF16: {1, 2, nil},
	Q4_0: {32, 18, decodeQ4_0},
	Q4_1: {32, 20, decodeQ4_1},
	Q5_0: {32, 22, decodeQ5_0},
	Q5_1: {32, 24, decodeQ5_1},
	Q8_0: {32, 34, decodeQ8_0},
	Q2_K: {256, 84, decodeQ2_K},
	Q3_K: {256, 110, decodeQ3_K},
	Q4_K: {256, 144, decodeQ4_K},
	Q5_K: {256, 176, decodeQ5_K},
	Q6_K: {256, 210, decodeQ6_K},
}

// ggmlBytes returns what a tensor takes; ok is false where a row is no whole
// number of blocks, and on overflow.
func (t DType) ggmlBytes(shape []int) (size uint64, ok bool) {
	b := ggmlBlocks[t]
	k := 1
	if len(shape) > 0 {
		k = shape[len(shape)-1]
		shape = shape[:len(shape)-1]
	}
	row, ok := byteSize([]int{k / b.values, b.bytes}, 8)
	if !ok || k%b.values != 0 || row > math.MaxInt {
		return 0, false
	}
	return byteSize(append([]int{int(row)}, shape...), 8)
}

func u16(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }
func u32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

// half returns the value of an IEEE half.
func half(b []byte) float32 {
	h := uint32(u16(b))
	sign, rest := h&0x8000<<16, h&0x7fff<<13
	if h&0x7c00 == 0x7c00 {
		return math.Float32frombits(sign | 0x7f800000 | rest&0x7fffff)
	}
	// The exponents differ by 112; a product also turns subnormals right.
	return math.Float32frombits(sign | math.Float32bits(math.Float32frombits(rest)*0x1p112))
}

func decodeQ4_0(dst []float32, src []byte) {
	d, q, dst := half(src), src[2:18], dst[:32]
	for i, b := range q {
		dst[i] = d * float32(int32(b&15)-8)
		dst[i+16] = d * float32(int32(b>>4)-8)
	}
}

func decodeQ4_1(dst []float32, src []byte) {
	d, m, q, dst := half(src), half(src[2:]), src[4:20], dst[:32]
	for i, b := range q {
		dst[i] = float32(d*float32(b&15)) + m
		dst[i+16] = float32(d*float32(b>>4)) + m
	}
}

// The fifth bits of the _0 and _1 types stand together, bit i for value i.

func decodeQ5_0(dst []float32, src []byte) {
	d, high, q, dst := half(src), u32(src[2:]), src[6:22], dst[:32]
	for i, b := range q {
		dst[i] = d * float32(int32(uint32(b&15)|high>>i&1<<4)-16)
		dst[i+16] = d * float32(int32(uint32(b>>4)|high>>(i+16)&1<<4)-16)
	}
}

func decodeQ5_1(dst []float32, src []byte) {
	d, m, high, q, dst := half(src), half(src[2:]), u32(src[4:]), src[8:24], dst[:32]
	for i, b := range q {
		dst[i] = float32(d*float32(uint32(b&15)|high>>i&1<<4)) + m
		dst[i+16] = float32(d*float32(uint32(b>>4)|high>>(i+16)&1<<4)) + m
	}
}

func decodeQ8_0(dst []float32, src []byte) {
	d, q, dst := half(src), src[2:34], dst[:32]
	for i, b := range q {
		dst[i] = d * float32(int8(b))
	}
}

// decodeQ2_K: 16 groups of 16 with a 4-bit scale and minimum each. A byte of q
// holds the same place of four runs of 32.
func decodeQ2_K(dst []float32, src []byte) {
	scales, q := src[:16], src[16:80]
	d, m := half(src[80:]), half(src[82:])
	for g := range 16 { // group g is half of run g/2
		dl, ml := d*float32(scales[g]&15), m*float32(scales[g]>>4)
		part, shift, out := q[g/8*32+g%2*16:][:16], uint(g/2%4*2), dst[g*16:][:16]
		for i, b := range part {
			out[i] = float32(dl*float32(b>>shift&3)) - ml
		}
	}
}

// decodeQ3_K: as Q2_K, with 6-bit scales around 32 and a third bit for each
// value: bit r of byte i for place i of run r, set where 4 is not taken off.
func decodeQ3_K(dst []float32, src []byte) {
	high, q, packed, d := src[:32], src[32:96], src[96:108], half(src[108:])
	for g := range 16 {
		scale := packed[g%8]>>(g/8*4)&15 | packed[8+g%4]>>(g/4*2)&3<<4
		dl := d * float32(int32(scale)-32)
		part, bits := q[g/8*32+g%2*16:][:16], high[g%2*16:][:16]
		shift, run, out := uint(g/2%4*2), uint(g/2), dst[g*16:][:16]
		for i, b := range part {
			out[i] = dl * float32(int32(b>>shift&3)-4+int32(bits[i]>>run&1)*4)
		}
	}
}

// scaleMin returns group g's 6-bit scale and minimum of Q4_K and Q5_K: the
// first four groups have bytes of their own, whose two spare bits are the high
// ones of the other four.
func scaleMin(packed []byte, g int) (scale, minimum float32) {
	if g < 4 {
		return float32(packed[g] & 63), float32(packed[g+4] & 63)
	}
	return float32(packed[g+4]&15 | packed[g-4]>>6<<4), float32(packed[g+4]>>4 | packed[g]>>6<<4)
}

// decodeQ4_K: 8 groups of 32; a byte of q holds the same place of two groups.
func decodeQ4_K(dst []float32, src []byte) {
	d, m, packed, q := half(src), half(src[2:]), src[4:16], src[16:144]
	for g := range 8 {
		scale, minimum := scaleMin(packed, g)
		dl, ml := d*scale, m*minimum
		part, shift, out := q[g/2*32:][:32], uint(g%2*4), dst[g*32:][:32]
		for i, b := range part {
			out[i] = float32(dl*float32(b>>shift&15)) - ml
		}
	}
}

// decodeQ5_K: as Q4_K, with a fifth bit: bit g of byte i for place i of group g.
func decodeQ5_K(dst []float32, src []byte) {
	d, m, packed, high, q := half(src), half(src[2:]), src[4:16], src[16:48], src[48:176]
	for g := range 8 {
		scale, minimum := scaleMin(packed, g)
		dl, ml := d*scale, m*minimum
		part, shift, out := q[g/2*32:][:32], uint(g%2*4), dst[g*32:][:32]
		for i, b := range part {
			out[i] = float32(dl*float32(b>>shift&15|high[i]>>g&1<<4)) - ml
		}
	}
}

// decodeQ6_K: 16 groups of 16 with 8-bit scales, in two halves. Of a half's
// four runs of 32, two share each byte of low, all four each byte of high.
func decodeQ6_K(dst []float32, src []byte) {
	low, high, scales, d := src[:128], src[128:192], src[192:208], half(src[208:])
	for g := range 16 {
		dl := d * float32(int8(scales[g]))
		run, at := g/2%4, g%2*16
		lows, highs := low[g/8*64+run%2*32+at:][:16], high[g/8*32+at:][:16]
		lowShift, highShift, out := uint(run/2*4), uint(run*2), dst[g*16:][:16]
		for i, b := range lows {
			out[i] = dl * float32(int32(b>>lowShift&15|highs[i]>>highShift&3<<4)-32)
		}
	}
}
