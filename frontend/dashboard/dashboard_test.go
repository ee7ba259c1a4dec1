package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// families parses an exposition; types are given as name → kind so that the
// samples stay readable.
func families(t *testing.T, samples string) []*dto.MetricFamily {
	t.Helper()
	var text strings.Builder
	declared := map[string]bool{}
	for line := range strings.Lines(samples) {
		name := regexp.MustCompile(`^[a-z:_]+`).FindString(line)
		kind := "gauge"
		switch {
		case strings.HasSuffix(name, "_total"):
			kind = "counter"
		case strings.HasSuffix(name, "_bucket"), strings.HasSuffix(name, "_count"), strings.HasSuffix(name, "_sum"):
			kind = "histogram"
			name = name[:strings.LastIndexByte(name, '_')]
		}
		if name != "" && !declared[name] {
			declared[name] = true
			fmt.Fprintf(&text, "# TYPE %s %s\n", name, kind)
		}
		text.WriteString(line)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	parsed, err := parser.TextToMetricFamilies(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	var list []*dto.MetricFamily
	for _, f := range parsed {
		list = append(list, f)
	}
	return list
}

var start = time.Unix(1_700_000_000, 0)

// newest is the newest point of each series, without what is unknown.
func newest(h *History) map[string]map[string]float64 {
	found := map[string]map[string]float64{}
	for _, s := range h.Data(start).Series {
		found[s.Engine] = map[string]float64{}
		for name, values := range s.Columns {
			if v := values[len(values)-1]; !math.IsNaN(v) {
				found[s.Engine][name] = v
			}
		}
	}
	return found
}

func sample(engine int, scale float64) string {
	return fmt.Sprintf(`vllm:num_requests_running{engine="%[1]d",model_name="m"} 3
vllm:num_requests_in_flight{engine="%[1]d",stage="sent"} 1
vllm:num_requests_in_flight{engine="%[1]d",stage="queued"} 2
vllm:num_requests_in_flight{engine="%[1]d",stage="running"} 3
vllm:kv_cache_usage_perc{engine="%[1]d"} 0.%[1]d
vllm:num_tokens_running{engine="%[1]d"} 100
vllm:num_tokens_pending{engine="%[1]d"} 10
vllm:num_tokens_waiting_uncached{engine="%[1]d"} 20
vllm:engine_stalled{engine="%[1]d"} 0
vllm:prompt_tokens_total{engine="%[1]d"} %[2]v
vllm:generation_tokens_total{engine="%[1]d"} %[3]v
vllm:request_success_total{engine="%[1]d",finished_reason="stop"} %[4]v
vllm:request_success_total{engine="%[1]d",finished_reason="abort"} %[4]v
vllm:num_preemptions_total{engine="%[1]d"} 0
vllm:time_to_first_token_seconds_bucket{engine="%[1]d",le="0.1"} %[4]v
vllm:time_to_first_token_seconds_bucket{engine="%[1]d",le="0.2"} %[5]v
vllm:time_to_first_token_seconds_bucket{engine="%[1]d",le="+Inf"} %[5]v
vllm:time_to_first_token_seconds_count{engine="%[1]d"} %[5]v
vllm:step_duration_seconds_bucket{engine="%[1]d",le="0.1"} %[5]v
vllm:step_duration_seconds_bucket{engine="%[1]d",le="+Inf"} %[6]v
vllm:step_duration_seconds_count{engine="%[1]d"} %[6]v
`, engine, 500*scale, 1000*scale, 50*scale, 100*scale, 200*scale)
}

// What two engines say in 5 s becomes rates, percentiles and sums.
func TestHistoryAddsEnginesUp(t *testing.T) {
	h := NewHistory()
	const tokenizing = "vllm:num_requests_in_flight{stage=\"tokenizing\"} 4\n"
	h.Add(start, families(t, tokenizing+sample(0, 1)+sample(1, 1)))
	if d := h.Data(start); len(d.Times) != 0 || d.Model != "m" {
		t.Errorf("after one sample: %+v, want no point yet", d)
	}
	h.Add(start.Add(5*time.Second), families(t, tokenizing+sample(0, 2)+sample(1, 3)))
	engine := func(scale, kv float64) map[string]float64 {
		return map[string]float64{"sent": 1, "queued": 2, "running": 3, "kv_usage": kv, "tokens_running": 100, "tokens_pending": 10, "tokens_waiting": 20,
			"stalled": 0, "prompt_tokens": 100 * scale, "generated_tokens": 200 * scale, "finished": 20 * scale, "preemptions": 0,
			"ttft_p50": 0.1, "ttft_p95": 0.19, "ttft_p99": 0.198, "steps": 40 * scale, "step_p50": 0.1, "step_p99": 0.1}
	}
	all := engine(3, 0.05)
	for _, name := range []string{"sent", "queued", "running", "tokens_running", "tokens_pending", "tokens_waiting"} {
		all[name] *= 2
	}
	all["tokenizing"] = 4
	want := map[string]map[string]float64{"all": all, "0": engine(1, 0), "1": engine(2, 0.1)}
	if diff := cmp.Diff(want, newest(h), cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
}

func TestPercentile(t *testing.T) {
	b := &buckets{bounds: []float64{1, 2, 4}, counts: []float64{10, 30, 40, 50}}
	for _, tc := range []struct{ q, want float64 }{{0, 0}, {0.1, 0.5}, {0.2, 1}, {0.4, 1.5}, {0.7, 3}, {0.9, 4}, {1, 4}} {
		if got := b.percentile(tc.q); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("percentile(%v) = %v, want %v", tc.q, got, tc.want)
		}
	}
	if got := (&buckets{bounds: []float64{1}, counts: []float64{0, 0}}).percentile(0.5); !math.IsNaN(got) {
		t.Errorf("percentile of nothing = %v, want NaN", got)
	}
}

// A server that was started again counts from zero: no rate is negative.
func TestRestart(t *testing.T) {
	h := NewHistory()
	h.Add(start, families(t, sample(0, 10)))
	h.Add(start.Add(5*time.Second), families(t, sample(0, 1)))
	got := newest(h)["0"]
	if got["generated_tokens"] != 200 || got["finished"] != 20 || got["steps"] != 40 || got["ttft_p50"] != 0.1 {
		t.Errorf("after a restart: %v, want what the new process counted", got)
	}
}

// vLLM's own server has no stages: running and waiting stand in.
func TestForeignServer(t *testing.T) {
	h := NewHistory()
	text := `vllm:num_requests_running{engine="0",model_name="m"} 3
vllm:num_requests_waiting{engine="0",model_name="m"} 4
`
	h.Add(start, families(t, text))
	h.Add(start.Add(5*time.Second), families(t, text))
	if diff := cmp.Diff(map[string]float64{"running": 3, "queued": 4}, newest(h)["0"]); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
}

// The past is 15 minutes long, whatever happens, and in order; an engine that
// comes later is unknown before.
func TestRingIsBounded(t *testing.T) {
	h := NewHistory()
	for i := range 500 {
		text := sample(0, float64(i))
		if i >= 450 {
			text += sample(11, float64(i))
		}
		h.Add(start.Add(time.Duration(i)*Interval), families(t, text))
	}
	d := h.Data(start)
	if len(d.Times) != 181 || d.Times[180]-d.Times[0] != (15*time.Minute).Milliseconds() {
		t.Fatalf("%d points over %d ms, want 181 over 15 minutes", len(d.Times), d.Times[len(d.Times)-1]-d.Times[0])
	}
	var names []string
	for _, s := range d.Series {
		names = append(names, s.Engine)
		for name, v := range s.Columns {
			if len(v) != 181 {
				t.Errorf("engine %s: %d values of %s, want 181", s.Engine, len(v), name)
			}
		}
	}
	if diff := cmp.Diff([]string{"all", "0", "11"}, names); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	late := d.Series[2].Columns["running"]
	if !math.IsNaN(late[130]) || late[131] != 3 && late[132] != 3 {
		t.Errorf("engine 11 came with sample 450; its values around then are %v", late[128:134])
	}
}

func TestValuesJSON(t *testing.T) {
	got, err := json.Marshal(Values{0, 1234567, 0.123456, math.NaN(), math.Inf(1), 1e-7})
	if want := `[0,1234567,0.1235,null,null,1e-07]`; err != nil || string(got) != want {
		t.Errorf("JSON = %s, %v, want %s", got, err, want)
	}
	var back Values
	if err := json.Unmarshal(got, &back); err != nil || len(back) != 6 || back[1] != 1234567 || !math.IsNaN(back[3]) {
		t.Errorf("read back: %v, %v", back, err)
	}
}

type source func() []*dto.MetricFamily

func (s source) Gather() ([]*dto.MetricFamily, error) { return s(), nil }

func TestRunSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		fixed := families(t, sample(0, 1))
		d := New(source(func() []*dto.MetricFamily { asked.Add(1); return fixed }), nil)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { d.Run(ctx); close(ended) }()
		time.Sleep(10*Interval + time.Second) // the bubble's clock
		stop()
		<-ended
		if got := asked.Load(); got != 11 {
			t.Errorf("asked %d times in 10 intervals, want 11", got)
		}
		if n := len(d.history.Data(time.Now()).Times); n != 10 {
			t.Errorf("%d points, want 10", n)
		}
	})
}

