package dashboard

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
)

const (
	// Interval is the time between two samples.
	Interval = 5 * time.Second
	// length is how many points a history keeps: 15 minutes.
	length = int(15*time.Minute/Interval) + 1
)

// Total is the name of the series that sums up all engines.
const Total = "all"

// column is one of the numbers of a point.
type column int

const (
	tokenizing column = iota // requests by stage
	sent
	queued
	running
	finished     // requests a second
	promptTokens // a second
	generatedTokens
	ttftP50 // seconds, as are all times
	ttftP95
	ttftP99
	itlP50
	itlP95
	itlP99
	kvUsage       // 0…1; of all engines the mean
	tokensRunning // in the KV cache
	tokensPending // running, to be computed
	tokensWaiting // waiting, to be computed
	preemptions   // a second
	steps         // a second
	stepP50
	stepP99
	stalled // engines
	numColumns
)

// columnNames are those of Series.Columns.
var columnNames = [numColumns]string{"tokenizing", "sent", "queued", "running", "finished", "prompt_tokens", "generated_tokens",
	"ttft_p50", "ttft_p95", "ttft_p99", "itl_p50", "itl_p95", "itl_p99", "kv_usage", "tokens_running", "tokens_pending", "tokens_waiting",
	"preemptions", "steps", "step_p50", "step_p99", "stalled"}

// gauges and counters say which metric a column is read from; of families with
// a label besides engine, which value of it.
var gauges = map[string]struct {
	label  string
	values map[string]column // "" where there is no label
}{
	"vllm:num_requests_in_flight": {"stage", map[string]column{
		"tokenizing": tokenizing, "sent": sent, "queued": queued, "running": running}},
	"vllm:kv_cache_usage_perc":         {"", map[string]column{"": kvUsage}},
	"vllm:num_tokens_running":          {"", map[string]column{"": tokensRunning}},
	"vllm:num_tokens_pending":          {"", map[string]column{"": tokensPending}},
	"vllm:num_tokens_waiting_uncached": {"", map[string]column{"": tokensWaiting}},
	"vllm:engine_stalled":              {"", map[string]column{"": stalled}},
}

// foreign are gauges that stand in where vllm:num_requests_in_flight, which is
// ours, is missing.
var foreign = map[string]column{"vllm:num_requests_running": running, "vllm:num_requests_waiting": queued}

var counters = map[string]column{
	"vllm:request_success_total":   finished,
	"vllm:prompt_tokens_total":     promptTokens,
	"vllm:generation_tokens_total": generatedTokens,
	"vllm:num_preemptions_total":   preemptions,
}

// histograms give percentiles, and their count a rate where rate is a column.
var histograms = map[string]struct {
	index       int
	percentiles map[float64]column
	rate        column
}{
	"vllm:time_to_first_token_seconds": {0, map[float64]column{0.5: ttftP50, 0.95: ttftP95, 0.99: ttftP99}, -1},
	"vllm:inter_token_latency_seconds": {1, map[float64]column{0.5: itlP50, 0.95: itlP95, 0.99: itlP99}, -1},
	"vllm:step_duration_seconds":       {2, map[float64]column{0.5: stepP50, 0.99: stepP99}, steps},
}

// reading is what one engine, or all, say at one moment.
type reading struct {
	values  [numColumns]float64 // gauges, and counters as they stand
	known   [numColumns]bool
	buckets [3]buckets
	engines int // that were added up
}

// buckets are a histogram's, cumulative; the last is +Inf.
type buckets struct {
	bounds []float64
	counts []float64
}

func (b *buckets) add(o *buckets) {
	if len(b.counts) != len(o.counts) {
		if b.counts != nil {
			return // other bounds cannot be added
		}
		b.bounds, b.counts = o.bounds, make([]float64, len(o.counts))
	}
	for i, n := range o.counts {
		b.counts[i] += n
	}
}

func (r *reading) add(c column, v float64) {
	r.values[c] += v
	r.known[c] = true
}

