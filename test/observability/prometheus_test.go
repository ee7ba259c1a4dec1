package observability

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"govllm/stats/dashboards"
	"govllm/test/load/bench"
	"govllm/test/load/system"
)

// dashboardsDir is where rules and dashboards are, from this folder.
const dashboardsDir = "../../stats/dashboards"

// programs skips, saying so, where a Debian package is not installed.
func programs(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed; make e2e-observability installs it where apt-get works", name)
		}
	}
}

// Rules and configuration are what promtool accepts, and rules do what their
// tests say.
func TestRules(t *testing.T) {
	extra(t)
	programs(t, "promtool")
	for _, args := range [][]string{
		{"check", "config", filepath.Join(dashboardsDir, "prometheus.yml")},
		{"check", "rules", filepath.Join(dashboardsDir, "rules/recording.yaml"), filepath.Join(dashboardsDir, "rules/alerts.yaml"), filepath.Join(dashboardsDir, "rules/compat.yaml")},
		{"test", "rules", filepath.Join(dashboardsDir, "rules/tests.yaml")},
	} {
		if out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// world is a running system that a real Prometheus scrapes.
type world struct {
	*system.System
	prometheus string // URL
	sent       *bench.Result
}

// TestPrometheus asks everything of one run: a load that queues, fills the KV
// cache, preempts and hits the prefix cache.
func TestPrometheus(t *testing.T) {
	extra(t)
	programs(t, "prometheus", "promtool")
	w := &world{System: start(t, system.Options{
		Core:     []string{"--cpu-threads", "1", "--block-size", "16", "--max-num-seqs", "8", "--num-gpu-blocks-override", "40"},
		Frontend: []string{"--disable-uvicorn-access-log"},
	})}
	w.watch(t)
	t.Run("check metrics", w.checkMetrics)
	w.work(t)
	w.settle(t)
	t.Run("consumers", w.consumers)
	t.Run("dashboards", w.dashboards)
	t.Run("rules", w.rules)
	t.Run("autoscaling", w.autoscaling)
}

// watch starts a Prometheus and returns once it has scraped the frontend.
func (w *world) watch(t *testing.T) {
	t.Helper()
	w.prometheus = startPrometheus(t, w.URL)
	eventually(t, "Prometheus has scraped the frontend", func() bool {
		s := w.query(t, "up")
		return len(s) == 1 && s[0].value == 1
	})
}

// startPrometheus runs one that scrapes url every second, with the labels that
// Kubernetes would add, and all of our rules. It returns its URL.
func startPrometheus(t *testing.T, url string) string {
	t.Helper()
	dir := t.TempDir()
	rules, err := filepath.Abs(filepath.Join(dashboardsDir, "rules"))
	if err != nil {
		t.Fatal(err)
	}
	config := map[string]any{
		"global": map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files": []string{filepath.Join(rules, "recording.yaml"), filepath.Join(rules, "alerts.yaml"),
			filepath.Join(rules, "compat.yaml")},
		"scrape_configs": []any{map[string]any{"job_name": "vllm", "static_configs": []any{map[string]any{
			"targets": []string{strings.TrimPrefix(url, "http://")},
			"labels":  map[string]string{"namespace": "default", "pod": "govllm-0", "service": "govllm"}}}}},
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // killed
		if t.Failed() {
			t.Log(log.String())
		}
	})
	base := "http://" + address
	eventually(t, "Prometheus is ready", func() bool {
		resp, err := http.Get(base + "/-/ready")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return base
}

// patience bounds every wait for what must happen; the machine may be busy.
const patience = 2 * time.Minute

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", patience, what)
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the test ended before: " + what)
		}
	}
}

// sample is one value of an instant query's answer.
type sample struct {
	labels map[string]string
	value  float64
}

// query asks Prometheus for the value of an expression now.
func (w *world) query(t *testing.T, expr string) []sample {
	t.Helper()
	resp, err := http.Get(w.prometheus + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	if answer.Status != "success" {
		t.Fatalf("%s: %s", expr, answer.Error)
	}
	var found []sample
	for _, r := range answer.Data.Result {
		v, err := strconv.ParseFloat(r.Value[1].(string), 64)
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		found = append(found, sample{r.Metric, v})
	}
	return found
}

// checkMetrics runs promtool's linter over /metrics. Names with a colon are
// vLLM's; of what else it says about those, only what is theirs may stay.
func (w *world) checkMetrics(t *testing.T) {
	resp, err := http.Get(w.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	cmd := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	cmd.Stdin = resp.Body
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); !isVLLMs(line) {
			t.Errorf("promtool check metrics: %s", line)
		}
	}
}

