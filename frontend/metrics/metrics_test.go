package metrics

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"govllm/protocol"
	"govllm/stats"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite testdata/metrics.txt")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newRecorder(t testing.TB, engines ...EngineConfig) (*Registry, *Recorder) {
	t.Helper()
	if engines == nil {
		engines = []EngineConfig{{}}
	}
	reg := NewRegistry(slog.New(slog.DiscardHandler))
	rec, err := reg.NewRecorder(Config{ModelName: "builtin", MaxModelLen: 1024, Engines: engines})
	if err != nil {
		t.Fatal(err)
	}
	return reg, rec
}

// scrape returns what /metrics says.
func scrape(t testing.TB, reg *Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	reg.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("GET /metrics: status %d", w.Code)
	}
	return w.Body.String()
}

// lines picks the samples of one metric from a scrape, without the common
// labels.
func lines(text, name string) []string {
	var found []string
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == '{' || rest[0] == ' ') {
			rest = commonLabels.ReplaceAllString(strings.TrimSpace(rest), "")
			found = append(found, strings.TrimPrefix(strings.Replace(rest, ",}", "}", 1), "{} "))
		}
	}
	return found
}

var commonLabels = regexp.MustCompile(`(engine="0"|model_name="builtin"),?`)

func checkLines(t *testing.T, text, name string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, lines(text, name)); diff != "" {
		t.Errorf("%s, -want +got:\n%s", name, diff)
	}
}

// busy is a few steps of an engine: two prompts, one partly cached, one
// preempted; one finishes, one is aborted.
func busy(rec *Recorder) {
	yes := func(s float64) stats.Interval { return stats.Interval{Seconds: s, Known: true} }
	rec.Record(0, &protocol.SchedulerStats{
		NumRunningReqs: 2, NumWaitingReqs: 1, NumSkippedWaitingReqs: 2, KVCacheUsage: 0.25,
		PrefixCacheStats: protocol.PrefixCacheStats{Requests: 2, Queries: 300, Hits: 64},
		Step: protocol.StepStats{Known: true, Number: 1, Duration: 0.004, NumPrefillTokens: 236, NumPrefillReqs: 2,
			NumWaitingTokens: 70, NumUncachedTokens: 30, NumResidentTokens: 300, NumPendingTokens: 8},
	}, &stats.Iteration{NumOutputs: 2, NumGenerationTokens: 2, NumPromptTokens: 300, NumComputedTokens: 236,
		NumLocalCachedTokens: 64, TimeToFirstToken: []float64{0.05, 0.3}})
	rec.Record(0, &protocol.SchedulerStats{
		NumRunningReqs: 1, NumWaitingReqs: 2, KVCacheUsage: 1,
		Step: protocol.StepStats{Known: true, Number: 2, Duration: 0.002, NumDecodeTokens: 1, NumDecodeReqs: 1,
			Preemptions: protocol.Preemptions{Priority: 1}, NumRecomputed: 3, NumWaitingTokens: 170, NumResidentTokens: 201},
	}, &stats.Iteration{NumOutputs: 1, NumGenerationTokens: 1, InterTokenLatency: []float64{0.002},
		Finished: []stats.FinishedRequest{{Reason: protocol.FinishLength, E2ELatency: 0.35, NumPromptTokens: 200,
			NumGenerationTokens: 2, NumCachedTokens: 64, MaxTokens: 2, PrefillKnown: true, QueueTime: yes(0.001),
			PrefillTime: yes(0.004), DecodeTime: yes(0.002), InferenceTime: yes(0.006), TimePerOutputToken: yes(0.002)}},
		Parents: []stats.FinishedParent{{N: 1, MaxNumGenerationTokens: 2}}})
	rec.Record(0, nil, &stats.Iteration{
		Finished: []stats.FinishedRequest{{Reason: protocol.FinishAbort, E2ELatency: 3, NumPromptTokens: 100,
			NumGenerationTokens: 1, MaxTokens: 16, NumPreemptions: 1, PrefillKnown: true, QueueTime: yes(0.001), PrefillTime: yes(0.004)}},
		Parents: []stats.FinishedParent{{N: 1, MaxNumGenerationTokens: 1}}})
}

