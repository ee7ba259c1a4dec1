package jinja

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// x.name and x[key], as the sandbox resolves them, and the methods of lists,
// dicts and numbers.

// method is a method of a built-in type.
type method func(r *run, recv Value, a args) (Value, error)

// getattr is Jinja's x.name: the attribute first, then the item.
func (r *run) getattr(x Value, name string) (Value, error) {
	if u, ok := x.(*undefined); ok {
		return undefinedAttr(u, name)
	}
	v, err := r.attribute(x, name)
	if v != nil || err != nil {
		return v, err
	}
	switch x := x.(type) {
	case *Dict:
		if v, ok := x.Get(name); ok {
			return v, nil
		}
	case *selfRef:
		if v, err := r.item(x, Str(name)); v != nil || err != nil {
			return v, err
		}
	}
	return missing(x, Str(name)), nil
}

// getitem is Jinja's x[key]: the item first, then, for text, the attribute.
func (r *run) getitem(x, key Value) (Value, error) {
	if u, ok := x.(*undefined); ok {
		return nil, u.err()
	}
	v, err := r.item(x, key)
	if v != nil || err != nil {
		return v, err
	}
	if name, ok := asStr(key); ok {
		if v, err := r.attribute(x, name); v != nil || err != nil {
			return v, err
		}
	}
	return missing(x, key), nil
}

func missing(x, key Value) Value { return &undefined{obj: x, name: key, kind: KindUndefined} }

// undefinedAttr is an attribute of an undefined value: always the error of
// using it, but for Python's own names.
func undefinedAttr(u *undefined, name string) (Value, error) {
	if strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__") {
		if slices.Contains(dunders, name) {
			return unsafeAttr(u, name), nil
		}
		// Python then tries u[name], which is a use.
	}
	return nil, u.err()
}

// item is Python's x[key]; nil where it raises TypeError or LookupError, which
// Jinja turns into an undefined value.
func (r *run) item(x, key Value) (Value, error) {
	switch x := x.(type) {
	case *Dict:
		h, err := hash(key, 0)
		if err != nil {
			return nil, nil // unhashable: a TypeError like any other
		}
		if i := x.find(h); i >= 0 {
			return x.entries[i].val, nil
		}
		return nil, nil
	case *List:
		return itemAt(x.items, key), nil
	case *tuple:
		return itemAt(x.items, key), nil
	case Str, markup:
		s, _ := asStr(x)
		return r.charAt(x, s, key)
	case *pyRange:
		if i, ok := index(key, x.len()); ok {
			return Int(x.at(i)), nil
		}
	case *selfRef:
		name, _ := asStr(key)
		if b := x.ctx.blocks[name]; b != nil {
			return &blockRef{b.code, x.ctx}, nil
		}
	}
	return nil, nil
}

func itemAt(items []Value, key Value) Value {
	if i, ok := index(key, len(items)); ok {
		return items[i]
	}
	return nil
}

// index resolves a Python index into n items.
func index(key Value, n int) (int, bool) {
	i, ok := asIndex(key)
	if !ok {
		return 0, false
	}
	if i < 0 {
		i = max(i, -n-1) + n
	}
	return i, i >= 0 && i < n
}

func (r *run) charAt(x Value, s string, key Value) (Value, error) {
	if _, ok := asIndex(key); !ok {
		return nil, nil
	}
	if err := r.tick(len(s) / bytesPerStep); err != nil {
		return nil, err
	}
	n := utf8.RuneCountInString(s)
	i, ok := index(key, n)
	if !ok {
		return nil, nil
	}
	from := runeOffset(s, n, i)
	_, size := utf8.DecodeRuneInString(s[from:])
	return likeText(x, s[from:from+size]), nil
}

// dunders are names that every Python object answers to; the sandbox hides them.
var dunders = []string{
	"__class__", "__delattr__", "__dir__", "__doc__", "__eq__", "__format__", "__ge__", "__getattribute__",
	"__gt__", "__hash__", "__init__", "__init_subclass__", "__le__", "__lt__", "__module__", "__ne__", "__new__",
	"__reduce__", "__reduce_ex__", "__repr__", "__setattr__", "__sizeof__", "__str__", "__subclasshook__",
	"__len__", "__iter__", "__contains__", "__getitem__", "__dict__", "__call__", "__add__", "__mul__",
}

