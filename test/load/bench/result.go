package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Summary describes one metric's samples in milliseconds.
type Summary struct {
	Mean, Median, Std float64
	Percentiles       []float64 // in the order of Config.Percentiles
}

// Result is what a run measured.
type Result struct {
	Config   Config
	Date     time.Time
	Duration time.Duration

	Completed, Failed         int
	InputTokens, OutputTokens int // of completed requests
	Events                    int // that brought OutputTokens: a server that is behind puts several in one
	Good                      int // completed within every bound of Config.Goodput
	PeakOutputThroughput      float64
	PeakConcurrent            int

	Metrics map[string]Summary // ttft, tpot, itl, e2el
	Errors  map[string]int     // messages of failed requests

	records []record
}

func newResult(c *Config, records []record, duration time.Duration) *Result {
	r := &Result{Config: *c, Date: time.Now(), Duration: duration, Errors: map[string]int{}, records: records}
	samples := map[string][]float64{}
	for i := range records {
		q := &records[i]
		if q.err != nil {
			r.Failed++
			r.Errors[q.err.Error()]++
			continue
		}
		r.Completed++
		r.InputTokens += q.numInput
		r.OutputTokens += q.numOutput
		r.Events += len(q.times)
		if q.sample(c.Goodput, samples) {
			r.Good++
		}
	}
	r.Metrics = map[string]Summary{}
	for _, name := range metricNames {
		r.Metrics[name] = summarize(samples[name], c.Percentiles)
	}
	r.PeakOutputThroughput, r.PeakConcurrent = peaks(records, duration)
	return r
}

// sample adds a request's measures and says whether it keeps the bounds.
func (q *record) sample(bounds map[string]float64, into map[string][]float64) (good bool) {
	first, last := q.times[0], q.times[len(q.times)-1]
	mine := map[string]float64{"ttft": ms(first), "e2el": ms(last)}
	if q.numOutput > 1 {
		mine["tpot"] = ms(last-first) / float64(q.numOutput-1)
	}
	for i, t := range q.times[1:] {
		into["itl"] = append(into["itl"], ms(t-q.times[i]))
	}
	good = true
	for name, v := range mine {
		into[name] = append(into[name], v)
		if bound, bounded := bounds[name]; bounded && v > bound {
			good = false
		}
	}
	return good
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func summarize(samples []float64, percentiles []float64) Summary {
	s := Summary{Percentiles: make([]float64, len(percentiles))}
	if len(samples) == 0 {
		return s
	}
	slices.Sort(samples)
	for _, v := range samples {
		s.Mean += v / float64(len(samples))
	}
	for _, v := range samples {
		s.Std += (v - s.Mean) * (v - s.Mean) / float64(len(samples))
	}
	s.Std = math.Sqrt(s.Std)
	s.Median = percentile(samples, 50)
	for i, p := range percentiles {
		s.Percentiles[i] = percentile(samples, p)
	}
	return s
}

// percentile interpolates between the two nearest of sorted samples, as numpy
// does.
func percentile(sorted []float64, p float64) float64 {
	at := p / 100 * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// peaks are the most events with tokens in one second of the run, and the most
// requests under way at once.
func peaks(records []record, duration time.Duration) (tokens float64, concurrent int) {
	perSecond := make([]int, int(duration/time.Second)+1)
	type edge struct {
		at   time.Duration
		step int
	}
	var edges []edge
	for i := range records {
		q := &records[i]
		if q.err != nil {
			continue
		}
		for _, t := range q.times {
			second := min(int((q.start+t)/time.Second), len(perSecond)-1)
			perSecond[second]++
		}
		edges = append(edges, edge{q.start, 1}, edge{q.end(), -1})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.step, b.step)) })
	now := 0
	for _, e := range edges {
		now += e.step
		concurrent = max(concurrent, now)
	}
	return float64(slices.Max(perSecond)), concurrent
}

func (r *Result) perSecond(n int) float64 { return float64(n) / r.Duration.Seconds() }

// RequestThroughput is in completed requests a second.
func (r *Result) RequestThroughput() float64 { return r.perSecond(r.Completed) }

// OutputThroughput is in generated tokens a second.
func (r *Result) OutputThroughput() float64 { return r.perSecond(r.OutputTokens) }

var titles = map[string][2]string{ // section, short form
	"ttft": {"Time to First Token", "TTFT"},
	"tpot": {"Time per Output Token (excl. 1st token)", "TPOT"},
	"itl":  {"Inter-token Latency", "ITL"},
	"e2el": {"End-to-end Latency", "E2EL"},
}