// The golden text is a scrape before any traffic and one after some, without
// what differs from run to run: go_*, process_* and the creation times.
func TestGolden(t *testing.T) {
	caching := true
	reg, rec := newRecorder(t,
		EngineConfig{Index: 0, BlockSize: 16, NumGPUBlocks: 1000000, KVCacheSizeTokens: 16000000, KVCacheMaxConcurrency: 15625,
			CacheDType: "float32", EnablePrefixCaching: &caching})
	if _, err := reg.NewHTTP(); err != nil {
		t.Fatal(err)
	}
	before := stable(scrape(t, reg))
	busy(rec)
	got := "# Before any traffic.\n\n" + before + "\n# After some.\n\n" + stable(scrape(t, reg))

	const file = "testdata/metrics.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("/metrics, -want +got (read it, then go test -update):\n%s", diff)
	}
}

var unstable = regexp.MustCompile(`^(# (HELP|TYPE) )?(go_|process_|\S*_created[ {])`)

func stable(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !unstable.MatchString(line) {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestExposition(t *testing.T) {
	reg, rec := newRecorder(t, EngineConfig{Index: 0}, EngineConfig{Index: 1}, EngineConfig{Index: 2})
	busy(rec)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reg.ServeHTTP(w, r) }))
	defer server.Close()
	resp, err := server.Client().Get(server.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, want := resp.Header.Get("Content-Type"), "text/plain; version=0.0.4; charset=utf-8"; got != want {
		t.Errorf("Content-Type = %q, want %q", got, want)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatalf("the text does not parse: %v", err)
	}

	for _, m := range stats.Catalog() {
		f := families[m.Name]
		if m.When != "" && m.Name == "vllm:spec_decode_num_drafts_total" && f != nil {
			t.Errorf("%s is there although no engine drafts", m.Name)
		}
		if there := m.Gate == stats.GateNone && m.Deprecated == nil; !there && f != nil {
			t.Errorf("%s is there without its switch", m.Name)
		} else if there && m.When == "" && f == nil {
			t.Errorf("%s is missing", m.Name)
		}
		if f == nil {
			continue
		}
		if got, want := strings.ToLower(f.GetType().String()), string(m.Kind); got != want {
			t.Errorf("%s is a %s, want %s", m.Name, got, want)
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		if want := slices.Sorted(slices.Values(m.LabelNames())); !slices.Equal(labels, want) {
			t.Errorf("%s has labels %v, want %v", m.Name, labels, want)
		}
	}
	for _, name := range []string{"process_start_time_seconds", "process_resident_memory_bytes", "go_goroutines"} {
		if families[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
	checkCreated(t, families)
}

// Each counter, histogram and summary of ours has a creation time.
func checkCreated(t *testing.T, families map[string]*dto.MetricFamily) {
	t.Helper()
	for name, f := range families {
		if !strings.HasPrefix(name, "vllm:") || f.GetType() == dto.MetricType_GAUGE {
			continue
		}
		created := name + "_created"
		if f.GetType() == dto.MetricType_COUNTER {
			created = strings.TrimSuffix(name, "_total") + "_created"
		}
		c := families[created]
		if c.GetType() != dto.MetricType_GAUGE || len(c.GetMetric()) != len(f.GetMetric()) {
			t.Errorf("%s: %d series of type %s, want %d gauges", created, len(c.GetMetric()), c.GetType(), len(f.GetMetric()))
			continue
		}
		if age := float64(time.Now().Unix()) - c.GetMetric()[0].GetGauge().GetValue(); age < -1 || age > 3600 {
			t.Errorf("%s: created %v seconds ago", created, age)
		}
	}
}

// A scrape may come while an engine's first statistics do.
func TestScrapeWhileRecording(t *testing.T) {
	for range 50 {
		reg, rec := newRecorder(t)
		rec.Watch(func() stats.FrontendStatus {
			return stats.FrontendStatus{Engines: []stats.EngineStatus{{StepTime: time.Second}}}
		})
		done := make(chan struct{})
		go func() {
			defer close(done)
			busy(rec)
		}()
		scrape(t, reg)
		<-done
		checkLines(t, scrape(t, reg), "vllm:engine_running_step_seconds", "1")
	}
}

// The JSON route shows what get_metrics() would: names, types, labels, values.
func TestReaderJSON(t *testing.T) {
	reg, rec := newRecorder(t)
	busy(rec)
	w := httptest.NewRecorder()
	reg.ReaderJSON().ServeHTTP(w, httptest.NewRequest("GET", "/metrics.json", nil))
	if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || got != "application/json" {
		t.Fatalf("status %d, Content-Type %q", w.Code, got)
	}
	for _, want := range []string{
		`{"type":"counter","name":"vllm:generation_tokens","labels":{"engine":"0","model_name":"builtin"},"value":3}`,
		`{"type":"gauge","name":"vllm:kv_cache_usage_perc","labels":{"engine":"0","model_name":"builtin"},"value":1}`,
		`{"type":"histogram","name":"vllm:request_params_n","labels":{"engine":"0","model_name":"builtin"},"count":2,"sum":2,` +
			`"buckets":{"+Inf":2,"1.0":2,"10.0":2,"2.0":2,"20.0":2,"5.0":2}}`,
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("the records lack %s", want)
		}
	}
	if strings.Contains(w.Body.String(), "http_") {
		t.Error("the records have metrics that are not vLLM's")
	}
}

func TestHead(t *testing.T) {
	reg, _ := newRecorder(t)
	w := httptest.NewRecorder()
	reg.ServeHTTP(w, httptest.NewRequest("HEAD", "/metrics", nil))
	if w.Code != http.StatusOK || w.Body.Len() != 0 || w.Header().Get("Content-Length") == "" {
		t.Errorf("HEAD = %d, %d bytes, Content-Length %q", w.Code, w.Body.Len(), w.Header().Get("Content-Length"))
	}
}

// Five drafts of three tokens, nine accepted: acceptance rate 0.6, mean
// acceptance length 2.8.
func TestSpeculativeDecoding(t *testing.T) {
	reg, rec := newRecorder(t)
	var none stats.Iteration
	rec.Record(0, &protocol.SchedulerStats{SpecDecodingStats: &protocol.SpecDecodingStats{NumSpecTokens: 3,
		NumDrafts: 2, NumDraftTokens: 6, NumAcceptedTokens: 4, NumAcceptedTokensPerPos: []int{2, 1, 1}}}, &none)
	rec.Record(0, &protocol.SchedulerStats{SpecDecodingStats: &protocol.SpecDecodingStats{NumSpecTokens: 3,
		NumDrafts: 3, NumDraftTokens: 9, NumAcceptedTokens: 5, NumAcceptedTokensPerPos: []int{3, 2}}}, &none)
	text := scrape(t, reg)
	checkLines(t, text, "vllm:spec_decode_num_drafts_total", "5")
	checkLines(t, text, "vllm:spec_decode_num_draft_tokens_total", "15")
	checkLines(t, text, "vllm:spec_decode_num_accepted_tokens_total", "9")
	checkLines(t, text, "vllm:spec_decode_num_accepted_tokens_per_pos_total",
		`{position="0"} 5`, `{position="1"} 3`, `{position="2"} 1`)
}

// Metrics behind switches, and names that vLLM gave up, are there if asked for
// and show the same as the new ones.
func TestSwitchedOn(t *testing.T) {
	reg := NewRegistry(slog.New(slog.DiscardHandler))
	rec, err := reg.NewRecorder(Config{ModelName: "builtin", MaxModelLen: 1024, Engines: []EngineConfig{{}},
		Gates:      stats.Gates{stats.GateKVCache: true, stats.GateNaNs: true},
		ShowHidden: stats.Version{Major: 0, Minor: 10},
		Buckets:    stats.CustomBuckets{stats.FamilyResidency: {1, 10}, stats.FamilyITL: {0.1}}})
	if err != nil {
		t.Fatal(err)
	}
	rec.Record(0, &protocol.SchedulerStats{KVCacheUsage: 0.5, PrefixCacheStats: protocol.PrefixCacheStats{Queries: 32, Hits: 16},
		KVCacheEvictionEvents: []protocol.KVCacheEvictionEvent{{Lifetime: 5, Idle: 0.5, ReuseGaps: []float64{1, 2}}}},
		&stats.Iteration{NumOutputs: 1, InterTokenLatency: []float64{0.05},
			Finished: []stats.FinishedRequest{{Reason: protocol.FinishStop, Corrupted: true}, {Reason: protocol.FinishStop}}})
	text := scrape(t, reg)
	checkLines(t, text, "vllm:kv_block_lifetime_seconds_bucket", `{le="1.0"} 0`, `{le="10.0"} 1`, `{le="+Inf"} 1`)
	checkLines(t, text, "vllm:kv_block_idle_before_evict_seconds_sum", "0.5")
	checkLines(t, text, "vllm:kv_block_reuse_gap_seconds_count", "2")
	checkLines(t, text, "vllm:corrupted_requests_total", "1")
	checkLines(t, text, "vllm:gpu_cache_usage_perc", "0.5")
	checkLines(t, text, "vllm:kv_cache_usage_perc", "0.5")
	checkLines(t, text, "vllm:gpu_prefix_cache_queries_total", "32")
	checkLines(t, text, "vllm:gpu_prefix_cache_hits_total", "16")
	checkLines(t, text, "vllm:time_per_output_token_seconds_bucket", `{le="0.1"} 1`, `{le="+Inf"} 1`)
	checkLines(t, text, "vllm:inter_token_latency_seconds_bucket", `{le="0.1"} 1`, `{le="+Inf"} 1`)
}

// What engines with a KV connector and with estimates of work report.
func TestConnectorAndWork(t *testing.T) {
	reg, rec := newRecorder(t)
	rec.Record(0, &protocol.SchedulerStats{PrefixCacheStats: protocol.PrefixCacheStats{Queries: 100, Hits: 48},
		ConnectorPrefixCacheStats: &protocol.PrefixCacheStats{Queries: 52, Hits: 32, HitsBySource: protocol.HitsBySource{Host: 16, Disk: 16}},
		PerfStats:                 &protocol.PerfStats{NumFlops: 1000, NumReadBytes: 200, NumWriteBytes: 30}}, &stats.Iteration{})
	rec.Record(0, &protocol.SchedulerStats{ConnectorPrefixCacheStats: &protocol.PrefixCacheStats{Queries: 8, Hits: 4}}, &stats.Iteration{})
	text := scrape(t, reg)
	checkLines(t, text, "vllm:external_prefix_cache_queries_total", "60")
	checkLines(t, text, "vllm:external_prefix_cache_hits_total", "36")
	checkLines(t, text, "vllm:prompt_tokens_cached_by_source_total",
		`{source="device"} 48`, `{source="disk"} 16`, `{source="external_unspecified"} 4`, `{source="host"} 16`, `{source="p2p"} 0`)
	checkLines(t, text, "vllm:estimated_flops_per_gpu_total", "1000")
	checkLines(t, text, "vllm:estimated_read_bytes_per_gpu_total", "200")
	checkLines(t, text, "vllm:estimated_write_bytes_per_gpu_total", "30")
}

// A broken engine's numbers cost neither memory nor the process.
func TestImpossibleDrafts(t *testing.T) {
	reg, rec := newRecorder(t)
	rec.Record(0, &protocol.SchedulerStats{SpecDecodingStats: &protocol.SpecDecodingStats{NumSpecTokens: 1 << 40,
		NumDrafts: -1, NumAcceptedTokensPerPos: []int{-3}}}, &stats.Iteration{})
	text := scrape(t, reg)
	if n := len(lines(text, "vllm:spec_decode_num_accepted_tokens_per_pos_total")); n > 256 {
		t.Errorf("%d positions, want at most 256", n)
	}
	checkLines(t, text, "vllm:spec_decode_num_drafts_total", "0")
	if !slices.Contains(lines(text, "vllm:stats_anomalies_total"), `{kind="negative_count"} 2`) {
		t.Errorf("anomalies are %q, want two negative counts", lines(text, "vllm:stats_anomalies_total"))
	}
}

// vLLM's engines tell of preemptions by events only.
func TestPreemptionsOfAForeignEngine(t *testing.T) {
	reg, rec := newRecorder(t)
	rec.Record(0, &protocol.SchedulerStats{}, &stats.Iteration{NumOutputs: 1, NumPreemptions: 2})
	text := scrape(t, reg)
	checkLines(t, text, "vllm:num_preemptions_total", "2")
	checkLines(t, text, "vllm:num_tokens_waiting")
}

// Ours count them per step; the events that come later say nothing new, and
// neither does a message that repeats a step or comes from an empty one.
func TestSteps(t *testing.T) {
	reg, rec := newRecorder(t)
	step := protocol.StepStats{Known: true, Number: 7, NumPrefillTokens: 4, NumPrefillReqs: 1, Preemptions: protocol.Preemptions{KVFull: 1}, NumWaitingTokens: 9}
	rec.Record(0, &protocol.SchedulerStats{Step: step}, &stats.Iteration{NumOutputs: 1})
	step.Preemptions, step.NumWaitingTokens = protocol.Preemptions{}, 5
	rec.Record(0, &protocol.SchedulerStats{Step: step}, &stats.Iteration{})
	rec.Record(0, &protocol.SchedulerStats{Step: protocol.StepStats{Known: true, Number: 8, NumWaitingTokens: 3}}, &stats.Iteration{})
	rec.Record(0, nil, &stats.Iteration{NumOutputs: 1, NumPreemptions: 1})
	text := scrape(t, reg)
	checkLines(t, text, "vllm:num_preemptions_total", "1")
	checkLines(t, text, "vllm:num_tokens_waiting", "3")
	checkLines(t, text, "vllm:step_scheduled_tokens_count", "1")
	checkLines(t, text, "vllm:step_scheduled_tokens_sum", "4")
}

// Whatever an engine says, serving goes on and no counter runs backwards.
func TestImpossibleNumbers(t *testing.T) {
	var log bytes.Buffer
	reg := NewRegistry(slog.New(slog.NewTextHandler(&log, nil)))
	rec, err := reg.NewRecorder(Config{ModelName: "builtin", MaxModelLen: 1024, Engines: []EngineConfig{{}}})
	if err != nil {
		t.Fatal(err)
	}
	nan := func() float64 { var zero float64; return zero / zero }()
	for range 2 {
		rec.Record(0, &protocol.SchedulerStats{NumRunningReqs: -1, KVCacheUsage: nan,
			PrefixCacheStats:  protocol.PrefixCacheStats{Queries: -5, Hits: -5},
			Step:              protocol.StepStats{Known: true, Number: 1, Duration: nan, Preemptions: protocol.Preemptions{KVFull: -1}, NumRecomputed: -1, NumDecodeTokens: -1},
			SpecDecodingStats: &protocol.SpecDecodingStats{NumDrafts: -1, NumSpecTokens: -3, NumAcceptedTokensPerPos: []int{-1}},
		}, &stats.Iteration{NumOutputs: 1, NumGenerationTokens: -1,
			Finished: []stats.FinishedRequest{{Reason: 99, NumPromptTokens: 1, NumCachedTokens: 2, PrefillKnown: true}}})
		rec.Record(5, nil, &stats.Iteration{NumGenerationTokens: 1})
		rec.Record(-1, nil, &stats.Iteration{Anomalies: [stats.NumAnomalies]int{stats.AnomalyNegativeInterval: 3}})
		rec.Record(0, nil, &stats.Iteration{Anomalies: [stats.NumAnomalies]int{stats.AnomalyNegativeInterval: 3}})
	}
	text := scrape(t, reg)
	checkLines(t, text, "vllm:num_requests_running", "0")
	checkLines(t, text, "vllm:kv_cache_usage_perc", "0")
	checkLines(t, text, "vllm:generation_tokens_total", "0")
	checkLines(t, text, "vllm:prefix_cache_queries_total", "0")
	checkLines(t, text, "vllm:request_prefill_kv_computed_tokens_sum", "0")
	checkLines(t, text, "vllm:step_duration_seconds_sum", "0")
	anomalies := lines(text, "vllm:stats_anomalies_total")
	for _, want := range []string{`{kind="negative_interval"} 6`, `{kind="unknown_engine"} 4`, `{kind="unknown_reason"} 2`, `{kind="missing_timestamp"} 0`} {
		if !slices.Contains(anomalies, want) {
			t.Errorf("vllm:stats_anomalies_total = %v, want among them %s", anomalies, want)
		}
	}
	for _, kind := range []string{"negative_interval", "negative_count", "unknown_engine", "unknown_reason"} {
		if n := strings.Count(log.String(), "kind="+kind); n != 1 {
			t.Errorf("%s was logged %d times, want once", kind, n)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, tt := range []struct {
		c    Config
		want string
	}{
		{Config{ModelName: "m", MaxModelLen: 1, Engines: []EngineConfig{{Index: 0}, {Index: 1}}}, "<nil>"},
		{Config{}, "metrics: ModelName is empty\nmetrics: MaxModelLen is 0, want at least 1"},
		{Config{ModelName: "m", MaxModelLen: 1, Engines: []EngineConfig{{Index: 1}, {Index: 1}, {Index: -1}}},
			"metrics: engine index 1 is negative or taken\nmetrics: engine index -1 is negative or taken"},
	} {
		reg := NewRegistry(nil)
		if _, err := reg.NewRecorder(tt.c); fmt.Sprint(err) != tt.want {
			t.Errorf("NewRecorder(%+v) = %v, want %v", tt.c, err, tt.want)
		}
	}
	reg, _ := newRecorder(t)
	if _, err := reg.NewRecorder(Config{ModelName: "builtin", MaxModelLen: 1024}); err == nil {
		t.Error("a second recorder was accepted")
	}
}

func TestLogEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		reg := NewRegistry(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug,
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}})))
		rec, err := reg.NewRecorder(Config{ModelName: "m", MaxModelLen: 1, Engines: []EngineConfig{{Index: 1}, {Index: 0}}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			rec.LogEvery(ctx, 0)
		}()
		rec.Record(1, nil, &stats.Iteration{NumGenerationTokens: 1000})
		time.Sleep(DefaultLogInterval) // fake time: lets the ticker fire
		synctest.Wait()
		cancel()
		<-done
		const rest = "Running: 0 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%, Prefix cache hit rate: 0.0%\"\n"
		want := "level=DEBUG msg=\"Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, " + rest +
			"level=INFO msg=\"Engine 001: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 100.0 tokens/s, " + rest
		if diff := cmp.Diff(want, log.String()); diff != "" {
			t.Errorf("log, -want +got:\n%s", diff)
		}
	})
}

