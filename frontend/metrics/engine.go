package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"

	"govllm/protocol"
	"govllm/stats"

	"github.com/prometheus/client_golang/prometheus"
)

// engine holds the series of one engine, looked up once.
type engine struct {
	rec      *Recorder
	families *families
	index    int
	label    string
	line     *stats.LogLine

	running, waiting, capacity, deferred, kvUsage prometheus.Gauge
	prefixQueries, prefixHits                     prometheus.Counter

	preemptions                                   prometheus.Counter
	promptTokens, promptCached, generationTokens  prometheus.Counter
	localCompute, localHit, externalTransfer      prometheus.Counter
	success                                       [protocol.FinishRepetition + 1]prometheus.Counter
	ttft, itl, iterationTokens                    prometheus.Observer
	tpot, e2e, queue, prefill, decode, inference  prometheus.Observer
	prompt, generation, maxTokens, computed       prometheus.Observer
	requestPreemptions, paramsN, maxNumGeneration prometheus.Observer
	preparation, delivery                         prometheus.Observer

	externalQueries, externalHits prometheus.Counter
	cached                        [5]prometheus.Counter // by source
	flops, readBytes, writeBytes  prometheus.Counter

	corrupted prometheus.Counter // nil: not exported
	residency *residency         // nil: not exported

	status status

	// The reader's alone: it is the only one with scheduler statistics. Scrapes
	// look at steps once reportsSteps is set.
	drafts *drafts
	steps  *steps

	// reportsSteps says that the engine counts preemptions itself, and so also
	// those whose event would come with a later output, or never.
	reportsSteps atomic.Bool
}

// drafts are the series of an engine that decodes speculatively.
type drafts struct {
	numDrafts, draftTokens, acceptedTokens prometheus.Counter
	perPosition                            []prometheus.Counter
}

// steps are the series of an engine that reports its steps.
type steps struct {
	latest                          uint64 // number of the step last recorded
	waitingTokens, uncachedTokens   prometheus.Gauge
	runningTokens, pendingTokens    prometheus.Gauge
	loadTokens                      prometheus.Gauge
	runningStep, notTakenIn         prometheus.Gauge
	kvFull, priority, reset         prometheus.Counter
	recomputed                      prometheus.Counter
	tokens, prefillTokens           prometheus.Observer
	decodeTokens                    prometheus.Observer
	prefillRequests, decodeRequests prometheus.Observer
	duration                        prometheus.Observer
}

