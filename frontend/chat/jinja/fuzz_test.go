package jinja

import (
	"errors"
	"testing"
)

// FuzzRender: no template panics, runs past its limits, or fails with anything
// but an *Error.
func FuzzRender(f *testing.F) {
	file := loadFeatures(f)
	v, _ := file.Get("cases")
	for i := range v.(*List).Len() {
		f.Add(field(v.(*List).At(i).(*Dict), "template"))
	}
	f.Add(benchTemplate)
	data, _ := file.Get("data")
	limits := Limits{Steps: 50_000, Bytes: 1 << 20, Output: 1 << 18, Depth: 40}
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := Parse(source)
		if err == nil {
			tmpl.LoopsOver("messages", "content")
			_, err = tmpl.Render(data.(*Dict), Options{Now: corpusNow, Limits: limits})
		}
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Kind == 0 || e.Msg == "" && e.Kind != KindRaised) {
			t.Errorf("Render(%q) = %#v, want an *Error", source, err)
		}
	})
}

// FuzzFromJSON: what decodes prints and reads back the same.
func FuzzFromJSON(f *testing.F) {
	for _, s := range []string{`{"a": [1, 2.5, null, true, "x"]}`, `1e3`, `"\ud83d\ude00"`, `{"a": 1, "a": 2}`, `-0.0`, `99999999999999999999`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := FromJSON(data)
		if err != nil {
			return
		}
		tmpl := parseT(t, "{{ v | tojson }}")
		vars := NewDict()
		vars.Set("v", v)
		text, err := tmpl.Render(vars, Options{})
		if err != nil {
			t.Fatalf("tojson of %q: %v", data, err)
		}
		if again, err := FromJSON([]byte(text)); err == nil { // Infinity is Python's, not JSON
			vars.Set("v", again)
			if text2, err := tmpl.Render(vars, Options{}); err != nil || text2 != text {
				t.Errorf("tojson(%q) = %q, then %q, %v", data, text, text2, err)
			}
		}
	})
}
