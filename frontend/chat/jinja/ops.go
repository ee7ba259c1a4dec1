package jinja

import (
	"math/big"
	"strconv"
	"strings"
)

// Operators and slices.

func itoa(n int) string { return strconv.Itoa(n) }

// unary is Python's +v or -v.
func unary(op string, v Value) (Value, error) {
	if u, ok := v.(*undefined); ok {
		return nil, u.err()
	}
	if f, ok := v.(Float); ok {
		if op == "-" {
			return -f, nil
		}
		return f, nil
	}
	i, ok := asInt(v)
	if !ok {
		return nil, typeErrf("bad operand type for unary %s: '%s'", op, v.typeName())
	}
	if op == "-" {
		return normInt(new(big.Int).Neg(toBig(i)))
	}
	return i, nil
}

// binary is Python's a op b for + - * / // % **.
func (r *run) binary(op string, a, b Value) (Value, error) {
	if x, ok := asInt(a); ok {
		if y, ok := asInt(b); ok {
			if op == "/" {
				return divide(x, y)
			}
			return intArith(op, x, y)
		}
	}
	if isNumber(a) && isNumber(b) {
		return floatArith(op, a, b)
	}
	// Formatting takes any right side, an undefined one included.
	if s, ok := asStr(a); ok && op == "%" {
		text, err := r.percentFormat(s, b)
		return likeText(a, text), err
	}
	if u, ok := a.(*undefined); ok {
		return nil, u.err()
	}
	var v Value
	var err error
	switch op {
	case "+":
		v, err = r.concat(a, b)
	case "*":
		v, err = r.repeat(a, b)
	}
	if v != nil || err != nil {
		return v, err
	}
	if u, ok := b.(*undefined); ok {
		return nil, u.err()
	}
	if op == "+" {
		switch a.(type) {
		case Str, markup, *List, *tuple:
			name := strings.Replace(a.typeName(), "Markup", "str", 1)
			return nil, typeErrf("can only concatenate %s (not \"%s\") to %s", name, b.typeName(), name)
		}
	}
	if op == "*" {
		if _, ok := length(a); ok && !isMapping(a) {
			return nil, typeErrf("can't multiply sequence by non-int of type '%s'", b.typeName())
		}
	}
	if op == "**" {
		op = "** or pow()"
	}
	return nil, typeErrf("unsupported operand type(s) for %s: '%s' and '%s'", op, a.typeName(), b.typeName())
}

func isNumber(v Value) bool {
	switch v.(type) {
	case Int, Float, Bool, bigInt:
		return true
	}
	return false
}

func isMapping(v Value) bool {
	_, ok := v.(*Dict)
	return ok
}

// likeText gives text the type of v, str or Markup.
func likeText(v Value, text string) Value {
	if _, ok := v.(markup); ok {
		return markup(text)
	}
	return Str(text)
}

// concat is a + b for sequences; nil if they do not add.
func (r *run) concat(a, b Value) (Value, error) {
	switch x := a.(type) {
	case Str, markup:
		s, _ := asStr(a)
		t, ok := asStr(b)
		if !ok {
			return nil, nil
		}
		_, am := a.(markup)
		_, bm := b.(markup)
		if am != bm { // Markup escapes what it meets
			if am {
				t = escapeHTML(t)
			} else {
				s = escapeHTML(s)
			}
		}
		if err := r.charge(len(s) + len(t)); err != nil {
			return nil, err
		}
		if am || bm {
			return markup(s + t), nil
		}
		return Str(s + t), nil
	case *List:
		y, ok := b.(*List)
		if !ok {
			return nil, nil
		}
		items, err := r.joinItems(x.items, y.items)
		return &List{items}, err
	case *tuple:
		y, ok := b.(*tuple)
		if !ok {
			return nil, nil
		}
		items, err := r.joinItems(x.items, y.items)
		return &tuple{items: items}, err
	}
	return nil, nil
}

func (r *run) joinItems(a, b []Value) ([]Value, error) {
	if err := r.chargeItems(len(a) + len(b)); err != nil {
		return nil, err
	}
	items := make([]Value, 0, len(a)+len(b))
	return append(append(items, a...), b...), nil
}

// repeat is sequence * int either way round; nil if it is neither.
func (r *run) repeat(a, b Value) (Value, error) {
	n, ok := asIndex(b)
	if !ok {
		if n, ok = asIndex(a); !ok {
			return nil, nil
		}
		a, b = b, a
	}
	if _, ok := length(a); !ok || isMapping(a) {
		return nil, nil
	}
	if _, ok := b.(bigInt); ok {
		return nil, valueErrf("cannot fit 'int' into an index-sized integer")
	}
	n = max(n, 0)
	switch x := a.(type) {
	case Str, markup:
		s, _ := asStr(a)
		if s == "" || n == 0 {
			return likeText(a, ""), nil
		}
		if n > r.limits.Bytes/len(s) {
			return nil, r.charge(r.limits.Bytes + 1)
		}
		if err := r.charge(n * len(s)); err != nil {
			return nil, err
		}
		return likeText(a, strings.Repeat(s, n)), nil
	case *List:
		items, err := r.repeatItems(x.items, n)
		return &List{items}, err
	case *tuple:
		items, err := r.repeatItems(x.items, n)
		return &tuple{items: items}, err
	}
	return nil, nil
}

