package protocol

// SchedulerStats is one step's snapshot, attached to one message per step.
//
// Gauges hold at the end of the step's Schedule; everything named a delta
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

// StepStats says what the step itself did; key "govllm_step" on the wire.
type StepStats struct {
	Number            uint64  // steps since the engine started
	Duration          float64 // seconds, Schedule to Update
	NumPrefillTokens  int     // scheduled in this step
	NumPrefillReqs    int
	NumDecodeTokens   int
	NumDecodeReqs     int
	NumPreemptions    int // delta
	NumRecomputed     int // delta: tokens computed again because of preemption
	NumWaitingTokens  int // gauge: tokens of waiting requests
	NumResidentTokens int // gauge: tokens in KV blocks in use
}
