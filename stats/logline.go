package stats

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"govllm/protocol"
)

// LogLine gathers what the periodic line of one engine says. Safe for
// concurrent use.
//
// Source: vllm/v1/metrics/loggers.py, LoggingStatLogger; unlike there,
// preemptions are printed, and an engine that has requests but moves none is
// not called idle.
type LogLine struct {
	engine int

	mu                sync.Mutex
	since             time.Time
	numComputedTokens int // prompt tokens, cached ones excluded
	numGenerated      int
	numPreemptions    int
	latest            protocol.SchedulerStats // only its gauges are read
	prefix            HitRate
	wasIdle           bool
}

// NewLogLine starts the first interval at now.
func NewLogLine(engine int, now time.Time) *LogLine {
	return &LogLine{engine: engine, since: now, wasIdle: true, prefix: HitRate{window: hitRateWindow}}
}

// Record takes one message in; s may be nil. numPreemptions is what the
// message adds to the preemption counter.
func (l *LogLine) Record(s *protocol.SchedulerStats, it *Iteration, numPreemptions int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.numComputedTokens += it.NumComputedTokens
	l.numGenerated += it.NumGenerationTokens
	l.numPreemptions += numPreemptions
	if s != nil {
		l.latest.NumRunningReqs = s.NumRunningReqs
		l.latest.NumWaitingReqs = s.NumWaitingReqs
		l.latest.NumSkippedWaitingReqs = s.NumSkippedWaitingReqs
		l.latest.KVCacheUsage = s.KVCacheUsage
		l.prefix.Add(s.PrefixCacheStats)
	}
}

// Next ends the interval and returns its line. idle says that neither this
// interval nor the one before had anything to tell.
func (l *LogLine) Next(now time.Time) (line string, idle bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line = l.format(now.Sub(l.since))
	isIdle := l.numComputedTokens == 0 && l.numGenerated == 0 &&
		l.latest.NumRunningReqs+l.latest.NumWaitingReqs+l.latest.NumSkippedWaitingReqs == 0
	idle = isIdle && l.wasIdle
	l.since, l.wasIdle = now, isIdle
	l.numComputedTokens, l.numGenerated, l.numPreemptions = 0, 0, 0
	return line, idle
}

func (l *LogLine) format(elapsed time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Engine %03d: Avg prompt throughput: %.1f tokens/s, Avg generation throughput: %.1f tokens/s",
		l.engine, rate(l.numComputedTokens, elapsed), rate(l.numGenerated, elapsed))
	fmt.Fprintf(&b, ", Running: %d reqs, Waiting: %d reqs", l.latest.NumRunningReqs, l.latest.NumWaitingReqs)
	if n := l.latest.NumSkippedWaitingReqs; n > 0 {
		fmt.Fprintf(&b, ", Deferred: %d reqs", n)
	}
	if l.numPreemptions > 0 {
		fmt.Fprintf(&b, ", Preemptions: %d", l.numPreemptions)
	}
	fmt.Fprintf(&b, ", GPU KV cache usage: %.1f%%, Prefix cache hit rate: %.1f%%",
		100*l.latest.KVCacheUsage, 100*l.prefix.Rate())
	return b.String()
}

func rate(n int, elapsed time.Duration) float64 {
	if elapsed <= 0 {
		return 0
	}
	return float64(n) / elapsed.Seconds()
}

// hitRateWindow is how many requests the log line's hit rate looks back.
const hitRateWindow = 1000

// HitRate is the prefix cache's hit rate over the latest requests, about
// window of them: it drops whole reports from the far end.
//
// Source: vllm/v1/metrics/stats.py, CachingMetrics.
type HitRate struct {
	window                  int
	reports                 []protocol.PrefixCacheStats // oldest first
	requests, queries, hits int
}

// Add takes one report in; a reset forgets the ones before it.
func (h *HitRate) Add(p protocol.PrefixCacheStats) {
	if p.Reset {
		*h = HitRate{window: h.window, reports: h.reports[:0]}
	}
	if p.Requests <= 0 {
		return
	}
	h.reports = append(h.reports, p)
	h.count(p, 1)
	for len(h.reports) > 1 && h.requests > h.window {
		h.count(h.reports[0], -1)
		h.reports = h.reports[1:]
	}
}

func (h *HitRate) count(p protocol.PrefixCacheStats, sign int) {
	h.requests += sign * p.Requests
	h.queries += sign * p.Queries
	h.hits += sign * p.Hits
}

// Rate is hits per query, both in tokens: 0…1, and 0 without queries.
func (h *HitRate) Rate() float64 {
	if h.queries <= 0 {
		return 0
	}
	return float64(h.hits) / float64(h.queries)
}
