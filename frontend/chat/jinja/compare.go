package jinja

import (
	"cmp"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Python's ==, <, in and hashing. Each walk over values counts as steps, because
// a few shared lists can unfold to any size.

var errTooDeep = errf(KindLimit, "value nested deeper than the limit of %d levels", maxDataDepth)

// deep is errTooDeep as a fresh error, because at() writes the line into it.
func deep() error { e := *errTooDeep; return &e }

// hash gives the dict key of v, or TypeError for an unhashable value.
func hash(v Value, depth int) (hashKey, error) {
	switch v := v.(type) {
	case Str:
		return hashKey{kind: 's', str: string(v)}, nil
	case markup:
		return hashKey{kind: 's', str: string(v)}, nil
	case noneType:
		return hashKey{kind: 'n'}, nil
	case Bool, Int:
		i, _ := asInt(v)
		return hashKey{kind: 'i', num: int64(i.(Int))}, nil
	case bigInt:
		return hashKey{kind: 'f', str: v.String()}, nil
	case Float:
		return hashFloat(float64(v)), nil
	case *undefined:
		return hashKey{kind: 'u'}, nil // all undefined values are equal
	case *tuple:
		return hashTuple(v, depth)
	case *List, *Dict, *dictView:
		return hashKey{}, typeErrf("unhashable type: '%s'", v.typeName())
	case *pyRange:
		return hashKey{kind: 'r', str: v.String()}, nil
	}
	return hashKey{kind: 'o', obj: v}, nil
}

func hashFloat(f float64) hashKey {
	if f == math.Trunc(f) && !math.IsInf(f, 0) {
		if math.Abs(f) < 1<<63 {
			return hashKey{kind: 'i', num: int64(f)}
		}
		z, _ := big.NewFloat(f).Int(nil)
		return hashKey{kind: 'f', str: z.String()}
	}
	return hashKey{kind: 'f', str: strconv.FormatFloat(f, 'g', -1, 64)}
}

// maxTupleKey bounds the hash of a tuple, which spells out what is in it.
const maxTupleKey = 1 << 16

func hashTuple(t *tuple, depth int) (hashKey, error) {
	if depth > maxDataDepth {
		return hashKey{}, deep()
	}
	var b strings.Builder
	for _, item := range t.items {
		h, err := hash(item, depth+1)
		if err != nil {
			return hashKey{}, err
		}
		if h.obj != nil {
			return hashKey{}, errf(KindUnsupported, "a tuple holding a '%s' object as a key is not supported", item.typeName())
		}
		b.WriteByte(h.kind)
		b.WriteString(strconv.FormatInt(h.num, 10))
		b.WriteByte(':')
		b.WriteString(strconv.Itoa(len(h.str)))
		b.WriteByte(':')
		b.WriteString(h.str)
		if b.Len() > maxTupleKey {
			return hashKey{}, errf(KindLimit, "a tuple of more than %d bytes as a key", maxTupleKey)
		}
	}
	return hashKey{kind: 't', str: b.String()}, nil
}

// same is Python's a is b, as far as values here have an identity.
func same(a, b Value) bool {
	switch a := a.(type) {
	case Float, bigInt:
		return false // boxed anew at each use
	case *undefined:
		return a == b
	}
	switch b.(type) {
	case Float, bigInt:
		return false
	}
	return a == b
}

// equal is Python's a == b.
func (r *run) equal(a, b Value) (bool, error) { return r.equalAt(a, b, 0) }

func (r *run) equalAt(a, b Value, depth int) (bool, error) {
	if err := r.tick(1); err != nil {
		return false, err
	}
	if depth > maxDataDepth {
		return false, deep()
	}
	if s, ok := asStr(a); ok {
		t, ok := asStr(b)
		return ok && s == t, nil
	}
	switch x := a.(type) {
	case noneType:
		return b == None, nil
	case *undefined:
		_, ok := b.(*undefined)
		return ok, nil
	case *List:
		if y, ok := b.(*List); ok {
			return r.equalItems(x.items, y.items, depth)
		}
		return false, nil
	case *tuple:
		if y, ok := b.(*tuple); ok {
			return r.equalItems(x.items, y.items, depth)
		}
		return false, nil
	case *Dict:
		if y, ok := b.(*Dict); ok {
			return r.equalDicts(x, y, depth)
		}
		return false, nil
	case *dictView:
		return r.equalViews(x, b, depth)
	case *pyRange:
		y, ok := b.(*pyRange)
		return ok && x.equal(y), nil
	}
	if c, ok := compareNumbers(a, b); ok {
		return c == 0, nil
	}
	return same(a, b), nil
}

func (r *run) equalItems(a, b []Value, depth int) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	for i := range a {
		if same(a[i], b[i]) {
			continue
		}
		if eq, err := r.equalAt(a[i], b[i], depth+1); err != nil || !eq {
			return false, err
		}
	}
	return true, nil
}

func (r *run) equalDicts(a, b *Dict, depth int) (bool, error) {
	if a.Len() != b.Len() {
		return false, nil
	}
	for _, e := range a.entries {
		i := b.find(e.hash)
		if i < 0 {
			return false, nil
		}
		if same(e.val, b.entries[i].val) {
			continue
		}
		if eq, err := r.equalAt(e.val, b.entries[i].val, depth+1); err != nil || !eq {
			return false, err
		}
	}
	return true, nil
}

