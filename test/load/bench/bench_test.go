package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"govllm/test/load/mockserver"
)

func small(url string) Config {
	c := Default()
	c.BaseURL, c.NumPrompts, c.InputLen, c.OutputLen, c.MaxConcurrency = url, 20, 8, 5, 4
	return c
}

func run(t *testing.T, c Config) *Result {
	t.Helper()
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRunCountsWhatWasServed(t *testing.T) {
	server := httptest.NewServer(mockserver.New(mockserver.Config{}))
	defer server.Close()
	for _, backend := range []string{Completions, Chat} {
		c := small(server.URL)
		c.Backend, c.NumWarmups, c.ReadyTimeout = backend, 3, time.Minute
		ended := 0
		c.Progress = func(done, total int) { ended = max(ended, done) }
		c.MaxConcurrency = 1 // Progress is not locked
		r := run(t, c)
		if r.Completed != 20 || r.Failed != 0 || r.OutputTokens != 100 || ended != 20 || r.PeakConcurrent != 1 {
			t.Errorf("%s: completed %d, failed %d (%v), %d tokens, progress %d, %d at once; want 20, 0, 100, 20, 1",
				backend, r.Completed, r.Failed, r.Errors, r.OutputTokens, ended, r.PeakConcurrent)
		}
	}
}

func TestFailuresAreCountedByMessage(t *testing.T) {
	event := func(s string) string { return "data: " + s + "\n\n" }
	const token, usage = `{"choices":[{"text":"a"}]}`, `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}`
	for _, tc := range []struct {
		name, stream, want string
		status             int
	}{
		{"refused", "busy", "status 503: busy", 503},
		{"no end", event(token) + event(usage), "the stream ended without [DONE]", 200},
		{"no token", event(usage) + event("[DONE]"), "the stream had no token", 200},
		{"no usage", event(token) + event("[DONE]"), "the stream had no usage", 200},
		{"error event", event(token) + event(`{"error":{"message":"dead"}}`), `the stream failed: {"error":{"message":"dead"}}`, 200},
		{"fine", event(token) + event(usage) + event("[DONE]"), "", 200},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tc.status)
			fmt.Fprint(w, tc.stream)
		}))
		c := small(server.URL)
		c.Model = "m"
		r := run(t, c)
		server.Close()
		want := map[string]int{tc.want: 20}
		if tc.want == "" {
			want = map[string]int{}
		}
		if diff := cmp.Diff(want, r.Errors); diff != "" || r.Completed+r.Failed != 20 {
			t.Errorf("%s: errors differ (-want +got):\n%s", tc.name, diff)
		}
	}
}

// A chat's first event has the role and an empty text: no token.
func TestRoleIsNoToken(t *testing.T) {
	c := client{chat: true}
	var r record
	for _, e := range []string{
		`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`,
		`{"choices":[{"index":0,"delta":{"content":"a"}}]}`,
		`{"choices":[{"index":0,"delta":{"content":""}}]}`, // half a character is a token
	} {
		if _, err := c.event([]byte(e), time.Now(), &r); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.times) != 2 {
		t.Errorf("%d tokens seen, want 2", len(r.times))
	}
}

func TestArrivals(t *testing.T) {
	const n = 5000
	for _, burstiness := range []float64{0.3, 1, 5} {
		c := Default()
		c.RequestRate, c.Burstiness = 100, burstiness
		at := c.arrivals(n, rand.New(rand.NewPCG(1, 2)))
		if last := at[n-1].Seconds(); math.Abs(last-n/100.0) > 1e-6 {
			t.Errorf("burstiness %v: the last arrives at %v s, want %v", burstiness, last, n/100.0)
		}
		var mean, square float64
		previous := time.Duration(0)
		for _, a := range at {
			d := (a - previous).Seconds()
			mean, square, previous = mean+d/n, square+d*d/n, a
		}
		// Of a gamma distribution, variance / mean² is 1 / shape.
		if got, want := (square-mean*mean)/(mean*mean), 1/burstiness; math.Abs(got/want-1) > 0.15 {
			t.Errorf("burstiness %v: squared variation of intervals = %v, want about %v", burstiness, got, want)
		}
	}
	if at := (&Config{RequestRate: math.Inf(1)}).arrivals(3, nil); at[2] != 0 {
		t.Errorf("at an infinite rate the third arrives at %v, want at once", at[2])
	}
}

func TestPrompts(t *testing.T) {
	c := Default()
	c.InputLen, c.OutputLen, c.RangeRatio, c.PrefixLen, c.VocabSize = 100, 10, 0.5, 7, 50
	c.IgnoreEOS, c.ExtraBody = true, map[string]any{"temperature": 0.5}
	made, err := c.prompts(200, "m", rand.New(rand.NewPCG(1, 0)))
	if err != nil {
		t.Fatal(err)
	}
	again, _ := c.prompts(200, "m", rand.New(rand.NewPCG(1, 0)))
	if !bytes.Equal(made[7].body, again[7].body) {
		t.Error("the same seed gives other prompts")
	}
	var prefix []int
	for i, p := range made {
		var b struct {
			Prompt      []int   `json:"prompt"`
			MaxTokens   int     `json:"max_tokens"`
			IgnoreEOS   bool    `json:"ignore_eos"`
			Stream      bool    `json:"stream"`
			Temperature float64 `json:"temperature"`
		}
		if err := json.Unmarshal(p.body, &b); err != nil {
			t.Fatalf("%s: %v", p.body, err)
		}
		if n := len(b.Prompt); n < 57 || n > 157 || b.MaxTokens < 5 || b.MaxTokens > 15 || !b.IgnoreEOS || !b.Stream || b.Temperature != 0.5 {
			t.Fatalf("prompt %d has %d tokens and asks for %d: %s", i, n, b.MaxTokens, p.body)
		}
		if i == 0 {
			prefix = b.Prompt[:7]
		} else if diff := cmp.Diff(prefix, b.Prompt[:7]); diff != "" {
			t.Fatalf("prompt %d begins differently: %s", i, diff)
		}
	}
}