func newEngine(rec *Recorder, f *families, c EngineConfig) *engine {
	label := strconv.Itoa(c.Index)
	e := &engine{
		rec: rec, families: f, index: c.Index, label: label,
		line: stats.NewLogLine(c.Index, rec.now()),

		running:       f.gauge(stats.NumRequestsRunning, label),
		waiting:       f.gauge(stats.NumRequestsWaiting, label),
		capacity:      f.gauge(stats.NumRequestsWaitingByReason, label, "capacity"),
		deferred:      f.gauge(stats.NumRequestsWaitingByReason, label, "deferred"),
		kvUsage:       f.gauge(stats.KVCacheUsage, label),
		prefixQueries: f.counter(stats.PrefixCacheQueries, label),
		prefixHits:    f.counter(stats.PrefixCacheHits, label),

		preemptions:      f.counter(stats.NumPreemptions, label),
		promptTokens:     f.counter(stats.PromptTokens, label),
		promptCached:     f.counter(stats.PromptTokensCached, label),
		generationTokens: f.counter(stats.GenerationTokens, label),
		localCompute:     f.counter(stats.PromptTokensBySource, label, "local_compute"),
		localHit:         f.counter(stats.PromptTokensBySource, label, "local_cache_hit"),
		externalTransfer: f.counter(stats.PromptTokensBySource, label, "external_kv_transfer"),

		externalQueries: f.counter(stats.ExternalPrefixCacheQueries, label),
		externalHits:    f.counter(stats.ExternalPrefixCacheHits, label),
		flops:           f.counter(stats.EstimatedFlops, label),
		readBytes:       f.counter(stats.EstimatedReadBytes, label),
		writeBytes:      f.counter(stats.EstimatedWriteBytes, label),

		ttft:               f.histogram(stats.TimeToFirstToken, label),
		itl:                f.histogram(stats.InterTokenLatency, label),
		iterationTokens:    f.histogram(stats.IterationTokens, label),
		tpot:               f.histogram(stats.RequestTimePerOutputToken, label),
		e2e:                f.histogram(stats.E2ERequestLatency, label),
		queue:              f.histogram(stats.RequestQueueTime, label),
		prefill:            f.histogram(stats.RequestPrefillTime, label),
		decode:             f.histogram(stats.RequestDecodeTime, label),
		inference:          f.histogram(stats.RequestInferenceTime, label),
		prompt:             f.histogram(stats.RequestPromptTokens, label),
		generation:         f.histogram(stats.RequestGenerationTokens, label),
		maxTokens:          f.histogram(stats.RequestParamsMaxTokens, label),
		computed:           f.histogram(stats.RequestPrefillKVComputedTokens, label),
		requestPreemptions: f.histogram(stats.RequestNumPreemptions, label),
		paramsN:            f.histogram(stats.RequestParamsN, label),
		maxNumGeneration:   f.histogram(stats.RequestMaxNumGenerationTokens, label),
		preparation:        f.histogram(stats.RequestPreparationTime, label),
		delivery:           f.histogram(stats.OutputDeliveryTime, label),

		status: newStatus(f, label),
	}
	for i, source := range [...]string{"device", "host", "p2p", "disk", "external_unspecified"} {
		e.cached[i] = f.counter(stats.PromptTokensCachedBySource, label, source)
	}
	if f.counters[stats.CorruptedRequests] != nil {
		e.corrupted = f.counter(stats.CorruptedRequests, label)
	}
	if f.histograms[stats.KVBlockLifetime] != nil {
		e.residency = &residency{
			lifetime: f.histogram(stats.KVBlockLifetime, label),
			idle:     f.histogram(stats.KVBlockIdleBeforeEvict, label),
			gap:      f.histogram(stats.KVBlockReuseGap, label),
		}
	}
	for _, reason := range protocol.FinishReasons {
		e.success[reason] = f.counter(stats.RequestSuccess, label, reason.String())
	}
	e.constants(c)
	return e
}

// constants makes the series that nothing moves: what the engine is, and what
// it has none of.
func (e *engine) constants(c EngineConfig) {
	prefixCaching := "None"
	if c.EnablePrefixCaching != nil {
		prefixCaching = map[bool]string{true: "True", false: "False"}[*c.EnablePrefixCaching]
	}
	e.families.gauge(stats.CacheConfigInfo, e.label, label(c.BlockSize), cmp.Or(c.CacheDType, "None"), prefixCaching,
		label(c.GPUMemoryUtilization), label(c.KVCacheMaxConcurrency), label(c.KVCacheSizeTokens), label(c.NumGPUBlocks)).Set(1)
	e.families.counter(stats.MMCacheQueries, e.label)
	e.families.counter(stats.MMCacheHits, e.label)
}

func (e *engine) record(s *protocol.SchedulerStats, it *stats.Iteration) {
	if s != nil {
		e.scheduler(s)
	}
	preemptions := it.NumPreemptions
	if e.reportsSteps.Load() {
		preemptions = 0
		if s != nil {
			preemptions = s.Step.Preemptions.Sum()
		}
	}
	e.rec.add(e.preemptions, preemptions)
	e.iteration(it)
	line := e.line
	if e.rec.aggregate != nil {
		line = e.rec.aggregate
	}
	line.Record(e.index, s, it, max(preemptions, 0))
	if s != nil && s.IterationDetails != nil {
		e.rec.log.Info(stats.IterationLine(e.index, s))
	}
}

