package jinja

import (
	"strings"
	"testing"
)

func TestFromJSON(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"b": 1, "a": {"z": [], "y": {}}}`, `{'b': 1, 'a': {'z': [], 'y': {}}}`},
		{`[1, 1.0, 1e3, -0, -0.0, 1E-7, 100000000000000000000]`, `[1, 1.0, 1000.0, 0, -0.0, 1e-07, 100000000000000000000]`},
		{`[true, false, null, "é\n\u00e9\ud83d\ude00"]`, `[True, False, None, 'é\né😀']`},
		{`{"a": 1, "b": 2, "a": 3}`, `{'a': 3, 'b': 2}`},
		{`1e400`, `inf`},
		{` "x" `, `'x'`},
	} {
		v, err := FromJSON([]byte(c.in))
		if err != nil {
			t.Errorf("FromJSON(%s) = %v", c.in, err)
			continue
		}
		if got, err := (&run{limits: DefaultLimits}).repr(v); got != c.want || err != nil {
			t.Errorf("FromJSON(%s) = %s, %v, want %s", c.in, got, err, c.want)
		}
	}
	for _, in := range []string{``, `{`, `[1,]`, `{"a"}`, `1 2`, `NaN`, `nul`, `"\x"`, "\"\xff\"", `01`, strings.Repeat("[", 2000), strings.Repeat("[", 950) + strings.Repeat("]", 950), strings.Repeat("9", 5000)} {
		if v, err := FromJSON([]byte(in)); err == nil {
			t.Errorf("FromJSON(%.40q) = %v, want an error", in, v)
		}
	}
}

func TestDict(t *testing.T) {
	d := NewDict()
	for i := range 40 { // past the size from which it is indexed
		d.Set(itoa(i), Int(i))
	}
	d.Set("3", Str("three"))
	if d.Len() != 40 {
		t.Errorf("Len() = %d, want 40", d.Len())
	}
	if v, ok := d.Get("3"); !ok || v != Str("three") {
		t.Errorf("Get(3) = %v, %v, want three", v, ok)
	}
	if v, ok := d.Get("40"); ok {
		t.Errorf("Get(40) = %v, want none", v)
	}
	c := d.Clone()
	c.Set("new", None)
	i := 0
	for k, v := range d.All() {
		if k != Str(itoa(i)) || i != 3 && v != Int(i) {
			t.Errorf("entry %d of All() = %v: %v", i, k, v)
		}
		i++
	}
	if i != 40 || c.Len() != 41 {
		t.Errorf("after Clone and Set: %d and %d entries, want 40 and 41", i, c.Len())
	}
	var none *Dict
	if _, ok := none.Get("a"); ok || none.Len() != 0 {
		t.Errorf("a nil Dict is not empty")
	}
}

func TestVariables(t *testing.T) {
	tmpl := parseT(t, `{% set a = b %}{{ a }}{% for m in messages %}{{ m.x }}{{ loop.index }}{% endfor %}
		{{ range(3) }}{% macro f(p) %}{{ p }}{{ q }}{% endmacro %}{% if r %}{% set s = 1 %}{% endif %}{{ strftime_now('') }}`)
	if got, want := strings.Join(tmpl.Variables(), " "), "b messages q r s strftime_now"; got != want {
		t.Errorf("Variables() = %q, want %q", got, want)
	}
}

func TestLoopsOver(t *testing.T) {
	for _, c := range []struct {
		source    string
		found, ok bool
	}{
		{"{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}", true, true},
		{"{% for m in messages %}{% for c in m['content'] | list %}{% endfor %}{% endfor %}", true, true},
		{"{% set a = messages[1:] %}{% set b = a %}{% for m in b %}{% for c in m.content %}{% endfor %}{% endfor %}", true, true},
		{"{% for m in messages if m.role == 'user' %}{% if m.content is string %}{% else %}{% for c in m.content %}{% endfor %}{% endif %}{% endfor %}", true, true},
		{"{% for m in messages %}{{ m.content }}{% endfor %}", false, true},
		{"{% for m in messages %}{% for c in m.parts %}{% endfor %}{% endfor %}", false, true},
		{"{% for m in other %}{% for c in m.content %}{% endfor %}{% endfor %}", false, true},
		{"{% for m in messages[0] %}{% for c in m.content %}{% endfor %}{% endfor %}", false, true},
		{"{% set ns.a = messages %}{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}", false, false},
		{"{% for a, b in messages %}{% for c in a.content %}{% endfor %}{% endfor %}", false, false},
		{"{% set a = messages %}{% set messages = a %}{% for m in a %}{% for c, d in m.content %}{% endfor %}{% endfor %}", false, false},
	} {
		found, ok := parseT(t, c.source).LoopsOver("messages", "content")
		if found && ok != (c.found && c.ok) || ok != c.ok {
			t.Errorf("LoopsOver(%q) = %v, %v, want %v, %v", c.source, found, ok, c.found, c.ok)
		}
	}
}
