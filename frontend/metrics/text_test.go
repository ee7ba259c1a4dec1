package metrics

import (
	"bytes"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// Our text is the client library's, line for line, but for creation times and
// for whole bounds, which are written as Python's library does.
func TestTextIsTheLibrarys(t *testing.T) {
	reg, rec := newRecorder(t, EngineConfig{Index: 0}, EngineConfig{Index: 1})
	m := maker{reg: reg, constant: prometheus.Labels{"model_name": "a\"b\\c\nd"}}
	odd := m.gauge("odd", "Odd \\ values\n\"and\" labels.", "value")
	for _, v := range []float64{0, 1, -1, 0.1, 1.0 / 3, 999999, 1e6, 1234567, 123456789012, 1e21, 1e-7, -2.5, math.Inf(1), math.Inf(-1), math.NaN()} {
		odd.WithLabelValues(string(appendFloat(nil, v)) + "\"\\\n").Set(v)
	}
	m.summary("summary_bytes", "A summary.").WithLabelValues().Observe(3.25)
	m.histogram("fine_seconds", "A histogram.", []float64{0.000001, 0.5, 1e6, 2e6}).WithLabelValues().Observe(0.1)
	m.counter("nothing_total", "A counter without series.", "label")
	if m.err != nil {
		t.Fatal(m.err)
	}

	for _, when := range []string{"before", "after"} {
		var want bytes.Buffer
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if _, err := expfmt.MetricFamilyToText(&want, f); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(sortedLines(wholeBound.ReplaceAllString(want.String(), `le="$1.0"`)), sortedLines(stable(scrape(t, reg)))); diff != "" {
			t.Errorf("%s some traffic, -library +ours:\n%s", when, diff)
		}
		busy(rec) // new series among them
	}
}

var wholeBound = regexp.MustCompile(`le="(\d+)"`)

func sortedLines(s string) []string {
	return slices.Sorted(strings.Lines(s))
}
