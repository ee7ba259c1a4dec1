package stats

import (
	"flag"
	"fmt"
	"math"
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

func TestBoundText(t *testing.T) {
	for _, tt := range []struct {
		bound float64
		want  string
	}{{1, "1.0"}, {16384, "16384.0"}, {0.25, "0.25"}, {0.00025, "0.00025"}, {0.000025, "2.5e-05"}, {1e6, "1e+06"}, {2.5e6, "2.5e+06"},
		{math.Inf(1), "+Inf"}} {
		if got := BoundText(tt.bound); got != tt.want {
			t.Errorf("BoundText(%v) = %q, want %q", tt.bound, got, tt.want)
		}
	}
}

func TestParseBuckets(t *testing.T) {
	custom, err := ParseBuckets(map[string]any{"request_latency": []any{0.01, 0.5, 2.0}, "inter_token_latency": "fine"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		family BucketFamily
		want   string
	}{
		{FamilyLatency, "[0.01 0.5 2]"},
		{FamilyITL, "[0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.0075 0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1 2.5 5 7.5 10 20 40 80]"},
		{FamilyN, "[1 2 5 10 20]"},
		{FamilyLength, "[1 2 5 10]"},
	} {
		if got := fmt.Sprint(custom.Buckets(tt.family, 10)); got != tt.want {
			t.Errorf("Buckets(%s) = %s, want %s", families[tt.family].name, got, tt.want)
		}
	}
	for _, tt := range []struct {
		name  string
		value any
		want  string
	}{
		{"latency", []any{1.0}, `no bucket family "latency"; there are time_to_first_token, inter_token_latency,`},
		{"request_latency", []any{}, "want a list of bounds"},
		{"request_latency", "coarse", `is coarse, want a list of bounds or "fine"`},
		{"request_latency", []any{0.0}, "bound 0 is not a number above 0"},
		{"request_latency", []any{true}, "bound true is not a number"},
		{"request_latency", []any{2.0, 1.0}, "bound 1 follows 2, want them to rise"},
		{"request_params_n", "fine", `has no "fine" bounds`},
	} {
		if _, err := ParseBuckets(map[string]any{tt.name: tt.value}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("ParseBuckets(%s: %v) = %v, want %q", tt.name, tt.value, err, tt.want)
		}
	}
	for f := FamilyTTFT; f < numFamilies; f++ {
		all := append(slices.Clone(families[f].fine), families[f].bounds...)
		if !slices.IsSorted(all) {
			t.Errorf("%s: fine and default bounds are not sorted: %v", families[f].name, all)
		}
	}
}

func TestShownFor(t *testing.T) {
	for _, tt := range []struct {
		metric  ID
		version string // "": the flag was not given
		want    bool
	}{
		{KVCacheUsage, "", true},
		{GPUCacheUsage, "", false},
		{GPUCacheUsage, "0.31", false},
		{GPUCacheUsage, "0.11", false},
		{GPUCacheUsage, "0.10", true},
		{GPUCacheUsage, "0.9.2", true},
		{TimePerOutputToken, "0.11", true},
		{TimePerOutputToken, "1.0", false},
	} {
		var v Version
		if tt.version != "" {
			var err error
			if v, err = ParseVersion(tt.version); err != nil {
				t.Fatal(err)
			}
		}
		if got := tt.metric.Metric().ShownFor(v); got != tt.want {
			t.Errorf("%s is shown for %q: %v, want %v", tt.metric.Metric().Name, tt.version, got, tt.want)
		}
	}
	for _, s := range []string{"", "1", "x.y", "0.-1"} {
		if v, err := ParseVersion(s); err == nil {
			t.Errorf("ParseVersion(%q) = %v, want an error", s, v)
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