// mutators are the methods an ImmutableSandboxedEnvironment hides.
var (
	listMutators = []string{"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"}
	dictMutators = []string{"clear", "pop", "popitem", "setdefault", "update"}
)

// unsafeAttr is undefined with the sandbox's refusal as its error.
func unsafeAttr(x Value, name string) Value {
	return &undefined{
		hint: fmt.Sprintf("access to attribute %s of %s object is unsafe.", quote(name), quote(x.typeName())),
		kind: KindSecurity,
	}
}

// attribute is Python's getattr(x, name); nil where it raises AttributeError.
func (r *run) attribute(x Value, name string) (Value, error) {
	if strings.HasPrefix(name, "__") && slices.Contains(dunders, name) {
		return unsafeAttr(x, name), nil
	}
	switch x := x.(type) {
	case Str, markup:
		return methodOf(x, name, strMethods, nil), nil
	case *Dict:
		return methodOf(x, name, dictMethods, dictMutators), nil
	case *List:
		return methodOf(x, name, listMethods, listMutators), nil
	case *tuple:
		if i := slices.Index(x.names, name); i >= 0 {
			return x.items[i], nil
		}
		return methodOf(x, name, seqMethods, nil), nil
	case *pyRange:
		switch name {
		case "start":
			return Int(x.start), nil
		case "stop":
			return Int(x.stop), nil
		case "step":
			return Int(x.step), nil
		}
		return methodOf(x, name, seqMethods, nil), nil
	case *namespace:
		v, ok := x.attrs.Get(name)
		if ok && strings.HasPrefix(name, "_") {
			return unsafeAttr(x, name), nil
		}
		return v, nil
	case *loopContext:
		return x.attr(name)
	case *macro:
		return x.attr(name), nil
	case *cycler:
		return x.attr(name), nil
	case *joiner:
		if name == "sep" {
			return x.sep, nil
		}
		if name == "used" {
			return Bool(x.used), nil
		}
	case Int, bigInt, Bool, Float:
		return numberAttr(x, name), nil
	case *builtin:
		if name == "fromkeys" && x.name == "dict" {
			return &boundMethod{x, name, dictFromKeys}, nil
		}
	}
	return nil, nil
}

// unsupportedMethods exist in Python, by type and name, and return what no
// template needs. They are there, and refuse to be called.
var unsupportedMethods = map[[2]string]bool{
	{"str", "encode"}: true, {"str", "maketrans"}: true, {"str", "translate"}: true,
	{"int", "to_bytes"}: true, {"int", "from_bytes"}: true, {"int", "as_integer_ratio"}: true,
	{"float", "hex"}: true, {"float", "fromhex"}: true, {"float", "as_integer_ratio"}: true,
}

func methodOf(x Value, name string, methods map[string]method, mutators []string) Value {
	if m, ok := methods[name]; ok {
		return &boundMethod{x, name, m}
	}
	if slices.Contains(mutators, name) {
		return unsafeAttr(x, name)
	}
	return unsupportedMethod(x, name)
}

// unsupportedMethod returns nil for what Python has not either.
func unsupportedMethod(x Value, name string) Value {
	typ := x.typeName()
	switch typ {
	case "Markup":
		typ = "str"
	case "bool":
		typ = "int"
	}
	if !unsupportedMethods[[2]string{typ, name}] {
		return nil
	}
	return &boundMethod{x, name, func(*run, Value, args) (Value, error) {
		return nil, errf(KindUnsupported, "%s.%s is not supported", typ, name)
	}}
}

func numberAttr(x Value, name string) Value {
	f, isFloat := x.(Float)
	self, _ := asInt(x)
	if isFloat {
		self = f
	}
	value := func(v Value) method {
		return func(_ *run, _ Value, a args) (Value, error) {
			_, err := a.positional(x.typeName()+"."+name, 0, 0)
			return v, err
		}
	}
	switch {
	case name == "real":
		return self
	case name == "imag" && isFloat:
		return Float(0)
	case name == "imag":
		return Int(0)
	case name == "conjugate":
		return &boundMethod{x, name, value(self)}
	case name == "is_integer" && isFloat:
		return &boundMethod{x, name, value(Bool(float64(f) == math.Trunc(float64(f)) && !math.IsInf(float64(f), 0)))}
	case isFloat:
		return unsupportedMethod(x, name)
	case name == "numerator":
		return self
	case name == "denominator":
		return Int(1)
	case name == "bit_length":
		return &boundMethod{x, name, value(Int(toBig(self).BitLen()))}
	}
	return unsupportedMethod(x, name)
}