func TestHTTP(t *testing.T) {
	reg := NewRegistry(nil)
	h, err := reg.NewHTTP()
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "12345") })
	mux.HandleFunc("GET /v1/models/{id}", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, "no")
	})
	mux.HandleFunc("/silent", func(w http.ResponseWriter, r *http.Request) {})
	mux.HandleFunc("/boom", func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) })
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Errorf("Flush: %v", err)
		}
	})
	mux.HandleFunc("/", http.NotFound)
	mux.HandleFunc("/health", func(w http.ResponseWriter, r *http.Request) {})
	handler := h.Wrap(mux)
	do := func(method, path, body string) {
		defer func() { recover() }() // /boom
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, path, strings.NewReader(body)))
	}
	do("POST", "/v1/completions", "123")
	do("POST", "/v1/completions", "1234567")
	do("GET", "/v1/models/a", "")
	do("GET", "/v1/models/b", "")
	do("GET", "/silent", "")
	do("GET", "/stream", "")
	do("GET", "/boom", "")
	do("BREW", "/nowhere/42", "")
	for path := range maps.Keys(excluded) {
		do("GET", path, "")
	}

	text := scrape(t, reg)
	checkLines(t, text, "http_requests_total",
		`{handler="/boom",method="GET",status="5xx"} 1`,
		`{handler="/silent",method="GET",status="2xx"} 1`,
		`{handler="/stream",method="GET",status="2xx"} 1`,
		`{handler="/v1/completions",method="POST",status="2xx"} 2`,
		`{handler="/v1/models/{id}",method="GET",status="4xx"} 2`,
		`{handler="none",method="OTHER",status="4xx"} 1`)
	checkLines(t, text, "http_request_size_bytes_sum", `{handler="/boom"} 0`, `{handler="/silent"} 0`, `{handler="/stream"} 0`,
		`{handler="/v1/completions"} 10`, `{handler="/v1/models/{id}"} 0`, `{handler="none"} 0`)
	checkLines(t, text, "http_response_size_bytes_sum", `{handler="/boom"} 0`, `{handler="/silent"} 0`, `{handler="/stream"} 0`,
		`{handler="/v1/completions"} 10`, `{handler="/v1/models/{id}"} 4`, `{handler="none"} 19`)
	checkLines(t, text, "http_request_duration_highr_seconds_count", "8")
	checkLines(t, text, "http_request_duration_seconds_count", `{handler="/boom",method="GET"} 1`, `{handler="/silent",method="GET"} 1`,
		`{handler="/stream",method="GET"} 1`, `{handler="/v1/completions",method="POST"} 2`, `{handler="/v1/models/{id}",method="GET"} 2`,
		`{handler="none",method="OTHER"} 1`)
}

