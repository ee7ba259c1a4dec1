// Package reader gives metrics as typed records, for programs that want the
// numbers and not the text.
//
// The source is anything that gathers: a running frontend's metrics.Registry,
// a registry beside an engine run inside one process, or the text of a
// /metrics page elsewhere (Parse).
//
// Follows vLLM V1 metrics/reader.py, LLM.get_metrics(): only vllm: metrics, one
// record per set of labels, counters named without _total, and the counters of
// accepted draft tokens by position as one Vector. We differ in: metrics with
// creation times show no records of those.
package reader

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"govllm/stats"

	"github.com/go-json-experiment/json"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metric is a Counter, a Gauge, a Histogram or a Vector.
type Metric interface {
	// Series is what all of them have.
	series() *Series
}

// Series names one record.
type Series struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
}

func (s *Series) series() *Series { return s }

// Of returns a metric's name and labels.
func Of(m Metric) (name string, labels map[string]string) {
	s := m.series()
	return s.Name, s.Labels
}

// Counter only grows. Its name lacks the _total of the wire.
type Counter struct {
	Series
	Value int64 `json:"value"`
}

// Gauge goes up and down.
type Gauge struct {
	Series
	Value float64 `json:"value"`
}

// Histogram counts observations. Buckets holds, by upper bound as the le label
// spells it, how many were at most that; "+Inf" has Count.
type Histogram struct {
	Series
	Count   int64            `json:"count"`
	Sum     float64          `json:"sum"`
	Buckets map[string]int64 `json:"buckets"`
}

// Vector is a list of counters: accepted draft tokens by position.
type Vector struct {
	Series
	Values []int64 `json:"values"`
}

// Gatherer is where metrics come from, such as a *metrics.Registry.
type Gatherer interface {
	Gather() ([]*dto.MetricFamily, error)
}

// Read returns the present vllm: metrics, by name and labels.
func Read(from Gatherer) ([]Metric, error) {
	families, err := from.Gather()
	if err != nil {
		return nil, fmt.Errorf("reader: %w", err)
	}
	return records(families)
}

// Parse reads the text of /metrics.
func Parse(text io.Reader) ([]Metric, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	byName, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return nil, fmt.Errorf("reader: %w", err)
	}
	families := make([]*dto.MetricFamily, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if !isCreationTime(name, byName) {
			families = append(families, byName[name])
		}
	}
	return records(families)
}

// isCreationTime says whether a family only tells when the series of another
// began.
func isCreationTime(name string, all map[string]*dto.MetricFamily) bool {
	of, ok := strings.CutSuffix(name, "_created")
	return ok && (all[of] != nil || all[of+"_total"] != nil)
}

func records(families []*dto.MetricFamily) (all []Metric, err error) {
	for _, f := range families {
		name := f.GetName()
		if !strings.HasPrefix(name, "vllm:") {
			continue
		}
		if name == stats.SpecDecodeNumAcceptedTokensPerPos.Metric().Name {
			vectors, err := vectorsOf(f)
			if err != nil {
				return nil, err
			}
			all = append(all, vectors...)
			continue
		}
		for _, m := range f.GetMetric() {
			all = append(all, record(name, m))
		}
	}
	return all, nil
}

func record(name string, m *dto.Metric) Metric {
	s := Series{Name: name, Labels: labelsOf(m)}
	switch {
	case m.Counter != nil:
		s.Name = strings.TrimSuffix(name, "_total")
		return &Counter{s, int64(m.Counter.GetValue())}
	case m.Histogram != nil:
		return histogram(s, m.Histogram)
	}
	return &Gauge{s, m.GetGauge().GetValue()}
}

func histogram(s Series, h *dto.Histogram) Metric {
	buckets := make(map[string]int64, len(h.GetBucket())+1)
	for _, b := range h.GetBucket() {
		buckets[stats.BoundText(b.GetUpperBound())] = int64(b.GetCumulativeCount())
	}
	buckets[stats.BoundText(math.Inf(1))] = int64(h.GetSampleCount())
	return &Histogram{s, int64(h.GetSampleCount()), h.GetSampleSum(), buckets}
}

// vectorsOf joins the positions of each set of other labels. A position that
// is missing counts 0.
func vectorsOf(f *dto.MetricFamily) (all []Metric, err error) {
	vectors := map[string]*Vector{}
	longest := 0
	for _, m := range f.GetMetric() {
		labels := labelsOf(m)
		position, err := strconv.Atoi(labels["position"])
		if err != nil || position < 0 || position >= maxPositions {
			return nil, fmt.Errorf("reader: %s: position is %q, want 0 to %d", f.GetName(), labels["position"], maxPositions-1)
		}
		delete(labels, "position")
		key := fmt.Sprint(labels) // sorted
		v := vectors[key]
		if v == nil {
			v = &Vector{Series: Series{strings.TrimSuffix(f.GetName(), "_total"), labels}}
			vectors[key] = v
			all = append(all, v)
		}
		longest = max(longest, position+1)
		v.Values = append(v.Values, make([]int64, max(0, position+1-len(v.Values)))...)
		v.Values[position] = int64(m.GetCounter().GetValue())
	}
	for _, v := range vectors {
		v.Values = append(v.Values, make([]int64, longest-len(v.Values))...)
	}
	return all, nil
}

// maxPositions bounds what a strange page may cost.
const maxPositions = 1024

func labelsOf(m *dto.Metric) map[string]string {
	labels := make(map[string]string, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

// AppendJSON writes metrics as a list of objects, each with its type in small
// letters and then its fields.
func AppendJSON(b []byte, metrics []Metric) ([]byte, error) {
	list := make([]any, len(metrics))
	for i, m := range metrics {
		switch m := m.(type) {
		case *Counter:
			list[i] = struct {
				Type string `json:"type"`
				*Counter
			}{"counter", m}
		case *Gauge:
			list[i] = struct {
				Type string `json:"type"`
				*Gauge
			}{"gauge", m}
		case *Histogram:
			list[i] = struct {
				Type string `json:"type"`
				*Histogram
			}{"histogram", m}
		case *Vector:
			list[i] = struct {
				Type string `json:"type"`
				*Vector
			}{"vector", m}
		}
	}
	text, err := json.Marshal(list, json.Deterministic(true))
	if err != nil {
		return b, fmt.Errorf("reader: %w", err)
	}
	return append(b, text...), nil
}
