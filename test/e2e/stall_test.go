package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

func (s *system) status(t *testing.T, path string) int {
	t.Helper()
	resp, err := http.Get(s.url + path)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// A step takes longer than the stall timeout. While it lasts, the frontend
// goes on telling how things are: who runs, who has not been taken in, that
// the engine is stalled. It recovers with the step's end, by itself.
func TestLongStep(t *testing.T) {
	s := start(t, options{
		core:     []string{"--device", "mock", "--mock-step-time", "3", "--step-stats-interval", "0.1"},
		frontend: []string{"--engine-stall-timeout", "1"},
	})
	if got := s.status(t, "/ready"); got != http.StatusOK {
		t.Errorf("GET /ready of an idle server gives %d, want 200", got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	body := `{"prompt":"once","max_tokens":1,"ignore_eos":true,"stream":true}`
	got := make(chan string, 2)
	for range 2 {
		go func() { got <- readAll(t, s.open(t, ctx, "/v1/completions", body)) }()
		s.eventually(t, "the request is with the engine, in a step or before it", func() bool {
			m := s.metrics(t)
			return value(m, "vllm:num_requests_running")+value(m, "vllm:num_requests_not_taken_in") > 0
		})
	}
	s.eventually(t, "the step that lasts shows", func() bool {
		m := s.metrics(t)
		return value(m, "vllm:engine_running_step_seconds") > 0.5 && value(m, "vllm:num_requests_running") == 1 &&
			value(m, "vllm:num_requests_not_taken_in") == 1 && value(m, "vllm:num_requests_in_flight", "stage", "sent") == 1
	})
	s.eventually(t, "the engine counts as stalled", func() bool { return value(s.metrics(t), "vllm:engine_stalled") == 1 })
	if got := s.status(t, "/ready"); got != http.StatusServiceUnavailable {
		t.Errorf("GET /ready of a stalled server gives %d, want 503", got)
	}
	if got := s.status(t, "/health"); got != http.StatusOK {
		t.Errorf("GET /health of a stalled server gives %d, want 200", got)
	}
	if age := value(s.metrics(t), "vllm:engine_last_message_age_seconds"); age > 1 {
		t.Errorf("the engine's last message is %v s old, although it sends one every 0.1 s", age)
	}
	s.eventually(t, "it recovers", func() bool { return value(s.metrics(t), "vllm:engine_stalled") == 0 })
	for range 2 {
		if text := <-got; !strings.Contains(text, "[DONE]") {
			t.Errorf("a stream ended without [DONE]: %q", text)
		}
	}
	if got := s.status(t, "/ready"); got != http.StatusOK {
		t.Errorf("GET /ready after it gives %d, want 200", got)
	}
	if n := strings.Count(s.frontend.output(), "engine stalled"); n != 1 {
		t.Errorf("%d log lines of a stall, want 1", n)
	}
}

// After a mass abort every gauge is true again without further traffic.
func TestMassAbort(t *testing.T) {
	s := start(t, options{core: []string{"--device", "mock", "--mock-step-time", "0.02", "--max-num-seqs", "4"}})
	const n = 24
	ctx, cancel := context.WithCancel(context.Background())
	for range n {
		go func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/completions",
				strings.NewReader(`{"prompt":"once upon a time","max_tokens":500,"ignore_eos":true}`))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Content-Type", "application/json")
			if resp, err := http.DefaultClient.Do(req); err == nil {
				resp.Body.Close()
			}
		}()
	}
	s.eventually(t, "all are there, four run", func() bool {
		m := s.metrics(t)
		return value(m, "vllm:num_requests_running") == 4 && value(m, "vllm:num_requests_waiting") == n-4
	})
	cancel()
	s.idle(t)
	s.eventually(t, "the load in tokens is zero and every abort counted", func() bool {
		m := s.metrics(t)
		return value(m, "vllm:num_tokens_load") == 0 && value(m, "vllm:num_tokens_waiting") == 0 &&
			value(m, "vllm:request_success_total", "finished_reason", "abort") == n
	})
}

// The switches of metrics and of the log line, as a user gives them.
func TestMetricsSwitches(t *testing.T) {
	s := start(t, options{
		core: []string{"--kv-cache-metrics", "--kv-cache-metrics-sample", "1", "--num-gpu-blocks-override", "6",
			"--enable-mfu-metrics", "--enable-logging-iteration-details"},
		frontend: []string{"--kv-cache-metrics", "--show-hidden-metrics-for-version", "0.10", "--enable-metrics-json",
			"--custom-histogram-buckets.request_latency", "fine"},
	})
	for range 4 {
		if status, a := s.post(t, "/v1/completions", `{"prompt":"`+story+`","max_tokens":20,"ignore_eos":true}`); status != http.StatusOK {
			t.Fatalf("completion gives %d: %v", status, a)
		}
	}
	s.idle(t)
	m := s.metrics(t)
	if count, _ := histogram(m, "vllm:kv_block_lifetime_seconds"); count == 0 {
		t.Error("no block was evicted of a cache of five that all are sampled of")
	}
	for _, name := range []string{"vllm:estimated_flops_per_gpu_total", "vllm:estimated_read_bytes_per_gpu_total", "vllm:estimated_write_bytes_per_gpu_total"} {
		if value(m, name) <= 0 {
			t.Errorf("%s = %v, want more than 0", name, value(m, name))
		}
	}
	if m["vllm:gpu_cache_usage_perc"] == nil {
		t.Error("vllm:gpu_cache_usage_perc is missing")
	}
	if got := m["vllm:e2e_request_latency_seconds"].GetMetric()[0].GetHistogram().GetBucket()[0].GetUpperBound(); got != 0.0001 {
		t.Errorf("the first bucket of e2e latency ends at %v, want 0.0001", got)
	}
	for label, want := range map[string]string{"cache_dtype": "bfloat16", "enable_prefix_caching": "True"} {
		if value(m, "vllm:cache_config_info", label, want) != 1 {
			t.Errorf("cache_config_info lacks %s=%q", label, want)
		}
	}
	if out := s.frontend.output(); !strings.Contains(out, "Iteration(1): 1 context requests") {
		t.Errorf("no line of the first step in the log:\n%s", out)
	}
	resp, err := http.Get(s.url + "/metrics.json")
	if err != nil {
		t.Fatal(err)
	}
	if text := readAll(t, resp); !strings.Contains(text, `{"type":"counter","name":"vllm:generation_tokens","labels":{"engine":"0","model_name":"builtin"},"value":80}`) {
		t.Errorf("/metrics.json lacks 80 generated tokens: %.300s", text)
	}
}