// handmade is a result whose numbers can be worked out by hand.
func handmade(goodput map[string]float64) *Result {
	c := Default()
	c.Model, c.MaxConcurrency, c.RequestRate = "m", 2, 4
	c.PercentileMetrics, c.Percentiles, c.Goodput = []string{"ttft", "tpot", "itl", "e2el"}, []float64{50, 99.5}, goodput
	at := func(ms ...int) (d []time.Duration) {
		for _, m := range ms {
			d = append(d, time.Duration(m)*time.Millisecond)
		}
		return d
	}
	return newResult(&c, []record{
		{start: 0, times: at(100, 200, 400), numInput: 10, numOutput: 3},
		{start: 200 * time.Millisecond, times: at(300), numInput: 20, numOutput: 1},
		{start: time.Second, err: errors.New("status 503: busy")},
	}, 2*time.Second)
}

func TestResult(t *testing.T) {
	r := handmade(map[string]float64{"ttft": 150})
	if r.Completed != 2 || r.Failed != 1 || r.InputTokens != 30 || r.OutputTokens != 4 || r.Events != 4 || r.Good != 1 || r.PeakConcurrent != 2 || r.PeakOutputThroughput != 4 {
		t.Errorf("result = %+v", r)
	}
	for name, want := range map[string]Summary{
		"ttft": {Mean: 200, Median: 200, Std: 100, Percentiles: []float64{200, 299}},
		"tpot": {Mean: 150, Median: 150, Std: 0, Percentiles: []float64{150, 150}},
		"itl":  {Mean: 150, Median: 150, Std: 50, Percentiles: []float64{150, 199.5}},
		"e2el": {Mean: 350, Median: 350, Std: 50, Percentiles: []float64{350, 399.5}},
	} {
		if diff := cmp.Diff(want, r.Metrics[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The block is read by scripts: labels, column 41 and section titles are vLLM's.
func TestResultBlock(t *testing.T) {
	var b strings.Builder
	if err := handmade(map[string]float64{"ttft": 150}).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := `============ Serving Benchmark Result ============
Successful requests:                     2
Failed requests:                         1
Maximum request concurrency:             2
Request rate configured (RPS):           4.00
Benchmark duration (s):                  2.00
Total input tokens:                      30
Total generated tokens:                  4
Request throughput (req/s):              1.00
Request goodput (req/s):                 0.50
Output token throughput (tok/s):         2.00
Peak output token throughput (tok/s):    4.00
Peak concurrent requests:                2.00
Total token throughput (tok/s):          17.00
---------------Time to First Token----------------
Mean TTFT (ms):                          200.00
Median TTFT (ms):                        200.00
P50 TTFT (ms):                           200.00
P99.5 TTFT (ms):                         299.00
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          150.00
Median TPOT (ms):                        150.00
P50 TPOT (ms):                           150.00
P99.5 TPOT (ms):                         150.00
---------------Inter-token Latency----------------
Mean ITL (ms):                           150.00
Median ITL (ms):                         150.00
P50 ITL (ms):                            150.00
P99.5 ITL (ms):                          199.50
----------------End-to-end Latency----------------
Mean E2EL (ms):                          350.00
Median E2EL (ms):                        350.00
P50 E2EL (ms):                           350.00
P99.5 E2EL (ms):                         399.50
==================================================
failed 1 times: status 503: busy
`
	got := regexp.MustCompile(` +\n`).ReplaceAllString(b.String(), "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("block (-want +got):\n%s", diff)
	}
}

func TestResultJSON(t *testing.T) {
	var b bytes.Buffer
	if err := handmade(nil).WriteJSON(&b, true); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"completed": 2.0, "failed": 1.0, "request_rate": 4.0, "max_concurrency": 2.0, "request_goodput": nil,
		"request_throughput": 1.0, "output_throughput": 2.0, "total_token_throughput": 17.0,
		"mean_ttft_ms": 200.0, "p99.5_itl_ms": 199.5, "std_e2el_ms": 50.0,
		"errors": []any{"", "", "status 503: busy"}, "ttfts": []any{0.1, 0.3, 0.0},
		"itls": []any{[]any{0.1, 0.2}, []any{}, []any{}},
	} {
		v, ok := got[name]
		if diff := cmp.Diff(want, v); !ok || diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestValidateReportsAll(t *testing.T) {
	c := Default()
	c.Backend, c.NumPrompts, c.RequestRate, c.RangeRatio = "grpc", 0, 0, 1
	c.PercentileMetrics, c.Percentiles, c.Goodput = []string{"x"}, []float64{101}, map[string]float64{"itl": 1}
	_, err := Run(t.Context(), c)
	for _, want := range []string{`backend "grpc"`, "num-prompts 0", "request-rate 0", "random-range-ratio 1",
		`percentile-metrics "x"`, "metric-percentiles 101", `goodput "itl"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Run() = %v, want it to name %s", err, want)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	server := httptest.NewServer(mockserver.New(mockserver.Config{Interval: time.Hour}))
	defer server.CloseClientConnections()
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	c := small(server.URL)
	c.Model, c.RequestRate = "mock", 1e9
	time.AfterFunc(0, func() { cancel(gone) })
	if _, err := Run(ctx, c); !errors.Is(err, gone) {
		t.Errorf("Run() = %v, want %v", err, gone)
	}
}
