package jinja

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"
)

// Python's arithmetic: unbounded ints, floored division, int and float kept apart.

// maxIntBits bounds an int. Python's own bound is on its text: an int of more
// than maxIntDigits digits neither prints nor parses.
const (
	maxIntBits   = 1 << 16
	maxIntDigits = 4300
)

func normInt(z *big.Int) (Value, error) {
	if z.IsInt64() {
		return Int(z.Int64()), nil
	}
	if z.BitLen() > maxIntBits {
		return nil, errf(KindLimit, "integer of %d bits exceeds the limit of %d", z.BitLen(), maxIntBits)
	}
	return bigInt{z}, nil
}

// parseInt reads digits of a base with an optional sign, nothing else.
func parseInt(s string, base int) (Value, error) {
	if n, err := strconv.ParseInt(s, base, 64); err == nil {
		return Int(n), nil
	}
	if len(s) > maxIntDigits && base&(base-1) != 0 {
		return nil, valueErrf("Exceeds the limit (%d digits) for integer string conversion", maxIntDigits)
	}
	if len(s) > maxIntBits {
		return nil, errf(KindLimit, "integer of %d digits exceeds the limit of %d bits", len(s), maxIntBits)
	}
	z, ok := new(big.Int).SetString(s, base)
	if !ok {
		return nil, valueErrf("invalid literal for int() with base %d: %s", base, quote(s))
	}
	return normInt(z)
}

// asInt views an int or bool as Int or bigInt.
func asInt(v Value) (Value, bool) {
	switch v := v.(type) {
	case Int, bigInt:
		return v, true
	case Bool:
		if v {
			return Int(1), true
		}
		return Int(0), true
	}
	return nil, false
}

// maxIndex bounds what asIndex returns: sums of two indices can't overflow.
const maxIndex = 1 << 62

// asIndex views an int or bool as a Go int, clamped to ±maxIndex.
func asIndex(v Value) (int, bool) {
	i, ok := asInt(v)
	if !ok {
		return 0, false
	}
	switch i := i.(type) {
	case Int:
		return int(min(max(i, -maxIndex), maxIndex)), true
	case bigInt:
		if i.Sign() < 0 {
			return -maxIndex, true
		}
	}
	return maxIndex, true
}

func toBig(v Value) *big.Int {
	if b, ok := v.(bigInt); ok {
		return b.Int
	}
	return big.NewInt(int64(v.(Int)))
}

// asFloat views a number as a float; err is OverflowError.
func asFloat(v Value) (f float64, ok bool, err error) {
	if f, ok := v.(Float); ok {
		return float64(f), true, nil
	}
	i, ok := asInt(v)
	if !ok {
		return 0, false, nil
	}
	if n, ok := i.(Int); ok {
		return float64(n), true, nil
	}
	f, _ = new(big.Float).SetInt(toBig(i)).Float64()
	if math.IsInf(f, 0) {
		return 0, true, valueErrf("int too large to convert to float")
	}
	return f, true, nil
}

func intText(v Value) (string, error) {
	switch v := v.(type) {
	case Int:
		return strconv.FormatInt(int64(v), 10), nil
	case bigInt:
		if s := v.String(); len(strings.TrimPrefix(s, "-")) <= maxIntDigits {
			return s, nil
		}
	}
	return "", valueErrf("Exceeds the limit (%d digits) for integer string conversion", maxIntDigits)
}

