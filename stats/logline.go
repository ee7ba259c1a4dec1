package stats

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"govllm/protocol"
)

// LogLine gathers what the periodic line of one engine, or of all together,
// says. Safe for concurrent use.
//
// Source: vllm/v1/metrics/loggers.py, LoggingStatLogger; unlike there,
// preemptions are printed, and an engine that has requests but moves none is
// not called idle.
type LogLine struct {
	prefix    string
	aggregate bool

	mu                sync.Mutex
	since             time.Time
	numComputedTokens int // prompt tokens, cached ones excluded
	numGenerated      int
	numPreemptions    int
	numCorrupted      int
	gauges            map[int]logGauges // by engine
	hits              HitRate
	externalHits      HitRate
	drafts            protocol.SpecDecodingStats
	perf              protocol.PerfStats
	wasIdle           bool
}

// logGauges are the latest of one engine.
type logGauges struct {
	running, waiting, deferred int
	kvUsage                    float64
}

// NewLogLine starts the first interval of one engine's line at now.
func NewLogLine(engine int, now time.Time) *LogLine {
	return newLogLine(enginePrefix(engine), false, []int{engine}, now)
}

// NewAggregateLogLine is NewLogLine for all engines in one line: sums, and the
// mean of KV usage.
func NewAggregateLogLine(engines []int, now time.Time) *LogLine {
	return newLogLine(fmt.Sprintf("%d Engines Aggregated: ", len(engines)), true, engines, now)
}

func newLogLine(prefix string, aggregate bool, engines []int, now time.Time) *LogLine {
	l := &LogLine{prefix: prefix, aggregate: aggregate, since: now, wasIdle: true, gauges: make(map[int]logGauges),
		hits: HitRate{window: hitRateWindow}, externalHits: HitRate{window: hitRateWindow}}
	for _, e := range engines {
		l.gauges[e] = logGauges{}
	}
	return l
}

func enginePrefix(engine int) string { return fmt.Sprintf("Engine %03d: ", engine) }

// Record takes one message of an engine in; s may be nil. numPreemptions is
// what the message adds to the preemption counter.
func (l *LogLine) Record(engine int, s *protocol.SchedulerStats, it *Iteration, numPreemptions int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.numComputedTokens += it.NumComputedTokens
	l.numGenerated += it.NumGenerationTokens
	l.numPreemptions += numPreemptions
	for i := range it.Finished {
		if it.Finished[i].Corrupted {
			l.numCorrupted++
		}
	}
	if s != nil {
		l.scheduler(engine, s)
	}
}

func (l *LogLine) scheduler(engine int, s *protocol.SchedulerStats) {
	l.gauges[engine] = logGauges{s.NumRunningReqs, s.NumWaitingReqs + s.NumSkippedWaitingReqs, s.NumSkippedWaitingReqs, s.KVCacheUsage}
	l.hits.Add(s.PrefixCacheStats)
	if c := s.ConnectorPrefixCacheStats; c != nil {
		l.externalHits.Add(*c)
	}
	if d := s.SpecDecodingStats; d != nil {
		l.draft(d)
	}
	if p := s.PerfStats; p != nil {
		l.perf.NumFlops += p.NumFlops
		l.perf.NumReadBytes += p.NumReadBytes
		l.perf.NumWriteBytes += p.NumWriteBytes
	}
}

func (l *LogLine) draft(d *protocol.SpecDecodingStats) {
	l.drafts.NumDrafts += d.NumDrafts
	l.drafts.NumDraftTokens += d.NumDraftTokens
	l.drafts.NumAcceptedTokens += d.NumAcceptedTokens
	perPos := &l.drafts.NumAcceptedTokensPerPos
	for len(*perPos) < NumDraftPositions(d) {
		*perPos = append(*perPos, 0)
	}
	for position := range min(len(d.NumAcceptedTokensPerPos), len(*perPos)) {
		(*perPos)[position] += d.NumAcceptedTokensPerPos[position]
	}
}

// maxDraftPositions bounds what a broken number of an engine may cost.
const maxDraftPositions = 256

// NumDraftPositions is how many positions a draft has, as far as d tells.
func NumDraftPositions(d *protocol.SpecDecodingStats) int {
	return min(max(d.NumSpecTokens, len(d.NumAcceptedTokensPerPos)), maxDraftPositions)
}

