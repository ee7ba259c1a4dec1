package protocol

// SchedulerStats is one step's snapshot, attached to one message per step.
//
// Gauges hold at the end of the step; everything named a delta
// counts since the previous message that carried stats. It is a map on the
// wire, always with all of vLLM's keys; foreign frontends ignore ours.
//
// Source: vllm/v1/metrics/stats.py, SchedulerStats.
type SchedulerStats struct {
	NumRunningReqs        int
	NumWaitingReqs        int // waiting for capacity
	NumSkippedWaitingReqs int // waiting for something else
	StepCounter           int // data parallel coordination; 0 otherwise
	CurrentWave           int
	KVCacheUsage          float64           // 0…1 of the usable blocks
	IterationDetails      *IterationDetails // with --enable-logging-iteration-details
	PrefixCacheStats      PrefixCacheStats
	// ConnectorPrefixCacheStats are those of a KV connector; nil without one.
	ConnectorPrefixCacheStats *PrefixCacheStats
	KVCacheEvictionEvents     []KVCacheEvictionEvent // with --kv-cache-metrics; deltas
	SpecDecodingStats         *SpecDecodingStats
	PerfStats                 *PerfStats // with --enable-mfu-metrics; deltas

	// Ours: keys that foreign frontends skip.
	Step StepStats
}

// PrefixCacheStats are deltas; Queries and Hits are tokens.
type PrefixCacheStats struct {
	Reset             bool
	Requests          int
	Queries           int
	Hits              int
	PreemptedRequests int
	PreemptedQueries  int
	PreemptedHits     int
	HitsBySource      HitsBySource // of a connector's Hits
}

// HitsBySource splits a KV connector's hits by the cache that held them.
//
// Source: vllm/v1/metrics/cache_hit_source.py.
type HitsBySource struct {
	Device, Host, P2P, Disk, ExternalUnspecified int // tokens
}

// KVCacheEvictionEvent is the life of one sampled KV block that lost what it
// held, in seconds.
//
// Source: vllm/v1/core/kv_cache_metrics.py.
type KVCacheEvictionEvent struct {
	Lifetime  float64   // since it was allocated
	Idle      float64   // since it was last used, or allocated
	ReuseGaps []float64 // between its latest uses, of which 4 are remembered
}

// PerfStats estimates what a step asked of one device.
//
// Source: vllm/v1/metrics/perf.py.
type PerfStats struct {
	NumFlops      int
	NumReadBytes  int
	NumWriteBytes int
}

// IterationDetails says what one step did, for the log.
//
// Source: vllm/v1/metrics/stats.py, SchedulerIterationDetails.
type IterationDetails struct {
	Index             int
	NumContextReqs    int // requests in prefill
	NumContextTokens  int
	NumGenerationReqs int
	NumGenTokens      int
	ElapsedMS         float64
	NumEncoderInputs  int
	NumEncoderTokens  int
	IsDummy           bool
}

// SpecDecodingStats are deltas of one step.
type SpecDecodingStats struct {
	NumSpecTokens           int
	NumDrafts               int
	NumDraftTokens          int
	NumAcceptedTokens       int
	NumAcceptedTokensPerPos []int
	NumDraftTokensPerPos    []int
}

// StepStats says what the step itself did, and what the engine has before it in
// tokens; key "govllm_step" on the wire.
type StepStats struct {
	Known    bool    // the engine tells of its steps; not on the wire
	Number   uint64  // steps since the engine started
	Duration float64 // seconds, Schedule to Update

	// Scheduled in this step. A decode computes one generated token, the last
	// known; everything else is prefill, recomputation included.
	NumPrefillTokens int
	NumPrefillReqs   int
	NumDecodeTokens  int
	NumDecodeReqs    int

	// Deltas.
	Preemptions   Preemptions
	NumRecomputed int // tokens computed again because of preemption

	// Gauges, in tokens.
	NumWaitingTokens  int // prompt and output so far of waiting requests
	NumUncachedTokens int // of those, what must really be computed: no prefix twice, none that is cached
	NumResidentTokens int // computed, in KV blocks in use, a shared block once
	NumPendingTokens  int // known, of running requests, still to be computed

	// What an engine says between steps, or during one that takes long: such
	// a message repeats the Number of the last completed step, and its deltas
	// are zero. Its gauges are those of the latest Schedule.
	Running    uint64  // number of the step under way; 0: none
	RunningFor float64 // seconds so far
	NumArrived int     // ADDs that have arrived and that no step has taken in
	Paused     bool    // by a utility call: work may wait without a step
}

// NumLoadTokens is the tokens in the KV cache and in the queue, what an
// autoscaler wants to know.
func (s *StepStats) NumLoadTokens() int {
	return s.NumResidentTokens + s.NumPendingTokens + s.NumUncachedTokens
}

// Preemptions counts running requests that lost their blocks, by reason.
type Preemptions struct {
	KVFull   int // no block was free, and the request was the last in line
	Priority int // a better request took the place
	Reset    int // the prefix cache was reset under it
}

// Sum is all of them.
func (p Preemptions) Sum() int { return p.KVFull + p.Priority + p.Reset }