// floatRepr is Python's repr(f): the shortest digits that read back, with an
// exponent below 1e-4 and from 1e16.
func floatRepr(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// intArith is a op b on ints, for + - * // % **.
func intArith(op string, a, b Value) (Value, error) {
	x, xok := a.(Int)
	y, yok := b.(Int)
	if xok && yok {
		if v, ok := smallArith(op, int64(x), int64(y)); ok {
			return v, nil
		}
	}
	p, q := toBig(a), toBig(b)
	switch op {
	case "+":
		return normInt(new(big.Int).Add(p, q))
	case "-":
		return normInt(new(big.Int).Sub(p, q))
	case "*":
		return normInt(new(big.Int).Mul(p, q))
	case "//", "%":
		if q.Sign() == 0 {
			return nil, valueErrf("integer division or modulo by zero")
		}
		div, mod := new(big.Int).QuoRem(p, q, new(big.Int))
		if mod.Sign() != 0 && mod.Sign() != q.Sign() { // floor, not truncate
			div.Sub(div, big.NewInt(1))
			mod.Add(mod, q)
		}
		if op == "//" {
			return normInt(div)
		}
		return normInt(mod)
	default: // **
		if q.Sign() < 0 {
			return floatArith("**", a, b)
		}
		if p.BitLen() > 1 && (!q.IsInt64() || q.Int64() > maxIntBits/int64(p.BitLen()-1)) {
			return nil, errf(KindLimit, "result of ** exceeds the limit of %d bits", maxIntBits)
		}
		if p.BitLen() <= 1 { // 0, 1, -1: only the exponent's parity and zeroness count
			q = big.NewInt(int64(q.Bit(0)) + 2*int64(min(q.Sign(), 1)))
		}
		return normInt(new(big.Int).Exp(p, q, nil))
	}
}

// smallArith is intArith where operands and result fit 64 bits.
func smallArith(op string, x, y int64) (Value, bool) {
	switch op {
	case "+":
		s := x + y
		return Int(s), (s > x) == (y > 0)
	case "-":
		s := x - y
		return Int(s), (s < x) == (y > 0)
	case "*":
		hi, lo := bits.Mul64(uint64(max(x, -x)), uint64(max(y, -y)))
		return Int(x * y), hi == 0 && lo < 1<<63
	case "//", "%":
		if y == 0 || y == -1 {
			return nil, false
		}
		div, mod := x/y, x%y
		if mod != 0 && (mod < 0) != (y < 0) {
			div--
			mod += y
		}
		if op == "//" {
			return Int(div), true
		}
		return Int(mod), true
	}
	return nil, false
}

// divide is a / b for ints, rounded correctly.
func divide(a, b Value) (Value, error) {
	p, q := toBig(a), toBig(b)
	if q.Sign() == 0 {
		return nil, valueErrf("division by zero")
	}
	if p.Sign() == 0 {
		return Float(math.Copysign(0, float64(q.Sign()))), nil
	}
	f, _ := new(big.Rat).SetFrac(p, q).Float64()
	if math.IsInf(f, 0) {
		return nil, valueErrf("integer division result too large for a float")
	}
	return Float(f), nil
}

// floatArith is a op b where one is a float, or where ** or / leaves the ints.
func floatArith(op string, a, b Value) (Value, error) {
	x, _, err := asFloat(a)
	if err != nil {
		return nil, err
	}
	y, _, err := asFloat(b)
	if err != nil {
		return nil, err
	}
	switch op {
	case "+":
		return Float(x + y), nil
	case "-":
		return Float(x - y), nil
	case "*":
		return Float(x * y), nil
	case "/":
		if y == 0 {
			return nil, valueErrf("float division by zero")
		}
		return Float(x / y), nil
	case "//", "%":
		if y == 0 {
			return nil, valueErrf("float floor division by zero")
		}
		div, mod := floatDivmod(x, y)
		if op == "//" {
			return Float(div), nil
		}
		return Float(mod), nil
	default:
		return floatPow(x, y)
	}
}

// floatDivmod follows CPython's float_divmod: the remainder has y's sign.
func floatDivmod(x, y float64) (div, mod float64) {
	mod = math.Mod(x, y)
	div = (x - mod) / y
	if mod != 0 {
		if (y < 0) != (mod < 0) {
			mod += y
			div--
		}
	} else {
		mod = math.Copysign(0, y)
	}
	if div == 0 {
		return math.Copysign(0, x/y), mod
	}
	floor := math.Floor(div)
	if div-floor > 0.5 {
		floor++
	}
	return floor, mod
}

func floatPow(x, y float64) (Value, error) {
	if x == 0 && y < 0 {
		return nil, valueErrf("0.0 cannot be raised to a negative power")
	}
	if x < 0 && y != math.Trunc(y) && !math.IsInf(x, 0) && !math.IsInf(y, 0) {
		return nil, errf(KindUnsupported, "complex numbers are not supported: %s ** %s", floatRepr(x), floatRepr(y))
	}
	z := math.Pow(x, y)
	if math.IsInf(z, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0) {
		return nil, valueErrf("(34, 'Numerical result out of range')")
	}
	return Float(z), nil
}

// roundFloat is Python's round(f, digits): correctly rounded, ties to even.
func roundFloat(f float64, digits int) (float64, error) {
	if f == 0 || math.IsInf(f, 0) || math.IsNaN(f) || digits > 323 {
		return f, nil
	}
	if digits >= 0 {
		return strconv.ParseFloat(strconv.FormatFloat(f, 'f', digits, 64), 64)
	}
	if digits < -308 {
		return math.Copysign(0, f), nil
	}
	// Left of the point: round the exact value as an integer multiple of 10^-digits.
	exact, _ := new(big.Float).SetFloat64(f).Rat(nil)
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-digits)), nil)
	z := roundRat(exact.Quo(exact, new(big.Rat).SetInt(unit)))
	r, _ := new(big.Float).SetInt(z.Mul(z, unit)).Float64()
	if math.IsInf(r, 0) {
		return 0, valueErrf("rounded value too large to represent")
	}
	if r == 0 {
		r = math.Copysign(0, f)
	}
	return r, nil
}

// roundRat rounds to the nearest integer, ties to even.
func roundRat(r *big.Rat) *big.Int {
	twice := new(big.Int).Mul(r.Num(), big.NewInt(2))
	den := r.Denom()
	z, m := new(big.Int).DivMod(new(big.Int).Add(twice, den), new(big.Int).Mul(den, big.NewInt(2)), new(big.Int))
	if m.Sign() == 0 && z.Bit(0) == 1 { // exactly between: z was rounded up
		z.Sub(z, big.NewInt(1))
	}
	return z
}

// roundInt is Python's round(n, digits) for ints: digits >= 0 changes nothing.
func roundInt(n Value, digits int) (Value, error) {
	if digits >= 0 {
		return n, nil
	}
	if digits < -maxIntDigits {
		return Int(0), nil
	}
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-digits)), nil)
	z := roundRat(new(big.Rat).SetFrac(toBig(n), unit))
	return normInt(z.Mul(z, unit))
}