// read sums families up by engine, and over all.
func read(families []*dto.MetricFamily) map[string]*reading {
	found := map[string]*reading{Total: {}}
	ours := slices.ContainsFunc(families, func(f *dto.MetricFamily) bool {
		return f.GetName() == "vllm:num_requests_in_flight" && len(f.Metric) > 0
	})
	for _, f := range families {
		for _, m := range f.Metric {
			into := []*reading{found[Total]}
			if engine := label(m, "engine"); engine != "" {
				if found[engine] == nil {
					found[engine] = &reading{engines: 1}
					found[Total].engines++
				}
				into = append(into, found[engine])
			}
			for _, r := range into {
				r.take(f.GetName(), m, ours)
			}
		}
	}
	if n := found[Total].engines; n > 0 {
		found[Total].values[kvUsage] /= float64(n)
	}
	return found
}

func (r *reading) take(name string, m *dto.Metric, ours bool) {
	if g, ok := gauges[name]; ok {
		value := ""
		if g.label != "" {
			value = label(m, g.label)
		}
		if c, ok := g.values[value]; ok {
			r.add(c, m.GetGauge().GetValue())
		}
	} else if c, ok := foreign[name]; ok && !ours {
		r.add(c, m.GetGauge().GetValue())
	} else if c, ok := counters[name]; ok {
		r.add(c, m.GetCounter().GetValue())
	} else if h, ok := histograms[name]; ok {
		r.buckets[h.index].add(bucketsOf(m.GetHistogram()))
	}
}

func bucketsOf(h *dto.Histogram) *buckets {
	b := &buckets{}
	for _, bucket := range h.GetBucket() {
		if !math.IsInf(bucket.GetUpperBound(), 1) {
			b.bounds = append(b.bounds, bucket.GetUpperBound())
			b.counts = append(b.counts, float64(bucket.GetCumulativeCount()))
		}
	}
	b.counts = append(b.counts, float64(h.GetSampleCount()))
	return b
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// point is a moment of a series; NaN where nothing is known.
type point [numColumns]float64

// since makes the point of r, seconds after before. A counter that fell began
// anew: its server was started again.
func (r *reading) since(before *reading, seconds float64) point {
	var p point
	for c := range p {
		p[c] = math.NaN()
		if r.known[c] {
			p[c] = r.values[c]
		}
	}
	for _, c := range counters {
		if r.known[c] {
			p[c] = rise(before.values[c], r.values[c]) / seconds
		}
	}
	for _, h := range histograms {
		now, then := &r.buckets[h.index], &before.buckets[h.index]
		grown := &buckets{bounds: now.bounds, counts: slices.Clone(now.counts)}
		if len(now.counts) == 0 {
			continue
		}
		last := len(now.counts) - 1
		if len(then.counts) == len(now.counts) && then.counts[last] <= now.counts[last] {
			for i := range grown.counts {
				grown.counts[i] -= then.counts[i]
			}
		}
		for q, c := range h.percentiles {
			p[c] = grown.percentile(q)
		}
		if h.rate >= 0 {
			p[h.rate] = grown.counts[last] / seconds
		}
	}
	return p
}

func rise(before, now float64) float64 {
	if now < before {
		return now
	}
	return now - before
}

// percentile interpolates within a bucket as Prometheus' histogram_quantile
// does; NaN of an empty histogram.
func (b *buckets) percentile(q float64) float64 {
	last := len(b.counts) - 1
	if last < 1 || b.counts[last] <= 0 {
		return math.NaN()
	}
	rank := q * b.counts[last]
	i := 0
	for i < last && b.counts[i] < rank {
		i++
	}
	if i == last {
		return b.bounds[last-1] // above all bounds
	}
	low, below := 0.0, 0.0
	if i > 0 {
		low, below = b.bounds[i-1], b.counts[i-1]
	}
	return low + (b.bounds[i]-low)*(rank-below)/(b.counts[i]-below)
}

// History keeps the last 15 minutes of a server. Its memory is bounded: 181
// points of 22 numbers an engine. Safe for concurrent use.
type History struct {
	mu     sync.Mutex
	model  string
	at     time.Time // of the last sample
	last   map[string]*reading
	times  ring[time.Time]
	series map[string]*ring[point]
}

// NewHistory returns an empty history.
func NewHistory() *History { return &History{series: map[string]*ring[point]{}} }

// ring holds the newest length values.
type ring[T any] struct {
	values []T
	next   int
}

func (r *ring[T]) push(v T) {
	if len(r.values) < length {
		r.values = append(r.values, v)
		return
	}
	r.values[r.next] = v
	r.next = (r.next + 1) % length
}

// ordered is oldest first.
func (r *ring[T]) ordered() []T { return append(slices.Clone(r.values[r.next:]), r.values[:r.next]...) }

// Add takes a sample in. The first one only says from where to count.
func (h *History) Add(now time.Time, families []*dto.MetricFamily) {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := read(families)
	for _, f := range families {
		if f.GetName() == "vllm:num_requests_running" && len(f.Metric) > 0 {
			h.model = label(f.Metric[0], "model_name")
		}
	}
	seconds := now.Sub(h.at).Seconds()
	if h.last != nil && seconds > 0 {
		h.push(now, found, seconds)
	}
	h.at, h.last = now, found
}

// push adds a point to every series; an engine that was not there before is
// unknown for the time until now.
func (h *History) push(now time.Time, found map[string]*reading, seconds float64) {
	for engine := range found {
		if h.series[engine] == nil {
			s := &ring[point]{}
			for range h.times.values {
				s.push(unknown())
			}
			s.next = h.times.next
			h.series[engine] = s
		}
	}
	h.times.push(now)
	for engine, s := range h.series {
		r, before := found[engine], h.last[engine]
		if r == nil || before == nil {
			s.push(unknown())
			continue
		}
		s.push(r.since(before, seconds))
	}
}

func unknown() (p point) {
	for c := range p {
		p[c] = math.NaN()
	}
	return p
}

// Data is a history as the page reads it.
type Data struct {
	Model    string   `json:"model"`    // "" without statistics
	Now      float64  `json:"now"`      // when it was made, in Unix seconds
	Interval float64  `json:"interval"` // seconds between samples
	Times    []int64  `json:"times"`    // of the points, in Unix milliseconds, oldest first
	Series   []Series `json:"series"`   // Total first, then the engines
}

// Series are the points of one engine, column by column, as long as Times.
type Series struct {
	Engine  string            `json:"engine"`
	Columns map[string]Values `json:"columns"`
}

// Values are numbers of which some are unknown: NaN here, null in JSON.
type Values []float64

// MarshalJSON writes four digits: a chart shows no more.
func (v Values) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for i, x := range v {
		if i > 0 {
			b = append(b, ',')
		}
		switch {
		case math.IsNaN(x) || math.IsInf(x, 0):
			b = append(b, "null"...)
		case x == math.Trunc(x) && math.Abs(x) < 1e15:
			b = strconv.AppendInt(b, int64(x), 10)
		default:
			b = strconv.AppendFloat(b, x, 'g', 4, 64)
		}
	}
	return append(b, ']'), nil
}

