package jinja

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// tojson is the filter as transformers defines it, json.dumps(x,
// ensure_ascii=False, indent=None, separators=None, sort_keys=False), with no
// HTML escaping.
func tojson(st *state, x Value, a args) (Value, error) {
	v, err := a.bind("tojson", "ensure_ascii?", "indent?", "separators?", "sort_keys?")
	if err != nil {
		return nil, err
	}
	j := &jsonWriter{w: &writer{run: st.run}, itemSep: ", ", keySep: ": "}
	j.ascii = v[0] != nil && truth(v[0])
	j.sort = v[3] != nil && truth(v[3])
	if v[1] != nil && v[1] != None {
		j.pretty, j.itemSep = true, ","
		if s, ok := asStr(v[1]); ok {
			j.indent = s
		} else if n, ok := asIndex(v[1]); ok {
			if n > 1024 {
				return nil, errf(KindLimit, "indent %d exceeds the limit of 1024", n)
			}
			j.indent = strings.Repeat(" ", max(n, 0))
		} else {
			return nil, typeErrf("can't multiply sequence by non-int of type '%s'", v[1].typeName())
		}
	}
	if v[2] != nil && v[2] != None {
		if err := j.separators(st.run, v[2]); err != nil {
			return nil, err
		}
	}
	if err := j.value(x, 0); err != nil {
		return nil, err
	}
	return Str(j.w.String()), nil
}

type jsonWriter struct {
	w       *writer
	ascii   bool
	sort    bool
	pretty  bool
	indent  string
	itemSep string
	keySep  string
}

func (j *jsonWriter) separators(r *run, v Value) error {
	items, err := r.collect(v)
	if err != nil {
		return err
	}
	if len(items) != 2 {
		return valueErrf("separators must be a pair (item_separator, key_separator), got %d items", len(items))
	}
	var ok [2]bool
	j.itemSep, ok[0] = asStr(items[0])
	j.keySep, ok[1] = asStr(items[1])
	if !ok[0] || !ok[1] {
		return typeErrf("separators must be str, not %s and %s", items[0].typeName(), items[1].typeName())
	}
	return nil
}

func (j *jsonWriter) value(v Value, depth int) error {
	if depth > maxDataDepth {
		return deep()
	}
	switch v := v.(type) {
	case noneType:
		return j.w.write("null")
	case Bool:
		return j.w.write(jsonBool(v))
	case Int, bigInt:
		s, err := intText(v)
		if err != nil {
			return err
		}
		return j.w.write(s)
	case Float:
		return j.w.write(jsonFloat(float64(v)))
	case Str, markup:
		return j.str(strOf(v))
	case *List:
		return j.array(v.items, depth)
	case *tuple:
		return j.array(v.items, depth)
	case *Dict:
		return j.object(v, depth)
	}
	return typeErrf("Object of type %s is not JSON serializable", v.typeName())
}

func jsonBool(b Bool) string {
	if b {
		return "true"
	}
	return "false"
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return floatRepr(f)
}

func (j *jsonWriter) newline(depth int) error {
	if !j.pretty {
		return nil
	}
	if err := j.w.write("\n"); err != nil {
		return err
	}
	for range depth {
		if err := j.w.write(j.indent); err != nil {
			return err
		}
	}
	return nil
}

func (j *jsonWriter) array(items []Value, depth int) error {
	if len(items) == 0 {
		return j.w.write("[]")
	}
	sep := "["
	for _, item := range items {
		if err := j.w.write(sep); err != nil {
			return err
		}
		if err := j.newline(depth + 1); err != nil {
			return err
		}
		if err := j.value(item, depth+1); err != nil {
			return err
		}
		sep = j.itemSep
	}
	if err := j.newline(depth); err != nil {
		return err
	}
	return j.w.write("]")
}

func (j *jsonWriter) object(d *Dict, depth int) error {
	if d.Len() == 0 {
		return j.w.write("{}")
	}
	entries := d.entries
	if j.sort {
		var err error
		if entries, err = sortedEntries(j.w.run, entries); err != nil {
			return err
		}
	}
	sep := "{"
	for _, e := range entries {
		key, err := jsonKey(e.key)
		if err != nil {
			return err
		}
		if err := j.w.write(sep); err != nil {
			return err
		}
		if err := j.newline(depth + 1); err != nil {
			return err
		}
		if err := j.str(key); err != nil {
			return err
		}
		if err := j.w.write(j.keySep); err != nil {
			return err
		}
		if err := j.value(e.val, depth+1); err != nil {
			return err
		}
		sep = j.itemSep
	}
	if err := j.newline(depth); err != nil {
		return err
	}
	return j.w.write("}")
}

func sortedEntries(r *run, entries []entry) ([]entry, error) {
	sorted := slices.Clone(entries)
	var err error
	slices.SortStableFunc(sorted, func(a, b entry) int {
		if err != nil {
			return 0
		}
		var c int
		c, err = r.compareAt("<", a.key, b.key, 0)
		return c
	})
	return sorted, err
}

func jsonKey(v Value) (string, error) {
	switch v := v.(type) {
	case Str, markup:
		return strOf(v), nil
	case noneType:
		return "null", nil
	case Bool:
		return jsonBool(v), nil
	case Int, bigInt:
		return intText(v)
	case Float:
		return jsonFloat(float64(v)), nil
	}
	return "", typeErrf("keys must be str, int, float, bool or None, not %s", v.typeName())
}

// str writes s quoted, in runs of what needs no escape.
func (j *jsonWriter) str(s string) error {
	if err := j.w.write(`"`); err != nil {
		return err
	}
	start := 0
	for i := 0; i < len(s); {
		c, size := rune(s[i]), 1
		if c >= utf8.RuneSelf {
			c, size = utf8.DecodeRuneInString(s[i:])
		}
		if esc := jsonEscape(c, j.ascii); esc != "" {
			if err := j.w.write(s[start:i]); err != nil {
				return err
			}
			if err := j.w.write(esc); err != nil {
				return err
			}
			start = i + size
		}
		i += size
	}
	if err := j.w.write(s[start:]); err != nil {
		return err
	}
	return j.w.write(`"`)
}

// jsonEscape is the escape of c, "" if it stands for itself.
func jsonEscape(c rune, ascii bool) string {
	switch c {
	case '"':
		return `\"`
	case '\\':
		return `\\`
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	case '\f':
		return `\f`
	case '\b':
		return `\b`
	}
	if c >= 0x20 && (c < 0x7f || !ascii) {
		return ""
	}
	if c >= 0x10000 {
		c -= 0x10000
		b := appendHex([]byte(`\u`), 0xd800+c>>10, 4)
		return string(appendHex(append(b, `\u`...), 0xdc00+c&0x3ff, 4))
	}
	return string(appendHex([]byte(`\u`), c, 4))
}