func TestLoad(t *testing.T) {
	var load Load
	get := func() string {
		w := httptest.NewRecorder()
		load.ServeHTTP(w, httptest.NewRequest("GET", "/load", nil))
		return w.Body.String()
	}
	inside := ""
	h := load.Track(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside = get() }))
	for _, tt := range []struct{ method, path, want string }{
		{"POST", "/v1/completions", `{"server_load":1}`},
		{"GET", "/v1/models", `{"server_load":0}`},
		{"POST", "/tokenize", `{"server_load":0}`},
	} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(tt.method, tt.path, nil))
		if after := get(); inside != tt.want || after != `{"server_load":0}` {
			t.Errorf("%s %s: /load = %s meanwhile, want %s; %s after", tt.method, tt.path, inside, tt.want, after)
		}
	}
}

// Scrapes and handlers' records happen while the reader records.
func TestConcurrentUse(t *testing.T) {
	reg, rec := newRecorder(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 200 {
			rec.Record(0, nil, &stats.Iteration{Finished: []stats.FinishedRequest{{Reason: protocol.FinishAbort}}})
		}
	}()
	for i := range 200 {
		busy(rec)
		if i%50 == 0 {
			scrape(t, reg)
		}
	}
	<-done
	checkLines(t, scrape(t, reg), "vllm:request_success_total", `{finished_reason="abort"} 400`, `{finished_reason="error"} 0`,
		`{finished_reason="length"} 200`, `{finished_reason="repetition"} 0`, `{finished_reason="stop"} 0`)
}

