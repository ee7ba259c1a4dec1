package metrics

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"govllm/stats"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// exposition writes metrics in Prometheus' text format.
//
// Names, labels and bucket bounds of a series never change, so they are put
// into text once, when it is first seen, and a scrape only adds the numbers.
//
// Behind each counter, histogram and summary come the creation times of its
// series, <name>_created without a counter's _total, as Python's client writes
// them: readers that compare two snapshots see by them that the process was
// restarted in between.
//
// Not safe for concurrent use.
type exposition struct {
	families []*family // by name
}

// family is one metric with all its series.
type family struct {
	collector     prometheus.Collector
	name          string
	header        string
	createdName   string // "" for gauges
	createdHeader string
	series        []*series // by labels
	known         map[prometheus.Metric]bool
}

// series is one combination of labels. Its texts end where a number follows.
type series struct {
	metric  prometheus.Metric
	labels  string
	value   string // of a gauge or counter
	buckets []string
	inf     string // the bucket above all others
	sum     string
	count   string
	created string // a whole line, or "" if it is not known
}

func (e *exposition) add(name, help string, kind dto.MetricType, c prometheus.Collector) {
	help = strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(help)
	header := func(name string, kind dto.MetricType) string {
		return "# HELP " + name + " " + help + "\n# TYPE " + name + " " + strings.ToLower(kind.String()) + "\n"
	}
	f := &family{collector: c, name: name, header: header(name, kind), known: make(map[prometheus.Metric]bool)}
	switch kind {
	case dto.MetricType_GAUGE:
	case dto.MetricType_COUNTER:
		f.createdName = strings.TrimSuffix(name, "_total") + "_created"
	default:
		f.createdName = name + "_created"
	}
	f.createdHeader = header(f.createdName, dto.MetricType_GAUGE)
	at, _ := slices.BinarySearchFunc(e.families, name, func(f *family, name string) int { return cmp.Compare(f.name, name) })
	e.families = slices.Insert(e.families, at, f)
}

// write appends every family that has series to b. A family that cannot be
// read is left out.
func (e *exposition) write(b *bytes.Buffer) error {
	found := make(chan prometheus.Metric, 64) // collecting runs ahead by so many
	go func() {
		defer close(found)
		for _, f := range e.families {
			f.collector.Collect(found)
			found <- nil // ends the family
		}
	}()
	var errs []error
	at := 0
	for m := range found {
		f := e.families[at]
		switch {
		case m == nil:
			errs = append(errs, f.write(b))
			at++
		case !f.known[m]:
			errs = append(errs, f.meet(m))
		}
	}
	return errors.Join(errs...)
}

// meet prepares the texts of a new series.
func (f *family) meet(m prometheus.Metric) error {
	var d dto.Metric
	if err := m.Write(&d); err != nil {
		return fmt.Errorf("metrics: read %s: %w", f.name, err)
	}
	labels := labelText(d.GetLabel())
	sample := func(suffix, labels string) string {
		if labels != "" {
			labels = "{" + labels + "}"
		}
		return f.name + suffix + labels + " "
	}
	s := &series{metric: m, labels: labels, value: sample("", labels), sum: sample("_sum", labels), count: sample("_count", labels)}
	bucket := func(bound float64) string {
		le := `le="` + stats.BoundText(bound) + `"`
		return sample("_bucket", strings.TrimPrefix(labels+","+le, ","))
	}
	for _, b := range d.GetHistogram().GetBucket() {
		s.buckets = append(s.buckets, bucket(b.GetUpperBound()))
	}
	s.inf = bucket(math.Inf(1))
	if at := createdAt(&d); at != 0 {
		line := strings.Replace(s.value, f.name, f.createdName, 1)
		s.created = string(appendFloat([]byte(line), at)) + "\n"
	}
	f.known[m] = true
	at, _ := slices.BinarySearchFunc(f.series, labels, func(s *series, labels string) int { return cmp.Compare(s.labels, labels) })
	f.series = slices.Insert(f.series, at, s)
	return nil
}

func (f *family) write(b *bytes.Buffer) error {
	if len(f.series) == 0 {
		return nil
	}
	b.WriteString(f.header)
	for _, s := range f.series {
		if err := s.write(b); err != nil {
			return fmt.Errorf("metrics: read %s: %w", f.name, err)
		}
	}
	if f.createdName == "" {
		return nil
	}
	b.WriteString(f.createdHeader)
	for _, s := range f.series {
		b.WriteString(s.created)
	}
	return nil
}

func (s *series) write(b *bytes.Buffer) error {
	var d dto.Metric
	if err := s.metric.Write(&d); err != nil {
		return err
	}
	switch {
	case d.Gauge != nil:
		line(b, s.value, d.Gauge.GetValue())
	case d.Counter != nil:
		line(b, s.value, d.Counter.GetValue())
	case d.Summary != nil:
		line(b, s.sum, d.Summary.GetSampleSum())
		line(b, s.count, float64(d.Summary.GetSampleCount()))
	case d.Histogram != nil:
		for i, bucket := range d.Histogram.GetBucket() {
			line(b, s.buckets[i], float64(bucket.GetCumulativeCount()))
		}
		line(b, s.inf, float64(d.Histogram.GetSampleCount()))
		line(b, s.sum, d.Histogram.GetSampleSum())
		line(b, s.count, float64(d.Histogram.GetSampleCount()))
	}
	return nil
}

func line(b *bytes.Buffer, text string, v float64) {
	b.WriteString(text)
	b.Write(appendFloat(b.AvailableBuffer(), v))
	b.WriteByte('\n')
}

func appendFloat(b []byte, v float64) []byte {
	switch {
	case math.IsInf(v, 1):
		return append(b, "+Inf"...)
	case v == math.Trunc(v) && math.Abs(v) < 1e6: // as 'g' writes it, but faster
		return strconv.AppendInt(b, int64(v), 10)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

// labelText is what stands between a series' braces.
func labelText(pairs []*dto.LabelPair) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	var labels []string
	for _, l := range pairs {
		labels = append(labels, l.GetName()+`="`+escape.Replace(l.GetValue())+`"`)
	}
	return strings.Join(labels, ",")
}

// createdAt is in Unix seconds, 0 if m does not know.
func createdAt(m *dto.Metric) float64 {
	at := m.GetCounter().GetCreatedTimestamp()
	if at == nil {
		at = m.GetHistogram().GetCreatedTimestamp()
	}
	if at == nil {
		at = m.GetSummary().GetCreatedTimestamp()
	}
	return float64(at.GetSeconds()) + float64(at.GetNanos())/1e9
}