// equalViews compares keys() and items() as the sets they are; values() has identity only.
func (r *run) equalViews(a *dictView, other Value, depth int) (bool, error) {
	b, ok := other.(*dictView)
	if !ok || a.what != b.what || a.what == 'v' {
		return a == other, nil
	}
	if a.what == 'i' {
		return r.equalDicts(a.dict, b.dict, depth)
	}
	if a.dict.Len() != b.dict.Len() {
		return false, nil
	}
	for _, e := range a.dict.entries {
		if b.dict.find(e.hash) < 0 {
			return false, nil
		}
	}
	return true, nil
}

// unordered is what comparing with NaN gives: neither less, equal nor greater.
const unordered = 2

// compareNumbers orders two numbers exactly, an int against a float included.
func compareNumbers(a, b Value) (c int, ok bool) {
	x, xInt := asInt(a)
	y, yInt := asInt(b)
	f, xFloat := a.(Float)
	g, yFloat := b.(Float)
	switch {
	case xInt && yInt:
		if p, ok := x.(Int); ok {
			if q, ok := y.(Int); ok {
				return cmp.Compare(p, q), true
			}
		}
		return toBig(x).Cmp(toBig(y)), true
	case xFloat && yFloat:
		if f != f || g != g {
			return unordered, true
		}
		return cmp.Compare(f, g), true
	case xInt && yFloat:
		return compareIntFloat(x, float64(g)), true
	case xFloat && yInt:
		c := compareIntFloat(y, float64(f))
		if c != unordered {
			c = -c
		}
		return c, true
	}
	return 0, false
}

func compareIntFloat(i Value, f float64) int {
	switch {
	case f != f:
		return unordered
	case math.IsInf(f, 1):
		return -1
	case math.IsInf(f, -1):
		return 1
	}
	if n, ok := i.(Int); ok && n > -1<<53 && n < 1<<53 {
		return cmp.Compare(float64(n), f)
	}
	return new(big.Float).SetInt(toBig(i)).Cmp(big.NewFloat(f))
}

// order is Python's a op b for < <= > >=.
func (r *run) order(op string, a, b Value) (bool, error) {
	c, err := r.compareAt(op, a, b, 0)
	if err != nil || c == unordered {
		return false, err
	}
	switch op {
	case "<":
		return c < 0, nil
	case "<=":
		return c <= 0, nil
	case ">":
		return c > 0, nil
	}
	return c >= 0, nil
}

func (r *run) compareAt(op string, a, b Value, depth int) (int, error) {
	if err := r.tick(1); err != nil {
		return 0, err
	}
	if depth > maxDataDepth {
		return 0, deep()
	}
	if u, ok := a.(*undefined); ok {
		return 0, u.err()
	}
	if u, ok := b.(*undefined); ok {
		return 0, u.err()
	}
	if c, ok := compareNumbers(a, b); ok {
		return c, nil
	}
	if s, ok := asStr(a); ok {
		if t, ok := asStr(b); ok {
			return strings.Compare(s, t), nil // UTF-8 sorts as its code points do
		}
	}
	switch x := a.(type) {
	case *List:
		if y, ok := b.(*List); ok {
			return r.compareItems(op, x.items, y.items, depth)
		}
	case *tuple:
		if y, ok := b.(*tuple); ok {
			return r.compareItems(op, x.items, y.items, depth)
		}
	}
	return 0, typeErrf("'%s' not supported between instances of '%s' and '%s'", op, a.typeName(), b.typeName())
}

func (r *run) compareItems(op string, a, b []Value, depth int) (int, error) {
	for i := range min(len(a), len(b)) {
		if same(a[i], b[i]) {
			continue
		}
		eq, err := r.equalAt(a[i], b[i], depth+1)
		if err != nil {
			return 0, err
		}
		if !eq {
			return r.compareAt(op, a[i], b[i], depth+1)
		}
	}
	return cmp.Compare(len(a), len(b)), nil
}

// contains is Python's item in box.
func (r *run) contains(box, item Value) (bool, error) {
	switch box := box.(type) {
	case Str, markup:
		text, _ := asStr(box)
		sub, ok := asStr(item)
		if !ok {
			return false, typeErrf("'in <string>' requires string as left operand, not %s", item.typeName())
		}
		if err := r.tick(len(text) / bytesPerStep); err != nil {
			return false, err
		}
		return strings.Contains(text, sub), nil
	case *Dict:
		_, found, err := box.lookup(item)
		return found, err
	case *dictView:
		if box.what == 'k' {
			_, found, err := box.dict.lookup(item)
			return found, err
		}
	case *pyRange:
		if i, ok := asInt(item); ok {
			n, ok := i.(Int)
			return ok && box.contains(int(n)), nil
		}
	case *undefined:
		return false, nil
	case *namespace, *macro, *builtin, *boundMethod, *cycler, *joiner:
		return false, typeErrf("argument of type '%s' is not iterable", box.typeName())
	}
	it, ok := iterate(box)
	if !ok {
		return false, typeErrf("argument of type '%s' is not iterable", box.typeName())
	}
	for {
		v, err := it.next()
		if err != nil || v == nil {
			return false, err
		}
		if same(v, item) {
			return true, nil
		}
		if eq, err := r.equal(v, item); err != nil || eq {
			return eq, err
		}
	}
}