func (e *engine) scheduler(s *protocol.SchedulerStats) {
	r := e.rec
	r.set(e.running, float64(s.NumRunningReqs))
	r.set(e.waiting, float64(s.NumWaitingReqs+s.NumSkippedWaitingReqs))
	r.set(e.capacity, float64(s.NumWaitingReqs))
	r.set(e.deferred, float64(s.NumSkippedWaitingReqs))
	r.set(e.kvUsage, s.KVCacheUsage)
	r.add(e.prefixQueries, s.PrefixCacheStats.Queries)
	r.add(e.prefixHits, s.PrefixCacheStats.Hits)
	r.add(e.cached[0], s.PrefixCacheStats.Hits)
	if c := s.ConnectorPrefixCacheStats; c != nil {
		r.add(e.externalQueries, c.Queries)
		r.add(e.externalHits, c.Hits)
		for i, n := range e.bySource(c) {
			r.add(e.cached[i], n)
		}
	}
	if p := s.PerfStats; p != nil {
		r.add(e.flops, p.NumFlops)
		r.add(e.readBytes, p.NumReadBytes)
		r.add(e.writeBytes, p.NumWriteBytes)
	}
	if e.residency != nil {
		e.residency.record(r, s.KVCacheEvictionEvents)
	}
	if s.SpecDecodingStats != nil {
		e.draft(s.SpecDecodingStats)
	}
	if s.Step.Known {
		e.step(&s.Step)
		e.reportsSteps.Store(true) // from here on, scrapes look at e.steps
	}
}

// bySource splits a connector's hits; older engines do not, and then they are
// of an unspecified source.
func (e *engine) bySource(c *protocol.PrefixCacheStats) [5]int {
	h := c.HitsBySource
	if h == (protocol.HitsBySource{}) {
		h.ExternalUnspecified = c.Hits
	}
	return [...]int{h.Device, h.Host, h.P2P, h.Disk, h.ExternalUnspecified}
}

// residency are the series of --kv-cache-metrics.
type residency struct{ lifetime, idle, gap prometheus.Observer }

func (t *residency) record(r *Recorder, events []protocol.KVCacheEvictionEvent) {
	for i := range events {
		r.observe(t.lifetime, events[i].Lifetime)
		r.observe(t.idle, events[i].Idle)
		for _, gap := range events[i].ReuseGaps {
			r.observe(t.gap, gap)
		}
	}
}

func (e *engine) draft(s *protocol.SpecDecodingStats) {
	if e.drafts == nil {
		e.drafts = &drafts{
			numDrafts:      e.families.counter(stats.SpecDecodeNumDrafts, e.label),
			draftTokens:    e.families.counter(stats.SpecDecodeNumDraftTokens, e.label),
			acceptedTokens: e.families.counter(stats.SpecDecodeNumAcceptedTokens, e.label),
		}
	}
	d := e.drafts
	for position := len(d.perPosition); position < stats.NumDraftPositions(s); position++ {
		d.perPosition = append(d.perPosition,
			e.families.counter(stats.SpecDecodeNumAcceptedTokensPerPos, e.label, strconv.Itoa(position)))
	}
	e.rec.add(d.numDrafts, s.NumDrafts)
	e.rec.add(d.draftTokens, s.NumDraftTokens)
	e.rec.add(d.acceptedTokens, s.NumAcceptedTokens)
	for position := range min(len(s.NumAcceptedTokensPerPos), len(d.perPosition)) {
		e.rec.add(d.perPosition[position], s.NumAcceptedTokensPerPos[position])
	}
}

// step records one step. A message that repeats the latest step's number (the
// engine is idle or still at it) brings gauges only, and so does a step that
// fed the model nothing, such as the one that flushes the last request.
func (e *engine) step(s *protocol.StepStats) {
	if e.steps == nil {
		f := e.families
		e.steps = &steps{
			waitingTokens:   f.gauge(stats.NumTokensWaiting, e.label),
			uncachedTokens:  f.gauge(stats.NumTokensWaitingUncached, e.label),
			runningTokens:   f.gauge(stats.NumTokensRunning, e.label),
			pendingTokens:   f.gauge(stats.NumTokensPending, e.label),
			loadTokens:      f.gauge(stats.NumTokensLoad, e.label),
			runningStep:     f.gauge(stats.EngineRunningStepTime, e.label),
			notTakenIn:      f.gauge(stats.RequestsNotTakenIn, e.label),
			kvFull:          f.counter(stats.NumPreemptionsByReason, e.label, "kv_full"),
			priority:        f.counter(stats.NumPreemptionsByReason, e.label, "priority"),
			reset:           f.counter(stats.NumPreemptionsByReason, e.label, "prefix_cache_reset"),
			recomputed:      f.counter(stats.NumTokensRecomputed, e.label),
			tokens:          f.histogram(stats.StepScheduledTokens, e.label),
			prefillTokens:   f.histogram(stats.StepPrefillTokens, e.label),
			decodeTokens:    f.histogram(stats.StepDecodeTokens, e.label),
			prefillRequests: f.histogram(stats.StepPrefillRequests, e.label),
			decodeRequests:  f.histogram(stats.StepDecodeRequests, e.label),
			duration:        f.histogram(stats.StepDuration, e.label),
		}
	}
	t, r := e.steps, e.rec
	t.gauges(r, s)
	r.add(t.kvFull, s.Preemptions.KVFull)
	r.add(t.priority, s.Preemptions.Priority)
	r.add(t.reset, s.Preemptions.Reset)
	r.add(t.recomputed, s.NumRecomputed)
	tokens := s.NumPrefillTokens + s.NumDecodeTokens
	if s.Number == t.latest || tokens == 0 {
		return
	}
	t.latest = s.Number
	r.observe(t.tokens, float64(tokens))
	r.observe(t.prefillTokens, float64(s.NumPrefillTokens))
	r.observe(t.decodeTokens, float64(s.NumDecodeTokens))
	r.observe(t.prefillRequests, float64(s.NumPrefillReqs))
	r.observe(t.decodeRequests, float64(s.NumDecodeReqs))
	r.observe(t.duration, s.Duration)
}