func TestRoutes(t *testing.T) {
	d := New(source(func() []*dto.MetricFamily { return nil }), nil)
	d.history.Add(start, families(t, sample(0, 1)))
	d.history.Add(start.Add(Interval), families(t, sample(0, 2)))
	mux := http.NewServeMux()
	for pattern, h := range d.Routes() {
		mux.Handle(pattern, h)
	}
	for path, want := range map[string]string{
		"/dashboard":               "text/html; charset=utf-8",
		"/dashboard/dashboard.css": "text/css; charset=utf-8",
		"/dashboard/dashboard.js":  "text/javascript; charset=utf-8",
		"/dashboard/data":          "application/json",
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != want || w.Body.Len() == 0 {
			t.Errorf("GET %s: status %d, type %q, %d bytes", path, w.Code, w.Header().Get("Content-Type"), w.Body.Len())
		}
		if path != "/dashboard/data" {
			if url := regexp.MustCompile(`(?:https?:)?//[a-z]+\.[a-z.]+`).FindString(strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", "")); url != "" {
				t.Errorf("%s asks for %s: everything must come from the server itself", path, url)
			}
			if !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
				t.Errorf("%s may load from anywhere", path)
			}
		}
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/dashboard/", nil))
	if w.Code != http.StatusTemporaryRedirect || w.Header().Get("Location") != "/dashboard" {
		t.Errorf("GET /dashboard/: status %d to %q, want a redirect to /dashboard", w.Code, w.Header().Get("Location"))
	}
	w = httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/dashboard/data", nil))
	var data Data
	if err := json.Unmarshal(w.Body.Bytes(), &data); err != nil {
		t.Fatal(err)
	}
	if data.Model != "m" || data.Interval != 5 || len(data.Times) != 1 || len(data.Series) != 2 || data.Series[1].Columns["generated_tokens"][0] != 200 {
		t.Errorf("data = %s", w.Body)
	}
}

// Every column that the script draws exists.
func TestScriptNamesColumns(t *testing.T) {
	script, err := static.ReadFile("static/dashboard.js")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"load": true}
	for _, name := range columnNames {
		known[name] = true
	}
	found := regexp.MustCompile(`\["([a-z0-9_]+)", "[^"]*"(?:\]|, \w+\])|byEngine: "([a-z_]+)"|columns\.([a-z]+)\)`).FindAllSubmatch(script, -1)
	if len(found) < 20 {
		t.Fatalf("only %d columns found in the script", len(found))
	}
	for _, f := range found {
		if name := string(bytes.Join(f[1:], nil)); !known[name] {
			t.Errorf("dashboard.js draws %q, which is no column", name)
		}
	}
}

func BenchmarkData(b *testing.B) {
	h := NewHistory()
	h.series[Total], h.series["0"] = &ring[point]{}, &ring[point]{}
	for i := range length {
		h.times.push(start.Add(time.Duration(i) * Interval))
		h.series[Total].push(point{1: 0.123456})
		h.series["0"].push(point{2: 7})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := json.Marshal(h.Data(start)); err != nil {
			b.Fatal(err)
		}
	}
}