// isVLLMs says whether a complaint is about a name that vLLM chose.
func isVLLMs(line string) bool {
	for _, known := range []string{
		`metric names should not contain ':'`,
		`vllm:iteration_tokens_total non-counter metrics should not have "_total" suffix`,
	} {
		if strings.HasSuffix(line, known) || strings.HasPrefix(line, known) {
			return true
		}
	}
	return false
}

// work sends more than the engine can take at once, and one request that its
// client gives up.
func (w *world) work(t *testing.T) {
	t.Helper()
	c := bench.Default()
	c.BaseURL, c.NumPrompts, c.MaxConcurrency, c.PrefixLen, c.InputLen, c.OutputLen = w.URL, 120, 16, 32, 30, 100
	c.IgnoreEOS, c.RangeRatio = true, 0.3
	var err error
	if w.sent, err = bench.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if w.sent.Failed > 0 {
		t.Fatalf("%d requests failed: %v", w.sent.Failed, w.sent.Errors)
	}
	w.open(t)() // given up after its first token
}

// open starts a request that takes a while and returns once it has a token;
// close gives it up.
func (w *world) open(t *testing.T) (close func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL+"/v1/completions",
		strings.NewReader(`{"prompt":"Once","max_tokens":500,"stream":true,"ignore_eos":true}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(resp.Body)
		t.Fatalf("status %d: %s", resp.StatusCode, said)
	}
	if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return func() { cancel(); resp.Body.Close() }
}

// settle waits until Prometheus has seen the end of the work, and the rules
// that record its counters have too.
func (w *world) settle(t *testing.T) {
	t.Helper()
	for _, now := range []struct {
		expr string
		want float64
	}{
		{"sum(vllm:request_success_total)", float64(w.sent.Completed + 1)},
		{"vllm:prefix_cache_queries_total - vllm:prefix_cache_queries", 0}, // what compat.yaml records
	} {
		eventually(t, fmt.Sprintf("%s is %v", now.expr, now.want), func() bool {
			s := w.query(t, now.expr)
			return len(s) == 1 && s[0].value == now.want
		})
	}
	eventually(t, "nothing is running", func() bool {
		s := w.query(t, "vllm:num_requests_running + vllm:kv_cache_usage_perc")
		return len(s) == 1 && s[0].value == 0
	})
}

// during says that an expression, a gauge while the work went on, must have
// been above zero and at most so much. Counters are looked at afterwards.
func during(gauge string) string { return "max_over_time(" + gauge + "[10m])" }

// consumer is a query that somebody's dashboard, autoscaler or router makes,
// and what is right.
type consumer struct {
	who, expr string
	low, high float64 // bounds of every sample, inclusive
	samples   int     // how many; 0: at least one
}

// consumers asks every query of every consumer that we know of.
func (w *world) consumers(t *testing.T) {
	sent := w.sent
	n := float64(sent.Completed)
	inf := math.Inf(1)
	const m = `{model_name="builtin"}`
	const pod = `{namespace="default",model_name="builtin"}`
	prompts, generated := float64(sent.InputTokens), float64(sent.OutputTokens)
	const tiny = 1e-9
	list := []consumer{
		// Gateway API Inference Extension and llm-d's endpoint picker.
		{"EPP", during("vllm:num_requests_waiting"), 1, 16, 1},
		{"EPP", during("vllm:num_requests_running"), 1, 8, 1},
		{"EPP", during("vllm:kv_cache_usage_perc"), tiny, 1, 1},
		{"EPP", `vllm:cache_config_info{block_size="16",num_gpu_blocks="40"}`, 1, 1, 1},

		// llm-d's workload variant autoscaler.
		{"WVA", "max by(pod) (max_over_time(vllm:kv_cache_usage_perc" + pod + "[10m]))", tiny, 1, 1},
		{"WVA", "max by(pod) (max_over_time(vllm:num_requests_waiting" + pod + "[10m]))", 1, 16, 1},
		{"WVA", "max by(pod, num_gpu_blocks, block_size) (vllm:cache_config_info" + pod + ")", 1, 1, 1},
		{"WVA", "rate(vllm:request_generation_tokens_sum" + pod + "[5m]) / rate(vllm:request_generation_tokens_count" + pod + "[5m])", generated / n / 1.2, generated / n * 1.2, 1},
		{"WVA", "rate(vllm:request_prompt_tokens_sum" + pod + "[5m]) / rate(vllm:request_prompt_tokens_count" + pod + "[5m])", prompts / n / 1.2, prompts / n * 1.2, 1},
		{"WVA", "rate(vllm:prefix_cache_hits" + pod + "[5m]) / rate(vllm:prefix_cache_queries" + pod + "[5m])", 0.05, 1, 1},
		{"WVA", "sum(increase(vllm:request_success_total" + pod + "[10m]))", n / 1.5, n * 1.5, 1},

		// vLLM production-stack: router, KEDA, prometheus-adapter.
		{"production-stack", during("vllm:gpu_cache_usage_perc"), tiny, 1, 1},
		{"production-stack", "vllm:gpu_prefix_cache_hit_rate", 0.05, 1, 1},
		{"production-stack", "vllm:gpu_prefix_cache_hits_total", 1, inf, 1},
		{"production-stack", "vllm:gpu_prefix_cache_queries_total", prompts, inf, 1},
		{"production-stack", "sum by(namespace) (max_over_time(vllm:num_requests_waiting[10m]))", 1, 16, 1},

		// KEDA practice.
		{"KEDA", "max_over_time(sum(vllm:num_requests_waiting" + m + ")[10m:1s])", 1, 16, 1},
		{"KEDA", "histogram_quantile(0.95, sum by(le) (rate(vllm:time_to_first_token_seconds_bucket" + m + "[5m])))", tiny, 3600, 1},
		{"KEDA", "max_over_time(sum(vllm:num_requests_running" + m + ")[10m:1s])", 1, 8, 1},

		// vllmstat, inferlint, inference-perf.
		{"vllmstat", "sum by(source) (vllm:prompt_tokens_by_source_total)", 0, prompts + 10, 3},
		{"vllmstat", "vllm:prompt_tokens_cached_total", 1, prompts, 1},
		{"vllmstat", `sum(vllm:request_success_total{finished_reason="length"})`, n, n, 1},
		{"vllmstat", `sum(vllm:request_success_total{finished_reason="abort"})`, 1, 1, 1},
		{"vllmstat", "vllm:iteration_tokens_total_sum / vllm:iteration_tokens_total_count", 1, 2048, 1},
		{"vllmstat", "vllm:estimated_flops_per_gpu_total", 0, inf, 1},
		{"inference-perf", "vllm:prompt_tokens_created", 1e9, inf, 1},
		{"inference-perf", "process_start_time_seconds", 1e9, inf, 1},

		// aibrix: names, of which some are vLLM's old ones.
		{"aibrix", "vllm:num_requests_swapped", 0, 0, 1},
		{"aibrix", "sum(vllm:engine_sleep_state)", 1, 1, 1},
		{"aibrix", "vllm:num_preemptions_total", 1, inf, 1},
		{"aibrix", "vllm:external_prefix_cache_queries_total", 0, 0, 1},
		{"aibrix", "vllm:external_prefix_cache_hits_total", 0, 0, 1},
		{"aibrix", "vllm:prompt_tokens_total", prompts, prompts + 10, 1},
		{"aibrix", "vllm:generation_tokens_total", generated, generated + 500, 1},
	}
	for _, h := range []struct {
		name  string
		count float64
	}{
		{"e2e_request_latency_seconds", n + 1}, {"request_queue_time_seconds", n + 1}, {"request_inference_time_seconds", n},
		{"request_prefill_time_seconds", n + 1}, {"request_decode_time_seconds", n}, {"request_prompt_tokens", n + 1},
		{"request_generation_tokens", n + 1}, {"request_max_num_generation_tokens", n + 1}, {"request_params_n", n + 1},
		{"request_params_max_tokens", n + 1}, {"time_to_first_token_seconds", n + 1}, {"request_time_per_output_token_seconds", n},
	} {
		list = append(list,
			consumer{"aibrix", "vllm:" + h.name + "_count", h.count, h.count, 1},
			consumer{"aibrix", "histogram_quantile(0.99, vllm:" + h.name + "_bucket)", 0, inf, 1})
	}
	// Tokens that arrive together are one sample, so no count is exact.
	for _, name := range []string{"inter_token_latency_seconds", "time_per_output_token_seconds"} {
		list = append(list, consumer{"aibrix", "vllm:" + name + "_count", generated / 4, generated + 500, 1},
			consumer{"aibrix", "histogram_quantile(0.99, vllm:" + name + "_bucket)", tiny, 3600, 1})
	}
	for _, c := range list {
		w.check(t, c)
	}
}

// check asks a query and compares.
func (w *world) check(t *testing.T, c consumer) {
	t.Helper()
	got := w.query(t, c.expr)
	if len(got) == 0 || (c.samples > 0 && len(got) != c.samples) {
		t.Errorf("%s: %s gives %d samples, want %d", c.who, c.expr, len(got), max(c.samples, 1))
	}
	for _, s := range got {
		if !(s.value >= c.low && s.value <= c.high) { // NaN is neither
			t.Errorf("%s: %s = %v of %v, want %v to %v", c.who, c.expr, s.value, s.labels, c.low, c.high)
		}
	}
}

// dashboards evaluates every query of every panel. The rate interval is long
// enough to reach back to the work.
func (w *world) dashboards(t *testing.T) {
	for _, d := range dashboards.All() {
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				for _, q := range p.Queries {
					expr := dashboards.Expand(q.Expr, "builtin", ".*", "5m")
					w.check(t, consumer{d.Title + " / " + p.Title, expr, 0, math.Inf(1), 0})
				}
			}
		}
	}
}

// rules must have been evaluated without an error; of the recorded values each
// exists, and no alert fires.
func (w *world) rules(t *testing.T) {
	resp, err := http.Get(w.prometheus + "/api/v1/rules")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError, Type, State string }
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	recorded := 0
	for _, g := range answer.Data.Groups {
		for _, r := range g.Rules {
			if r.Health != "ok" {
				t.Errorf("rule %s: health %q: %s", r.Name, r.Health, r.LastError)
			}
			switch r.Type {
			case "recording":
				recorded++
				w.check(t, consumer{"rules", r.Name, 0, math.Inf(1), 0})
			case "alerting":
				if r.State == "firing" {
					t.Errorf("alert %s fires on a healthy run", r.Name)
				}
			}
		}
	}
	if recorded < 20 {
		t.Errorf("%d recording rules were evaluated, want all of recording.yaml and compat.yaml", recorded)
	}
}

// autoscaling evaluates the queries of the KEDA and HPA examples, as they were
// while the work went on.
func (w *world) autoscaling(t *testing.T) {
	var exprs []string
	for _, file := range []string{"keda.yaml", "hpa.yaml"} {
		text, err := os.ReadFile(filepath.Join(dashboardsDir, "autoscaling", file))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			switch value = strings.Trim(value, `'"`); key {
			case "query":
				exprs = append(exprs, value)
			case "metricsQuery":
				exprs = append(exprs, strings.NewReplacer("<<.GroupBy>>", "pod", "<<.LabelMatchers>>", `namespace="default"`).Replace(value))
			case "- seriesQuery":
				exprs = append(exprs, value)
			}
		}
	}
	if len(exprs) != 5 {
		t.Errorf("%d queries in the examples, want 5: %v", len(exprs), exprs)
	}
	for _, e := range exprs {
		w.check(t, consumer{"autoscaling", "max_over_time((" + e + ")[10m:1s])", 1, math.Inf(1), 1})
	}
}

