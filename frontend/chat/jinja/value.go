package jinja

import (
	"bytes"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Value is one Python value. Outside the package it is None, a Bool, Int,
// Float, Str, *List or *Dict; the others only arise while rendering.
//
// Values handed to Render are never written to, so they may be shared by
// concurrent renders.
type Value interface {
	typeName() string // as Python's type(v).__name__
}

type (
	// Bool is Python's bool.
	Bool bool
	// Int is a Python int that fits 64 bits; wider ones are held apart.
	Int int64
	// Float is Python's float.
	Float float64
	// Str is Python's str; valid UTF-8, counted in code points.
	Str string

	noneType struct{}
	// bigInt is an int outside the range of Int, always.
	bigInt struct{ *big.Int }
	// markup is markupsafe.Markup: a str that is already HTML-escaped.
	markup string
)

// None is Python's None.
var None Value = noneType{}

func (noneType) typeName() string { return "NoneType" }
func (Bool) typeName() string     { return "bool" }
func (Int) typeName() string      { return "int" }
func (bigInt) typeName() string   { return "int" }
func (Float) typeName() string    { return "float" }
func (Str) typeName() string      { return "str" }
func (markup) typeName() string   { return "Markup" }

// List is Python's list. The sandbox lets no template change one.
type List struct{ items []Value }

// NewList returns the list of items, which it keeps.
func NewList(items ...Value) *List { return &List{items} }

func (*List) typeName() string { return "list" }

// Len returns the number of items.
func (l *List) Len() int { return len(l.items) }

// At returns item i.
func (l *List) At(i int) Value { return l.items[i] }

// Append adds v at the end. Not while a render uses the list.
func (l *List) Append(v Value) { l.items = append(l.items, v) }

// tuple is Python's tuple; names is set for the pairs groupby makes.
type tuple struct {
	items []Value
	names []string
}

func newTuple(items ...Value) *tuple { return &tuple{items: items} }

func (t *tuple) typeName() string {
	if t.names != nil {
		return "_GroupTuple"
	}
	return "tuple"
}

// undefined is what a missing name or attribute evaluates to: it prints as
// nothing, is false and empty, and refuses everything else.
type undefined struct {
	hint string
	obj  Value // the object that lacks name; nil for a plain variable
	name Value
	kind Kind // KindUndefined, or KindSecurity when the sandbox hid it
}

func (*undefined) typeName() string { return "Undefined" }

func undefinedName(name string) *undefined {
	return &undefined{name: Str(name), kind: KindUndefined}
}

func undefinedHint(hint string) *undefined { return &undefined{hint: hint, kind: KindUndefined} }

// err is the error of using u.
func (u *undefined) err() error {
	if u.hint != "" {
		return &Error{Kind: u.kind, Msg: u.hint}
	}
	name, ok := u.name.(Str)
	if u.obj == nil {
		return &Error{Kind: u.kind, Msg: quote(string(name)) + " is undefined"}
	}
	obj := objectTypeRepr(u.obj)
	if ok {
		return &Error{Kind: u.kind, Msg: fmt.Sprintf("%s has no attribute %s", quote(obj), quote(string(name)))}
	}
	elem, err := (&run{limits: DefaultLimits}).repr(u.name)
	if err != nil {
		elem = u.name.typeName()
	}
	return &Error{Kind: u.kind, Msg: fmt.Sprintf("%s has no element %s", obj, elem)}
}

// objectTypeRepr names v as Jinja's messages do: "dict object", "None".
func objectTypeRepr(v Value) string {
	switch v := v.(type) {
	case noneType:
		return "None"
	case *namespace:
		return "jinja2.utils.Namespace object"
	case *macro:
		return "jinja2.runtime.Macro object"
	case *loopContext:
		return "jinja2.runtime.LoopContext object"
	case markup:
		return "markupsafe.Markup object"
	default:
		return v.typeName() + " object"
	}
}

// asStr returns the text of a str or Markup.
func asStr(v Value) (string, bool) {
	switch v := v.(type) {
	case Str:
		return string(v), true
	case markup:
		return string(v), true
	}
	return "", false
}

// truth is Python's bool(v).
func truth(v Value) bool {
	switch v := v.(type) {
	case *undefined, noneType:
		return false
	case Bool:
		return bool(v)
	case Int:
		return v != 0
	case Float:
		return v != 0
	case Str:
		return v != ""
	case markup:
		return v != ""
	}
	if n, ok := length(v); ok {
		return n != 0
	}
	return true
}

// length is Python's len(v); ok is false where len raises TypeError.
func length(v Value) (n int, ok bool) {
	switch v := v.(type) {
	case Str:
		return utf8.RuneCountInString(string(v)), true
	case markup:
		return utf8.RuneCountInString(string(v)), true
	case *List:
		return len(v.items), true
	case *tuple:
		return len(v.items), true
	case *Dict:
		return v.Len(), true
	case *dictView:
		return v.dict.Len(), true
	case *pyRange:
		return v.len(), true
	case *undefined:
		return 0, true
	case *loopContext:
		return v.sizeHint(), true
	}
	return 0, false
}

// FromJSON decodes one JSON text. Objects keep their key order (a repeated key
// keeps its first place and its last value, as in Python), and a number is an
// int or a float by its spelling: 1000 and 1e3 differ.
func FromJSON(data []byte) (Value, error) {
	d := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true))
	v, err := decodeJSON(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		if err == nil {
			err = fmt.Errorf("jinja: data after the JSON value at byte %d", d.InputOffset())
		}
		return nil, err
	}
	return v, nil
}

func decodeJSON(d *jsontext.Decoder, depth int) (Value, error) {
	if depth > maxDataDepth {
		return nil, fmt.Errorf("jinja: JSON nested deeper than %d levels at byte %d", maxDataDepth, d.InputOffset())
	}
	tok, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch tok.Kind() {
	case jsontext.KindNull:
		return None, nil
	case jsontext.KindTrue, jsontext.KindFalse:
		return Bool(tok.Bool()), nil
	case jsontext.KindString:
		return Str(tok.String()), nil
	case jsontext.KindNumber:
		return parseJSONNumber(tok.String())
	case jsontext.KindBeginArray:
		list := &List{}
		for d.PeekKind() != jsontext.KindEndArray {
			v, err := decodeJSON(d, depth+1)
			if err != nil {
				return nil, err
			}
			list.items = append(list.items, v)
		}
		_, err := d.ReadToken()
		return list, err
	default: // the decoder lets only an object remain
		dict := NewDict()
		for d.PeekKind() != jsontext.KindEndObject {
			name, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			key := name.String()
			v, err := decodeJSON(d, depth+1)
			if err != nil {
				return nil, err
			}
			dict.Set(key, v)
		}
		_, err := d.ReadToken()
		return dict, err
	}
}

func parseJSONNumber(s string) (Value, error) {
	for i := range len(s) {
		if c := s[i]; c == '.' || c == 'e' || c == 'E' {
			f, err := strconv.ParseFloat(s, 64)
			if err != nil && f == 0 {
				return nil, err
			}
			return Float(f), nil // out of range is ±inf, as in Python
		}
	}
	return parseInt(s, 10)
}