// WriteText writes the result block of `vllm bench serve`.
func (r *Result) WriteText(w io.Writer) error {
	var b strings.Builder
	line := func(label, format string, v any) { fmt.Fprintf(&b, "%-40s %-10s\n", label, fmt.Sprintf(format, v)) }
	b.WriteString(center(" Serving Benchmark Result ", '=') + "\n")
	line("Successful requests:", "%d", r.Completed)
	line("Failed requests:", "%d", r.Failed)
	if r.Config.MaxConcurrency > 0 {
		line("Maximum request concurrency:", "%d", r.Config.MaxConcurrency)
	}
	if !math.IsInf(r.Config.RequestRate, 1) {
		line("Request rate configured (RPS):", "%.2f", r.Config.RequestRate)
	}
	line("Benchmark duration (s):", "%.2f", r.Duration.Seconds())
	line("Total input tokens:", "%d", r.InputTokens)
	line("Total generated tokens:", "%d", r.OutputTokens)
	line("Request throughput (req/s):", "%.2f", r.RequestThroughput())
	if len(r.Config.Goodput) > 0 {
		line("Request goodput (req/s):", "%.2f", r.perSecond(r.Good))
	}
	line("Output token throughput (tok/s):", "%.2f", r.OutputThroughput())
	line("Peak output token throughput (tok/s):", "%.2f", r.PeakOutputThroughput)
	line("Peak concurrent requests:", "%.2f", float64(r.PeakConcurrent))
	line("Total token throughput (tok/s):", "%.2f", r.perSecond(r.InputTokens+r.OutputTokens))
	for _, name := range metricNames {
		if !slices.Contains(r.Config.PercentileMetrics, name) {
			continue
		}
		title, short, s := titles[name][0], titles[name][1], r.Metrics[name]
		b.WriteString(center(title, '-') + "\n")
		line("Mean "+short+" (ms):", "%.2f", s.Mean)
		line("Median "+short+" (ms):", "%.2f", s.Median)
		for i, p := range r.Config.Percentiles {
			line("P"+number(p)+" "+short+" (ms):", "%.2f", s.Percentiles[i])
		}
	}
	b.WriteString(strings.Repeat("=", 50) + "\n")
	for _, message := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(&b, "failed %d times: %s\n", r.Errors[message], message)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// center pads s to 50 columns as Python's str.center format does.
func center(s string, fill byte) string {
	pad := max(0, 50-len(s))
	return strings.Repeat(string(fill), pad/2) + s + strings.Repeat(string(fill), pad-pad/2)
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// WriteJSON writes the result under the names of `vllm bench serve
// --save-result`; detailed adds the numbers of each request.
func (r *Result) WriteJSON(w io.Writer, detailed bool) error {
	c := &r.Config
	out := map[string]any{
		"date": r.Date.Format("20060102-150405"), "backend": c.Backend, "endpoint_type": c.Backend,
		"model_id": c.Model, "num_prompts": c.NumPrompts, "burstiness": c.Burstiness,
		"max_concurrency": nil, "request_rate": "inf",
		"duration": r.Duration.Seconds(), "completed": r.Completed, "failed": r.Failed,
		"total_input_tokens": r.InputTokens, "total_output_tokens": r.OutputTokens,
		"request_throughput": r.RequestThroughput(), "request_goodput": nil,
		"output_throughput": r.OutputThroughput(), "total_token_throughput": r.perSecond(r.InputTokens + r.OutputTokens),
		"max_output_tokens_per_s": r.PeakOutputThroughput, "max_concurrent_requests": r.PeakConcurrent,
	}
	if c.MaxConcurrency > 0 {
		out["max_concurrency"] = c.MaxConcurrency
	}
	if !math.IsInf(c.RequestRate, 1) {
		out["request_rate"] = c.RequestRate
	}
	if len(c.Goodput) > 0 {
		out["request_goodput"] = r.perSecond(r.Good)
	}
	for _, name := range c.PercentileMetrics {
		s := r.Metrics[name]
		out["mean_"+name+"_ms"], out["median_"+name+"_ms"], out["std_"+name+"_ms"] = s.Mean, s.Median, s.Std
		for i, p := range c.Percentiles {
			out["p"+number(p)+"_"+name+"_ms"] = s.Percentiles[i]
		}
	}
	if detailed {
		r.detail(out)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(out)
}

// detail adds one entry a request, in seconds as vLLM's; a failed one has no
// times.
func (r *Result) detail(out map[string]any) {
	n := len(r.records)
	inputs, outputs, ttfts, itls, errs := make([]int, n), make([]int, n), make([]float64, n), make([][]float64, n), make([]string, n)
	for i := range r.records {
		q := &r.records[i]
		inputs[i], outputs[i], itls[i] = q.numInput, q.numOutput, []float64{}
		if q.err != nil {
			errs[i] = q.err.Error()
			continue
		}
		ttfts[i] = q.times[0].Seconds()
		for j, t := range q.times[1:] {
			itls[i] = append(itls[i], (t - q.times[j]).Seconds())
		}
	}
	out["input_lens"], out["output_lens"], out["ttfts"], out["itls"], out["errors"] = inputs, outputs, ttfts, itls, errs
}
