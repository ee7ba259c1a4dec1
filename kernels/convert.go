package kernels

import (
	"encoding/binary"
	"math"
)

// BF16ToF32 returns the value of a bfloat16.
func BF16ToF32(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// F32ToBF16 rounds to the nearest bfloat16, ties to even. NaN stays NaN.
func F32ToBF16(f float32) uint16 {
	u := math.Float32bits(f)
	if u&0x7fffffff > 0x7f800000 {
		return uint16(u>>16) | 0x40
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// F16ToF32 returns the value of an IEEE half.
func F16ToF32(h uint16) float32 {
	sign := uint32(h>>15) << 31
	exp, frac := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exp {
	case 0: // zero or subnormal: frac · 2⁻²⁴
		f := float32(frac) * 0x1p-24
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// F32ToF16 rounds to the nearest IEEE half, ties to even; what is too large
// becomes ±Inf, NaN stays NaN.
func F32ToF16(f float32) uint16 {
	u := math.Float32bits(f)
	sign := uint16(u >> 16 & 0x8000)
	u &= 0x7fffffff
	switch {
	case u > 0x7f800000:
		return sign | 0x7e00 | uint16(u>>13&0x3ff)
	case u >= 0x477ff000: // 65520 and up round past the largest half
		return sign | 0x7c00
	case u < 0x38800000: // below 2⁻¹⁴: let the float32 adder round at 2⁻²⁴
		return sign | uint16(math.Float32bits(math.Float32frombits(u)+0.5)&0x7ff)
	}
	u += 0xfff + u>>13&1
	return sign | uint16((u-112<<23)>>13)
}

// Round returns f as a value of type t.
func (t DType) Round(f float32) float32 {
	switch t {
	case BF16:
		return BF16ToF32(F32ToBF16(f))
	case F16:
		return F16ToF32(F32ToF16(f))
	}
	return f
}

// Float32s decodes len(dst) little-endian values of type t.
func (t DType) Float32s(dst []float32, src []byte) {
	switch t {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = BF16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case F16:
		for i := range dst {
			dst[i] = F16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
		}
	}
}
