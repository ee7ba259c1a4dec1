package stats

import (
	"testing"
	"time"

	"govllm/protocol"
)

func TestLogLine(t *testing.T) {
	const idle = "Engine 003: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, " +
		"Running: 0 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%, Prefix cache hit rate: 0.0%"
	now := time.Unix(1000, 0)
	l := NewLogLine(3, now)

	steps := []struct {
		name   string
		record func()
		want   string
		idle   bool
	}{
		{"nothing yet", func() {}, idle, true},
		{"busy", func() {
			// Cached prompt tokens are not throughput.
			it := &Iteration{NumPromptTokens: 500, NumComputedTokens: 200, NumLocalCachedTokens: 300, NumGenerationTokens: 55}
			l.Record(&protocol.SchedulerStats{NumRunningReqs: 2, NumWaitingReqs: 3, KVCacheUsage: 0.1234,
				PrefixCacheStats: protocol.PrefixCacheStats{Requests: 1, Queries: 500, Hits: 300}}, it, 0)
			l.Record(nil, &Iteration{NumGenerationTokens: 10}, 0)
		}, "Engine 003: Avg prompt throughput: 20.0 tokens/s, Avg generation throughput: 6.5 tokens/s, " +
			"Running: 2 reqs, Waiting: 3 reqs, GPU KV cache usage: 12.3%, Prefix cache hit rate: 60.0%", false},
		{"preempting, with deferred requests", func() {
			l.Record(&protocol.SchedulerStats{NumRunningReqs: 1, NumSkippedWaitingReqs: 4, KVCacheUsage: 1}, &Iteration{}, 2)
		}, "Engine 003: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, " +
			"Running: 1 reqs, Waiting: 0 reqs, Deferred: 4 reqs, Preemptions: 2, GPU KV cache usage: 100.0%, Prefix cache hit rate: 60.0%", false},
		{"stuck is not idle", func() {},
			"Engine 003: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, " +
				"Running: 1 reqs, Waiting: 0 reqs, Deferred: 4 reqs, GPU KV cache usage: 100.0%, Prefix cache hit rate: 60.0%", false},
		{"done; the interval before was not idle", func() {
			l.Record(&protocol.SchedulerStats{PrefixCacheStats: protocol.PrefixCacheStats{Reset: true}}, &Iteration{}, 0)
		}, idle, false},
		{"idle", func() {}, idle, true},
	}
	for _, s := range steps {
		s.record()
		now = now.Add(10 * time.Second)
		if line, idle := l.Next(now); line != s.want || idle != s.idle {
			t.Errorf("%s: Next = %q, %v\nwant %q, %v", s.name, line, idle, s.want, s.idle)
		}
	}
}

func TestHitRate(t *testing.T) {
	report := func(requests, queries, hits int) protocol.PrefixCacheStats {
		return protocol.PrefixCacheStats{Requests: requests, Queries: queries, Hits: hits}
	}
	for _, tt := range []struct {
		name    string
		reports []protocol.PrefixCacheStats
		want    float64
	}{
		{"no requests", nil, 0},
		{"no queries", []protocol.PrefixCacheStats{report(1, 0, 0)}, 0},
		{"all remembered", []protocol.PrefixCacheStats{report(4, 100, 50), report(6, 100, 0)}, 0.25},
		{"the oldest report leaves", []protocol.PrefixCacheStats{report(4, 100, 100), report(6, 100, 0), report(1, 100, 50)}, 0.25},
		{"the latest stays, however large", []protocol.PrefixCacheStats{report(4, 100, 100), report(50, 100, 30)}, 0.3},
		{"steps without requests change nothing", []protocol.PrefixCacheStats{report(10, 100, 50), report(0, 0, 0)}, 0.5},
		{"reset forgets", []protocol.PrefixCacheStats{report(1, 100, 100), {Reset: true, Requests: 1, Queries: 10, Hits: 1}}, 0.1},
	} {
		h := HitRate{window: 10}
		for _, r := range tt.reports {
			h.Add(r)
		}
		if got := h.Rate(); got != tt.want {
			t.Errorf("%s: Rate() = %v, want %v", tt.name, got, tt.want)
		}
	}
}
