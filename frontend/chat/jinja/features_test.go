package jinja

import (
	"errors"
	"os"
	"testing"
)

// TestFeatures compares templates of our own, which use every feature, with
// what Python's jinja2 gives for them. testdata/features.py makes the file.
func TestFeatures(t *testing.T) {
	file := loadFeatures(t)
	data, _ := file.Get("data")
	cases, _ := file.Get("cases")
	for i := range cases.(*List).Len() {
		c := cases.(*List).At(i).(*Dict)
		source, kind := field(c, "template"), field(c, "kind")
		got, err := render(source, data.(*Dict))
		if kind == "" {
			if want := field(c, "out"); err != nil || got != want {
				t.Errorf("%s: Render(%q) = %q, %v\nwant %q", field(c, "group"), source, got, err, want)
			}
			continue
		}
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: Render(%q) = %q, want %s error %q", field(c, "group"), source, got, kind, field(c, "error"))
		} else if e.Kind.String() != kind {
			t.Errorf("%s: Render(%q) = %s error %q, want %s error %q", field(c, "group"), source, e.Kind, e.Msg, kind, field(c, "error"))
		}
	}
}

func loadFeatures(tb testing.TB) *Dict {
	tb.Helper()
	text, err := os.ReadFile("testdata/features.json")
	if err != nil {
		tb.Fatal(err)
	}
	v, err := FromJSON(text)
	if err != nil {
		tb.Fatalf("FromJSON(features.json) = %v", err)
	}
	return v.(*Dict)
}