func (r *run) repeatItems(items []Value, n int) ([]Value, error) {
	if len(items) == 0 || n == 0 {
		return nil, nil
	}
	if n > r.limits.Bytes/valueBytes/len(items) {
		return nil, r.charge(r.limits.Bytes + 1)
	}
	if err := r.chargeItems(n * len(items)); err != nil {
		return nil, err
	}
	out := make([]Value, 0, n*len(items))
	for range n {
		out = append(out, items...)
	}
	return out, nil
}

// apply is Python's x[start:stop:step].
func (s *sliceExpr) apply(st *state, x Value) (Value, error) {
	var bounds [3]Value
	for i, e := range []expr{s.start, s.stop, s.step} {
		bounds[i] = None
		if e != nil {
			v, err := e.eval(st)
			if err != nil {
				return nil, err
			}
			bounds[i] = v
		}
	}
	if u, ok := x.(*undefined); ok {
		return nil, u.err()
	}
	switch x.(type) {
	case Str, markup, *List, *tuple, *pyRange:
	case *Dict:
		return nil, typeErrf("unhashable type: 'slice'")
	default:
		return nil, typeErrf("'%s' object is not subscriptable", x.typeName())
	}
	n, _ := length(x)
	r, err := sliceIndices(n, bounds)
	if err != nil {
		return nil, err
	}
	return st.run.slice(x, n, r)
}

// sliceIndices is slice.indices(n): the indices that the slice takes.
func sliceIndices(n int, bounds [3]Value) (pyRange, error) {
	var at [3]int
	for i, b := range bounds {
		if b == None {
			continue
		}
		v, ok := asIndex(b)
		if !ok {
			return pyRange{}, typeErrf("slice indices must be integers or None or have an __index__ method")
		}
		at[i] = v
	}
	step := 1
	if bounds[2] != None {
		if step = at[2]; step == 0 {
			return pyRange{}, valueErrf("slice step cannot be zero")
		}
		step = min(max(step, -n-1), n+1) // a longer stride changes nothing
	}
	low, high := 0, n
	if step < 0 {
		low, high = -1, n-1
	}
	clamp := func(i int) int {
		if i < 0 {
			i = max(i, -n-1) + n
		}
		return min(max(i, low), high)
	}
	start, stop := low, high
	if step < 0 {
		start, stop = high, low
	}
	if bounds[0] != None {
		start = clamp(at[0])
	}
	if bounds[1] != None {
		stop = clamp(at[1])
	}
	return pyRange{start, stop, step}, nil
}

// slice takes the indices at of x, which has n items.
func (r *run) slice(x Value, n int, at pyRange) (Value, error) {
	start, count, step := at.start, at.len(), at.step
	switch x := x.(type) {
	case Str, markup:
		s, _ := asStr(x)
		text, err := r.sliceText(s, n, start, count, step)
		return likeText(x, text), err
	case *pyRange:
		return &pyRange{x.at(start), x.at(at.stop), x.step * step}, nil
	case *List:
		items, err := r.sliceItems(x.items, start, count, step)
		return &List{items}, err
	}
	items, err := r.sliceItems(x.(*tuple).items, start, count, step)
	return &tuple{items: items}, err
}

func (r *run) sliceItems(items []Value, start, count, step int) ([]Value, error) {
	if count == 0 {
		return nil, nil
	}
	if step == 1 {
		return items[start : start+count : start+count], nil
	}
	if err := r.chargeItems(count); err != nil {
		return nil, err
	}
	out := make([]Value, count)
	for i := range out {
		out[i] = items[start+i*step]
	}
	return out, nil
}

func (r *run) sliceText(s string, n, start, count, step int) (string, error) {
	if count == 0 {
		return "", nil
	}
	if err := r.tick(len(s) / bytesPerStep); err != nil {
		return "", err
	}
	if step == 1 {
		from := runeOffset(s, n, start)
		return s[from : from+runeOffset(s[from:], n-start, count)], nil
	}
	if err := r.charge(len(s)); err != nil {
		return "", err
	}
	runes := []rune(s)
	out := make([]rune, count)
	for i := range out {
		out[i] = runes[start+i*step]
	}
	return string(out), nil
}

// runeOffset is the byte offset of code point i of s, which has n of them.
func runeOffset(s string, n, i int) int {
	if n == len(s) { // ASCII
		return i
	}
	for off := range s {
		if i == 0 {
			return off
		}
		i--
	}
	return len(s)
}