// Next ends the interval and returns its line, and further ones about drafts
// and estimated work where there were any. idle says that neither this
// interval nor the one before had anything to tell.
func (l *LogLine) Next(now time.Time) (lines []string, idle bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	elapsed, sum := now.Sub(l.since), l.sum()
	lines = append(lines, l.format(elapsed, sum))
	if l.drafts.NumDrafts > 0 {
		lines = append(lines, l.formatDrafts(elapsed))
	}
	if !l.aggregate && l.perf != (protocol.PerfStats{}) {
		lines = append(lines, fmt.Sprintf("%sMFU: %.1f TF/s/device %.1f GB/s/device", l.prefix,
			rate(l.perf.NumFlops, elapsed)/1e12, rate(l.perf.NumReadBytes+l.perf.NumWriteBytes, elapsed)/1e9))
	}
	isIdle := l.numComputedTokens == 0 && l.numGenerated == 0 && sum.running+sum.waiting == 0
	idle = isIdle && l.wasIdle
	l.since, l.wasIdle = now, isIdle
	l.numComputedTokens, l.numGenerated, l.numPreemptions, l.numCorrupted = 0, 0, 0, 0
	l.drafts, l.perf = protocol.SpecDecodingStats{}, protocol.PerfStats{}
	return lines, idle
}

// sum is of all engines, KV usage their mean.
func (l *LogLine) sum() (sum logGauges) {
	for _, g := range l.gauges {
		sum.running += g.running
		sum.waiting += g.waiting
		sum.deferred += g.deferred
		sum.kvUsage += g.kvUsage / float64(len(l.gauges))
	}
	return sum
}

func (l *LogLine) format(elapsed time.Duration, g logGauges) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%sAvg prompt throughput: %.1f tokens/s, Avg generation throughput: %.1f tokens/s",
		l.prefix, rate(l.numComputedTokens, elapsed), rate(l.numGenerated, elapsed))
	fmt.Fprintf(&b, ", Running: %d reqs, Waiting: %d reqs", g.running, g.waiting)
	if g.deferred > 0 {
		fmt.Fprintf(&b, ", Deferred: %d reqs", g.deferred)
	}
	if l.numPreemptions > 0 {
		fmt.Fprintf(&b, ", Preemptions: %d", l.numPreemptions)
	}
	fmt.Fprintf(&b, ", GPU KV cache usage: %.1f%%, Prefix cache hit rate: %.1f%%", 100*g.kvUsage, 100*l.hits.Rate())
	if l.numCorrupted > 0 {
		fmt.Fprintf(&b, ", Corrupted: %d reqs", l.numCorrupted)
	}
	if l.externalHits.requests > 0 {
		fmt.Fprintf(&b, ", External prefix cache hit rate: %.1f%%", 100*l.externalHits.Rate())
	}
	return b.String()
}

// formatDrafts is about speculative decoding. The mean acceptance length
// counts the model's own token.
//
// Source: vllm/v1/spec_decode/metrics.py, SpecDecodingLogging.
func (l *LogLine) formatDrafts(elapsed time.Duration) string {
	d := &l.drafts
	perDraft := func(n int) float64 { return float64(n) / float64(d.NumDrafts) }
	var rates []string
	for _, n := range d.NumAcceptedTokensPerPos {
		rates = append(rates, fmt.Sprintf("%.3f", perDraft(n)))
	}
	acceptance := math.NaN()
	if d.NumDraftTokens > 0 {
		acceptance = 100 * float64(d.NumAcceptedTokens) / float64(d.NumDraftTokens)
	}
	return fmt.Sprintf("SpecDecoding metrics: Mean acceptance length: %.2f, Accepted throughput: %.2f tokens/s, "+
		"Drafted throughput: %.2f tokens/s, Accepted: %d tokens, Drafted: %d tokens, "+
		"Per-position acceptance rate: %s, Avg Draft acceptance rate: %.1f%%",
		1+perDraft(d.NumAcceptedTokens), rate(d.NumAcceptedTokens, elapsed), rate(d.NumDraftTokens, elapsed),
		d.NumAcceptedTokens, d.NumDraftTokens, strings.Join(rates, ", "), acceptance)
}

// IterationLine is the line of one step, with --enable-logging-iteration-details
// of the engine.
func IterationLine(engine int, s *protocol.SchedulerStats) string {
	d := s.IterationDetails
	dummy, encoder := "", ""
	if d.IsDummy {
		dummy = " (dummy)"
	}
	if d.NumEncoderInputs > 0 {
		encoder = fmt.Sprintf(", encoder inputs: %d, encoder output embeddings: %d", d.NumEncoderInputs, d.NumEncoderTokens)
	}
	return fmt.Sprintf("%sIteration(%d): %d context requests, %d context tokens, %d generation requests, %d generation tokens, "+
		"iteration elapsed time: %.2f ms%s, GPU KV cache usage: %.1f%%%s", enginePrefix(engine), d.Index,
		d.NumContextReqs, d.NumContextTokens, d.NumGenerationReqs, d.NumGenTokens, d.ElapsedMS, dummy, 100*s.KVCacheUsage, encoder)
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
