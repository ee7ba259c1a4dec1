package bench

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// The backends: which API the requests speak.
const (
	Completions = "openai"      // POST /v1/completions with token IDs
	Chat        = "openai-chat" // POST /v1/chat/completions with words
)

// Metrics that percentiles and goodput may be asked of.
var metricNames = []string{"ttft", "tpot", "itl", "e2el"}

// Config of a run. The zero value of a field is no default; see Default.
type Config struct {
	BaseURL  string
	Backend  string
	Endpoint string // path; "": the backend's
	Model    string // "": the first that /v1/models lists

	NumPrompts     int
	NumWarmups     int     // requests before the clock starts, not counted
	RequestRate    float64 // requests a second; +Inf: all at once
	Burstiness     float64 // shape of the gamma distribution of intervals; 1: Poisson, above: more even
	MaxConcurrency int     // 0: no bound

	InputLen   int     // tokens of a prompt, the prefix not counted
	OutputLen  int     // max_tokens
	PrefixLen  int     // tokens that all prompts begin with
	RangeRatio float64 // lengths are uniform in [len×(1−r), len×(1+r)]; 0 ≤ r < 1
	VocabSize  int     // token IDs are drawn below it
	Seed       uint64

	IgnoreEOS bool
	ExtraBody map[string]any // members added to each request's body

	PercentileMetrics []string           // of ttft, tpot, itl, e2el
	Percentiles       []float64          // 0…100
	Goodput           map[string]float64 // of ttft, tpot, e2el: bound in ms

	ReadyTimeout time.Duration // how long the server may take to answer /health; 0: it is not asked
	Timeout      time.Duration // of one request

	// Progress, if not nil, is told after each request how many have ended, by
	// as many goroutines as there are requests under way.
	Progress func(done, total int)
}

// Default returns what `vllm bench serve` takes for its random data set.
func Default() Config {
	return Config{
		BaseURL: "http://127.0.0.1:8000", Backend: Completions,
		NumPrompts: 1000, RequestRate: math.Inf(1), Burstiness: 1,
		InputLen: 1024, OutputLen: 128, VocabSize: 256,
		PercentileMetrics: []string{"ttft", "tpot", "itl"}, Percentiles: []float64{99},
		Timeout: 6 * time.Hour,
	}
}

// Validate reports every field that cannot be served, by its flag's name.
func (c *Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Backend == Completions || c.Backend == Chat, "backend %q, want %s or %s", c.Backend, Completions, Chat)
	check(c.NumPrompts >= 1, "num-prompts %d, want at least 1", c.NumPrompts)
	check(c.NumWarmups >= 0, "num-warmups %d, want at least 0", c.NumWarmups)
	check(c.RequestRate > 0, "request-rate %v, want more than 0, or inf for all at once", c.RequestRate)
	check(c.Burstiness > 0, "burstiness %v, want more than 0; 1 is Poisson", c.Burstiness)
	check(c.MaxConcurrency >= 0, "max-concurrency %d, want at least 1, or 0 for no bound", c.MaxConcurrency)
	check(c.InputLen >= 1, "random-input-len %d, want at least 1", c.InputLen)
	check(c.OutputLen >= 1, "random-output-len %d, want at least 1", c.OutputLen)
	check(c.PrefixLen >= 0, "random-prefix-len %d, want at least 0", c.PrefixLen)
	check(c.RangeRatio >= 0 && c.RangeRatio < 1, "random-range-ratio %v, want 0 up to below 1", c.RangeRatio)
	check(c.VocabSize >= 1, "random-vocab-size %d, want at least 1", c.VocabSize)
	check(c.Timeout > 0, "timeout %v, want more than 0", c.Timeout)
	for _, m := range c.PercentileMetrics {
		check(slices.Contains(metricNames, m), "percentile-metrics %q, want one of %s", m, strings.Join(metricNames, ", "))
	}
	for _, p := range c.Percentiles {
		check(p >= 0 && p <= 100, "metric-percentiles %v, want 0 to 100", p)
	}
	for _, m := range slices.Sorted(maps.Keys(c.Goodput)) {
		check(m == "ttft" || m == "tpot" || m == "e2el", "goodput %q, want ttft, tpot or e2el", m)
		check(c.Goodput[m] >= 0, "goodput %s:%v, want a bound in ms that is not negative", m, c.Goodput[m])
	}
	return errors.Join(errs...)
}

func (c *Config) endpoint() string {
	switch {
	case c.Endpoint != "":
		return c.Endpoint
	case c.Backend == Chat:
		return "/v1/chat/completions"
	}
	return "/v1/completions"
}
