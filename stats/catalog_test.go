package stats

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite METRICS.md")

func TestLengthBuckets(t *testing.T) {
	for _, tt := range []struct {
		maxModelLen int
		want        string
	}{
		{0, "[1]"},
		{1, "[1]"},
		{99, "[1 2 5 10 20 50]"},
		{100, "[1 2 5 10 20 50 100]"},
		{4096, "[1 2 5 10 20 50 100 200 500 1000 2000]"},
	} {
		if got := fmt.Sprint(FamilyLength.Buckets(tt.maxModelLen)); got != tt.want {
			t.Errorf("FamilyLength.Buckets(%d) = %v, want %v", tt.maxModelLen, got, tt.want)
		}
	}
}

func TestCatalog(t *testing.T) {
	names := map[string]bool{}
	for _, m := range Catalog() {
		switch {
		case m.Name == "" || names[m.Name]:
			t.Errorf("%q: no name, or one twice", m.Name)
		case !strings.HasSuffix(m.Help, "."):
			t.Errorf("%s: Help = %q, want a sentence", m.Name, m.Help)
		case (m.Kind == Counter) != strings.HasSuffix(m.Name, "_total") && m.Name != "vllm:iteration_tokens_total":
			t.Errorf("%s is a %s", m.Name, m.Kind)
		case (m.Kind == Histogram) != (m.Family != FamilyNone):
			t.Errorf("%s: a %s with bucket family %d", m.Name, m.Kind, m.Family)
		case !slices.IsSorted(m.Family.Buckets(1000)):
			t.Errorf("%s: buckets are not sorted", m.Name)
		}
		names[m.Name] = true
	}
}

// METRICS.md is the catalog as a table: go test ./stats -update rewrites it.
func TestDocumentation(t *testing.T) {
	got := MarkdownTable()
	if *update {
		if err := os.WriteFile("METRICS.md", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Error("METRICS.md is not what the catalog says; run go test ./stats -update")
	}
}