func TestRecordAllocatesNothing(t *testing.T) {
	_, rec := newRecorder(t)
	s := &protocol.SchedulerStats{NumRunningReqs: 1, Step: protocol.StepStats{Known: true, Number: 1}}
	it := &stats.Iteration{NumOutputs: 2, NumGenerationTokens: 2, InterTokenLatency: []float64{0.01, 0.01}}
	rec.Record(0, s, it)
	if n := testing.AllocsPerRun(100, func() { s.Step.Number++; rec.Record(0, s, it) }); n != 0 {
		t.Errorf("Record of a decode step allocates %v times, want 0", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	for _, seqs := range []int{1, 256} {
		b.Run(fmt.Sprintf("seqs=%d", seqs), func(b *testing.B) {
			_, rec := newRecorder(b)
			s := &protocol.SchedulerStats{NumRunningReqs: seqs}
			it := &stats.Iteration{NumOutputs: seqs, NumGenerationTokens: seqs}
			for range seqs {
				it.InterTokenLatency = append(it.InterTokenLatency, 0.02)
			}
			b.ReportAllocs()
			for b.Loop() {
				s.Step.Number++
				rec.Record(0, s, it)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*seqs), "ns/token")
		})
	}
}

func BenchmarkScrape(b *testing.B) {
	reg, rec := newRecorder(b)
	busy(rec)
	w := httptest.NewRecorder()
	req := httptest.NewRequest("GET", "/metrics", nil)
	b.ReportAllocs()
	for b.Loop() {
		w.Body.Reset()
		reg.ServeHTTP(w, req)
	}
	b.ReportMetric(float64(w.Body.Len()), "bytes")
}
