package jinja

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// How Python prints values.

// str is Python's str(v).
func (r *run) str(v Value) (string, error) {
	switch v := v.(type) {
	case Str:
		return string(v), nil
	case markup:
		return string(v), nil
	case *undefined:
		return "", nil
	}
	return r.repr(v)
}

// repr is Python's repr(v).
func (r *run) repr(v Value) (string, error) {
	w := &writer{run: r}
	if err := w.repr(v, 0); err != nil {
		return "", err
	}
	return w.String(), nil
}

func (w *writer) repr(v Value, depth int) error {
	if depth > maxDataDepth {
		return deep()
	}
	switch v := v.(type) {
	case noneType:
		return w.write("None")
	case Bool:
		if v {
			return w.write("True")
		}
		return w.write("False")
	case Int, bigInt:
		s, err := intText(v)
		if err != nil {
			return err
		}
		return w.write(s)
	case Float:
		return w.write(floatRepr(float64(v)))
	case Str:
		return w.write(quote(string(v)))
	case markup:
		return w.write("Markup(" + quote(string(v)) + ")")
	case *undefined:
		return w.write("Undefined")
	case *List:
		return w.reprSeq("[", v.items, "]", depth)
	case *tuple:
		if len(v.items) == 1 {
			return w.reprSeq("(", v.items, ",)", depth)
		}
		return w.reprSeq("(", v.items, ")", depth)
	case *Dict:
		return w.reprDict(v, depth)
	case *dictView:
		items := make([]Value, v.dict.Len())
		for i := range items {
			items[i] = v.at(i)
		}
		return w.reprSeq(v.typeName()+"([", items, "])", depth)
	case *pyRange:
		return w.write(v.String())
	case *namespace:
		if err := w.write("<Namespace "); err != nil {
			return err
		}
		if err := w.reprDict(v.attrs, depth+1); err != nil {
			return err
		}
		return w.write(">")
	case *macro:
		if v.code.name == "" {
			return w.write("<Macro anonymous>")
		}
		return w.write("<Macro " + quote(v.code.name) + ">")
	case *loopContext:
		n, err := v.length()
		if err != nil {
			return err
		}
		return w.write("<LoopContext " + strconv.Itoa(v.index0+1) + "/" + strconv.Itoa(n) + ">")
	}
	return w.write(reprObject(v))
}

// reprObject names what Python prints with an address; a constant address keeps
// rendering deterministic.
func reprObject(v Value) string {
	switch v := v.(type) {
	case *boundMethod:
		switch v.recv.(type) {
		case *loopContext, *cycler:
			return "<bound method " + v.name + " of " + objectTypeRepr(v.recv) + " at 0x0>"
		}
		return "<built-in method " + v.name + " of " + v.recv.typeName() + " object at 0x0>"
	case *builtin:
		switch v.name {
		case "dict":
			return "<class 'dict'>"
		case "namespace", "cycler", "joiner":
			return "<class 'jinja2.utils." + strings.ToUpper(v.name[:1]) + v.name[1:] + "'>"
		}
		return "<function " + v.name + " at 0x0>"
	}
	return "<" + v.typeName() + " object at 0x0>"
}

func (w *writer) reprSeq(open string, items []Value, end string, depth int) error {
	if err := w.write(open); err != nil {
		return err
	}
	for i, item := range items {
		if i > 0 {
			if err := w.write(", "); err != nil {
				return err
			}
		}
		if err := w.repr(item, depth+1); err != nil {
			return err
		}
	}
	return w.write(end)
}

func (w *writer) reprDict(d *Dict, depth int) error {
	if err := w.write("{"); err != nil {
		return err
	}
	for i, e := range d.entries {
		if i > 0 {
			if err := w.write(", "); err != nil {
				return err
			}
		}
		if err := w.repr(e.key, depth+1); err != nil {
			return err
		}
		if err := w.write(": "); err != nil {
			return err
		}
		if err := w.repr(e.val, depth+1); err != nil {
			return err
		}
	}
	return w.write("}")
}

// quote is Python's repr of a str: single quotes unless only they occur inside.
func quote(s string) string {
	q := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = '"'
	}
	b := make([]byte, 0, len(s)+2)
	b = append(b, q)
	for _, c := range s {
		switch {
		case c == rune(q) || c == '\\':
			b = append(b, '\\', byte(c))
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		case unicode.IsPrint(c):
			b = utf8.AppendRune(b, c)
		default:
			b = appendEscape(b, c)
		}
	}
	return string(append(b, q))
}

// appendEscape appends c as Python's shortest \x, \u or \U escape.
func appendEscape(b []byte, c rune) []byte {
	switch {
	case c < 0x100:
		return appendHex(append(b, `\x`...), c, 2)
	case c < 0x10000:
		return appendHex(append(b, `\u`...), c, 4)
	}
	return appendHex(append(b, `\U`...), c, 8)
}

// appendHex appends c as exactly n lower-case hex digits.
func appendHex(b []byte, c rune, n int) []byte {
	for shift := 4 * (n - 1); shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[c>>shift&15])
	}
	return b
}
