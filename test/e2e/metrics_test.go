package e2e

import (
	"net/http"
	"testing"
)

// The values that vLLM's own test expects of its metrics after ten sequential
// completions of ten tokens. Source: tests/entrypoints/instrumentator/test_metrics.py.
func TestMetricsOracle(t *testing.T) {
	const n, maxTokens = 10, 10
	s := start(t, options{})

	// Series exist before traffic, at zero.
	before := s.metrics(t)
	for _, name := range []string{"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
		"vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:request_success_total"} {
		if before[name] == nil || value(before, name) != 0 {
			t.Errorf("%s is not there at zero before traffic: %v", name, before[name])
		}
	}
	_, a := s.post(t, "/tokenize", `{"prompt":"`+story+`"}`)
	promptLen := at(a, "count").(float64)
	for i := range n {
		if status, a := s.post(t, "/v1/completions", `{"prompt":"`+story+`","max_tokens":10,"ignore_eos":true}`); status != http.StatusOK {
			t.Fatalf("completion %d gives %d: %v", i, status, a)
		}
	}
	s.idle(t)
	m := s.metrics(t)
	for name, want := range map[string]float64{
		"vllm:prompt_tokens_total":     n * promptLen,
		"vllm:generation_tokens_total": n * maxTokens,
		"vllm:request_success_total":   n,
		"vllm:num_preemptions_total":   0,
	} {
		if got := value(m, name); got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	if got := value(m, "vllm:request_success_total", "finished_reason", "length", "model_name", "builtin", "engine", "0"); got != n {
		t.Errorf("request_success_total of length = %v, want %d", got, n)
	}
	for name, want := range map[string]struct{ count, sum float64 }{
		"vllm:time_to_first_token_seconds":           {n, -1},
		"vllm:inter_token_latency_seconds":           {n * (maxTokens - 1), -1},
		"vllm:e2e_request_latency_seconds":           {n, -1},
		"vllm:request_queue_time_seconds":            {n, -1},
		"vllm:request_inference_time_seconds":        {n, -1},
		"vllm:request_prefill_time_seconds":          {n, -1},
		"vllm:request_decode_time_seconds":           {n, -1},
		"vllm:request_prompt_tokens":                 {n, n * promptLen},
		"vllm:request_generation_tokens":             {n, n * maxTokens},
		"vllm:request_params_n":                      {n, n},
		"vllm:request_params_max_tokens":             {n, n * maxTokens},
		"vllm:iteration_tokens_total":                {n * maxTokens, n * (promptLen + maxTokens)},
		"vllm:request_time_per_output_token_seconds": {n, -1},
	} {
		count, sum := histogram(m, name)
		if count != want.count || (want.sum >= 0 && sum != want.sum) {
			t.Errorf("%s has count %v and sum %v, want %v", name, count, sum, want)
		}
		if want.sum < 0 && (sum < 0 || sum > 600) {
			t.Errorf("%s has the sum %v s, which no %d requests take", name, sum, n)
		}
	}
	// One prefix is cached after the first request, if it fills a block.
	if got := value(m, "vllm:prefix_cache_queries_total"); got != n*promptLen {
		t.Errorf("prefix_cache_queries_total = %v, want %v", got, n*promptLen)
	}
}