// seqMethods are those of tuple and range.
var seqMethods = map[string]method{"count": seqCount, "index": seqIndex}

var listMethods = map[string]method{"count": seqCount, "index": seqIndex, "copy": seqCopy}

func seqCopy(r *run, recv Value, a args) (Value, error) {
	if _, err := a.positional("list.copy", 0, 0); err != nil {
		return nil, err
	}
	items, err := r.joinItems(recv.(*List).items, nil)
	return &List{items}, err
}

func seqCount(r *run, recv Value, a args) (Value, error) {
	v, err := a.positional(recv.typeName()+".count", 1, 1)
	if err != nil {
		return nil, err
	}
	items, err := r.collect(recv)
	if err != nil {
		return nil, err
	}
	n := 0
	for _, item := range items {
		eq, err := r.equal(item, v[0])
		if err != nil {
			return nil, err
		}
		if eq {
			n++
		}
	}
	return Int(n), nil
}

func seqIndex(r *run, recv Value, a args) (Value, error) {
	maxArgs := 3
	if _, ok := recv.(*pyRange); ok {
		maxArgs = 1
	}
	v, err := a.positional(recv.typeName()+".index", 1, maxArgs)
	if err != nil {
		return nil, err
	}
	items, err := r.collect(recv)
	if err != nil {
		return nil, err
	}
	from, to, err := searchBounds(v[1:], len(items))
	if err != nil {
		return nil, err
	}
	for i := from; i < to; i++ {
		if eq, err := r.equal(items[i], v[0]); err != nil || eq {
			return Int(i), err
		}
	}
	text, err := r.repr(v[0])
	if err != nil {
		return nil, err
	}
	return nil, valueErrf("%s is not in %s", text, recv.typeName())
}

// searchBounds reads the optional start and stop of index, find and the like,
// clamped to 0..n; start may still exceed stop.
func searchBounds(v []Value, n int) (from, to int, err error) {
	bounds := [2]int{0, n}
	for i := range min(len(v), 2) {
		if v[i] == nil || v[i] == None {
			continue
		}
		b, ok := asIndex(v[i])
		if !ok {
			return 0, 0, typeErrf("slice indices must be integers or None or have an __index__ method")
		}
		if b < 0 {
			b = max(b, -n) + n
		}
		bounds[i] = b
	}
	return bounds[0], min(bounds[1], n), nil
}

var dictMethods = map[string]method{
	"get": dictGet, "keys": dictViewOf('k'), "values": dictViewOf('v'), "items": dictViewOf('i'), "copy": dictCopy,
	"fromkeys": dictFromKeys,
}

func dictGet(_ *run, recv Value, a args) (Value, error) {
	v, err := a.positional("dict.get", 1, 2)
	if err != nil {
		return nil, err
	}
	found, ok, err := recv.(*Dict).lookup(v[0])
	if ok || err != nil {
		return found, err
	}
	if v[1] == nil {
		return None, nil
	}
	return v[1], nil
}

func dictViewOf(what byte) method {
	name := map[byte]string{'k': "dict.keys", 'v': "dict.values", 'i': "dict.items"}[what]
	return func(_ *run, recv Value, a args) (Value, error) {
		_, err := a.positional(name, 0, 0)
		return &dictView{recv.(*Dict), what}, err
	}
}

func dictCopy(r *run, recv Value, a args) (Value, error) {
	if _, err := a.positional("dict.copy", 0, 0); err != nil {
		return nil, err
	}
	d := recv.(*Dict)
	return d.Clone(), r.chargeItems(4 * d.Len())
}

func dictFromKeys(r *run, _ Value, a args) (Value, error) {
	v, err := a.positional("dict.fromkeys", 1, 2)
	if err != nil {
		return nil, err
	}
	keys, err := r.collect(v[0])
	if err != nil {
		return nil, err
	}
	val := v[1]
	if val == nil {
		val = None
	}
	d := NewDict()
	for _, k := range keys {
		if err := d.setKey(k, val); err != nil {
			return nil, err
		}
	}
	return d, r.chargeItems(4 * d.Len())
}
