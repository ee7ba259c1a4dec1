package stats

import (
	"slices"
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
			l.Record(3, &protocol.SchedulerStats{NumRunningReqs: 2, NumWaitingReqs: 3, KVCacheUsage: 0.1234,
				PrefixCacheStats: protocol.PrefixCacheStats{Requests: 1, Queries: 500, Hits: 300}}, it, 0)
			l.Record(3, nil, &Iteration{NumGenerationTokens: 10}, 0)
		}, "Engine 003: Avg prompt throughput: 20.0 tokens/s, Avg generation throughput: 6.5 tokens/s, " +
			"Running: 2 reqs, Waiting: 3 reqs, GPU KV cache usage: 12.3%, Prefix cache hit rate: 60.0%", false},
		{"preempting, with deferred requests", func() {
			l.Record(3, &protocol.SchedulerStats{NumRunningReqs: 1, NumSkippedWaitingReqs: 4, KVCacheUsage: 1}, &Iteration{}, 2)
		}, "Engine 003: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, " +
			"Running: 1 reqs, Waiting: 4 reqs, Deferred: 4 reqs, Preemptions: 2, GPU KV cache usage: 100.0%, Prefix cache hit rate: 60.0%", false},
		{"stuck is not idle", func() {},
			"Engine 003: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, " +
				"Running: 1 reqs, Waiting: 4 reqs, Deferred: 4 reqs, GPU KV cache usage: 100.0%, Prefix cache hit rate: 60.0%", false},
		{"done; the interval before was not idle", func() {
			l.Record(3, &protocol.SchedulerStats{PrefixCacheStats: protocol.PrefixCacheStats{Reset: true}}, &Iteration{}, 0)
		}, idle, false},
		{"idle", func() {}, idle, true},
	}
	for _, s := range steps {
		s.record()
		now = now.Add(10 * time.Second)
		if lines, idle := l.Next(now); len(lines) != 1 || lines[0] != s.want || idle != s.idle {
			t.Errorf("%s: Next = %q, %v\nwant %q, %v", s.name, lines, idle, s.want, s.idle)
		}
	}
}

// Five drafts of three tokens, nine accepted as [5 3 1]; estimates of work; a
// connector's cache; NaNs.
func TestLogLineExtras(t *testing.T) {
	now := time.Unix(1000, 0)
	l := NewLogLine(0, now)
	l.Record(0, &protocol.SchedulerStats{
		SpecDecodingStats: &protocol.SpecDecodingStats{NumSpecTokens: 3, NumDrafts: 2, NumDraftTokens: 6, NumAcceptedTokens: 4,
			NumAcceptedTokensPerPos: []int{2, 1, 1}},
		PerfStats:                 &protocol.PerfStats{NumFlops: 5e12, NumReadBytes: 3e9, NumWriteBytes: 1e9},
		ConnectorPrefixCacheStats: &protocol.PrefixCacheStats{Requests: 1, Queries: 8, Hits: 2},
	}, &Iteration{Finished: []FinishedRequest{{Corrupted: true}, {}}}, 0)
	l.Record(0, &protocol.SchedulerStats{
		SpecDecodingStats: &protocol.SpecDecodingStats{NumSpecTokens: 3, NumDrafts: 3, NumDraftTokens: 9, NumAcceptedTokens: 5,
			NumAcceptedTokensPerPos: []int{3, 2, 0}},
	}, &Iteration{}, 0)
	want := []string{
		"Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 0 reqs, Waiting: 0 reqs, " +
			"GPU KV cache usage: 0.0%, Prefix cache hit rate: 0.0%, Corrupted: 1 reqs, External prefix cache hit rate: 25.0%",
		"SpecDecoding metrics: Mean acceptance length: 2.80, Accepted throughput: 0.90 tokens/s, Drafted throughput: 1.50 tokens/s, " +
			"Accepted: 9 tokens, Drafted: 15 tokens, Per-position acceptance rate: 1.000, 0.600, 0.200, Avg Draft acceptance rate: 60.0%",
		"Engine 000: MFU: 0.5 TF/s/device 0.4 GB/s/device",
	}
	if lines, _ := l.Next(now.Add(10 * time.Second)); !slices.Equal(lines, want) {
		t.Errorf("Next = %q\nwant %q", lines, want)
	}
	if lines, _ := l.Next(now.Add(20 * time.Second)); len(lines) != 1 {
		t.Errorf("Next of an interval without drafts = %q, want one line", lines)
	}
}

func TestAggregateLogLine(t *testing.T) {
	now := time.Unix(1000, 0)
	l := NewAggregateLogLine([]int{0, 1}, now)
	l.Record(0, &protocol.SchedulerStats{NumRunningReqs: 2, NumWaitingReqs: 1, KVCacheUsage: 0.5}, &Iteration{NumGenerationTokens: 20}, 1)
	l.Record(1, &protocol.SchedulerStats{NumRunningReqs: 3, NumSkippedWaitingReqs: 4, KVCacheUsage: 0.25}, &Iteration{NumGenerationTokens: 10}, 1)
	const want = "2 Engines Aggregated: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 3.0 tokens/s, " +
		"Running: 5 reqs, Waiting: 5 reqs, Deferred: 4 reqs, Preemptions: 2, GPU KV cache usage: 37.5%, Prefix cache hit rate: 0.0%"
	if lines, idle := l.Next(now.Add(10 * time.Second)); len(lines) != 1 || lines[0] != want || idle {
		t.Errorf("Next = %q, %v\nwant %q", lines, idle, want)
	}
}

func TestIterationLine(t *testing.T) {
	s := &protocol.SchedulerStats{KVCacheUsage: 0.125, IterationDetails: &protocol.IterationDetails{Index: 7, NumContextReqs: 1,
		NumContextTokens: 100, NumGenerationReqs: 3, NumGenTokens: 3, ElapsedMS: 12.345}}
	const want = "Engine 001: Iteration(7): 1 context requests, 100 context tokens, 3 generation requests, 3 generation tokens, " +
		"iteration elapsed time: 12.35 ms, GPU KV cache usage: 12.5%"
	if got := IterationLine(1, s); got != want {
		t.Errorf("IterationLine = %q, want %q", got, want)
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
