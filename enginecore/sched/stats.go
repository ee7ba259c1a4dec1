package sched

import "govllm/protocol"

// PreemptionReason says why a running request lost its blocks.
type PreemptionReason int

const (
	// KVFull: no block was free, and the request was the last in line.
	KVFull PreemptionReason = iota
	// ByPriority: a request with a better priority value needed its blocks.
	ByPriority
	// ByReset: reset_prefix_cache was told to empty the pool.
	ByReset

	numPreemptionReasons
)

// PreemptionReasons lists the reasons in order of their values.
var PreemptionReasons = [...]PreemptionReason{KVFull, ByPriority, ByReset}

func (r PreemptionReason) String() string {
	switch r {
	case KVFull:
		return "kv_full"
	case ByPriority:
		return "priority"
	case ByReset:
		return "reset"
	}
	return "invalid"
}

// Stats is what the scheduler knows of itself, all of it kept up as things
// happen: reading it walks nothing.
type Stats struct {
	Gauges
	Deltas
}

// Gauges hold at the end of a step.
type Gauges struct {
	NumRunning  int
	NumWaiting  int // queued for capacity
	NumDeferred int // waiting for something else

	KVUsage float64 // used share of the usable blocks, 0 to 1

	WaitingTokens  int // Σ n over waiting and deferred requests, n = prompt + output so far
	UncachedTokens int // what the device must really compute for them
	ResidentTokens int // computed tokens in used blocks, a shared block once
	PendingTokens  int // known tokens that running requests must still compute
}

// LoadTokens is the tokens in the KV cache and the tokens in the queue: what an
// autoscaler wants to know.
func (g *Gauges) LoadTokens() int {
	return g.ResidentTokens + g.PendingTokens + g.UncachedTokens
}

// Deltas count since they were last taken.
type Deltas struct {
	PrefixCache protocol.PrefixCacheStats
	Evictions   []protocol.KVCacheEvictionEvent // of sampled blocks

	Preemptions      [numPreemptionReasons]int
	RecomputedTokens int // scheduled again because a preemption threw them away

	// Scheduled work. A decode computes one generated token, the last known;
	// everything else is prefill, recomputation included.
	PrefillTokens, PrefillReqs int
	DecodeTokens, DecodeReqs   int
}

// TakeStats returns the gauges and hands over the deltas, which start at zero.
func (s *Scheduler) TakeStats() Stats {
	stats := Stats{Gauges: s.Gauges(), Deltas: s.deltas}
	stats.Evictions = s.cache.TakeEvictions()
	s.deltas = Deltas{}
	s.changed = false
	return stats
}

// Changed reports whether there is anything to tell since TakeStats.
func (s *Scheduler) Changed() bool { return s.changed }

// Gauges returns the gauges as they are now.
func (s *Scheduler) Gauges() Gauges {
	return Gauges{
		NumRunning:     s.numRunning,
		NumWaiting:     s.waiting.Len() + s.released.Len(),
		NumDeferred:    s.numDeferred,
		KVUsage:        s.cache.Pool().Usage(),
		WaitingTokens:  s.cache.NumQueuedTokens(),
		UncachedTokens: s.cache.NumUncachedTokens(),
		ResidentTokens: s.cache.NumResidentTokens(),
		PendingTokens:  s.pendingTokens,
	}
}
