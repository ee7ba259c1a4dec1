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
	KVCacheUsage          float64 // 0…1 of the usable blocks
	PrefixCacheStats      PrefixCacheStats
	SpecDecodingStats     *SpecDecodingStats

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