// UnmarshalJSON reads null as NaN.
func (v *Values) UnmarshalJSON(b []byte) error {
	var known []*float64
	if err := json.Unmarshal(b, &known); err != nil {
		return err
	}
	*v = make(Values, len(known))
	for i, x := range known {
		(*v)[i] = math.NaN()
		if x != nil {
			(*v)[i] = *x
		}
	}
	return nil
}

// Data returns what is known now.
func (h *History) Data(now time.Time) *Data {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := &Data{Model: h.model, Now: float64(now.UnixMilli()) / 1000, Interval: Interval.Seconds(), Times: []int64{}, Series: []Series{}}
	for _, t := range h.times.ordered() {
		d.Times = append(d.Times, t.UnixMilli())
	}
	for _, engine := range h.engines() {
		points := h.series[engine].ordered()
		s := Series{Engine: engine, Columns: make(map[string]Values, numColumns)}
		for c, name := range columnNames {
			column := make(Values, len(points))
			for i := range points {
				column[i] = points[i][c]
			}
			s.Columns[name] = column
		}
		d.Series = append(d.Series, s)
	}
	return d
}

// engines are the names of the series: Total, then by number.
func (h *History) engines() []string {
	names := make([]string, 0, len(h.series))
	for name := range h.series {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if (a == Total) != (b == Total) {
			if a == Total {
				return -1
			}
			return 1
		}
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return slices.Compare([]byte(a), []byte(b))
	})
	return names
}