// TestStalledEngine has an engine work at one step for long: the plain
// definition of every kernel, with two long prompts. Prometheus must see it
// while it lasts, the alert fire, and both pass.
func TestStalledEngine(t *testing.T) {
	extra(t)
	programs(t, "prometheus")
	w := &world{System: start(t, system.Options{
		Core:     []string{"--device", "ref", "--kv-cache-memory-bytes", "64M", "--max-num-batched-tokens", "4096"},
		Frontend: []string{"--engine-stall-timeout", "1"},
	})}
	w.watch(t)
	c := bench.Default()
	c.BaseURL, c.NumPrompts, c.InputLen, c.OutputLen = w.URL, 2, 960, 2
	done := make(chan error, 1)
	go func() {
		r, err := bench.Run(t.Context(), c)
		if err == nil && r.Failed > 0 {
			err = fmt.Errorf("%v", r.Errors)
		}
		done <- err
	}()
	const firing = `ALERTS{alertname="VLLMEngineStalled",alertstate="firing"}`
	eventually(t, "vllm:engine_stalled is 1 and the alert fires", func() bool {
		s := w.query(t, "vllm:engine_stalled + on () "+firing)
		return len(s) == 1 && s[0].value == 2
	})
	for _, expr := range []string{"vllm:engine_last_step_age_seconds", "vllm:engine_running_step_seconds"} {
		w.check(t, consumer{"stall", expr, 1, 600, 1})
	}
	w.check(t, consumer{"stall: still in touch", "vllm:engine_last_message_age_seconds", 0, 5, 1})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	eventually(t, "vllm:engine_stalled is 0 and the alert is over", func() bool {
		s := w.query(t, "vllm:engine_stalled")
		return len(s) == 1 && s[0].value == 0 && len(w.query(t, firing)) == 0
	})
	w.check(t, consumer{"stall: /metrics answered all the time", "min_over_time(up[10m])", 1, 1, 1})
}