func (t *steps) gauges(r *Recorder, s *protocol.StepStats) {
	r.set(t.waitingTokens, float64(s.NumWaitingTokens))
	r.set(t.uncachedTokens, float64(s.NumUncachedTokens))
	r.set(t.runningTokens, float64(s.NumResidentTokens))
	r.set(t.pendingTokens, float64(s.NumPendingTokens))
	r.set(t.loadTokens, float64(s.NumLoadTokens()))
	r.set(t.runningStep, s.RunningFor) // goes on at each scrape, see show
	r.set(t.notTakenIn, float64(s.NumArrived))
}

func (e *engine) iteration(it *stats.Iteration) {
	r := e.rec
	r.add(e.promptTokens, it.NumPromptTokens)
	r.add(e.localCompute, it.NumComputedTokens)
	r.add(e.localHit, it.NumLocalCachedTokens)
	r.add(e.externalTransfer, it.NumExternalCachedTokens)
	r.add(e.promptCached, it.NumLocalCachedTokens+it.NumExternalCachedTokens)
	r.add(e.generationTokens, it.NumGenerationTokens)
	if it.NumOutputs > 0 {
		e.iterationTokens.Observe(float64(it.NumIterationTokens()))
	}
	for _, seconds := range it.TimeToFirstToken {
		e.ttft.Observe(seconds)
	}
	observeAll(e.itl, it.InterTokenLatency)
	for i := range it.Finished {
		e.finished(&it.Finished[i])
	}
	for _, p := range it.Parents {
		e.paramsN.Observe(float64(p.N))
		e.maxNumGeneration.Observe(float64(p.MaxNumGenerationTokens))
	}
}

func (e *engine) finished(f *stats.FinishedRequest) {
	if int(f.Reason) < len(e.success) && e.success[f.Reason] != nil {
		e.success[f.Reason].Inc()
	} else {
		e.rec.anomaly(stats.AnomalyUnknownReason, 1)
	}
	if f.Corrupted && e.corrupted != nil {
		e.corrupted.Inc()
	}
	e.e2e.Observe(f.E2ELatency)
	e.prompt.Observe(float64(f.NumPromptTokens))
	e.generation.Observe(float64(f.NumGenerationTokens))
	e.requestPreemptions.Observe(float64(f.NumPreemptions))
	if f.MaxTokens > 0 {
		e.maxTokens.Observe(float64(f.MaxTokens))
	}
	if f.PrefillKnown {
		e.rec.observe(e.computed, float64(f.NumPromptTokens-f.NumCachedTokens))
	}
	observe(e.queue, f.QueueTime)
	observe(e.prefill, f.PrefillTime)
	observe(e.decode, f.DecodeTime)
	observe(e.inference, f.InferenceTime)
	observe(e.tpot, f.TimePerOutputToken)
}

func observe(o prometheus.Observer, i stats.Interval) {
	if i.Known {
		o.Observe(i.Seconds)
	}
}

func sortedKeys[V any](m map[int]V) []int { return slices.Sorted(maps.Keys(m)) }
