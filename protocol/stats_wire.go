package protocol

import "math"

// appendSchedulerStats writes every key of vLLM's dataclass, for foreign
// frontends refuse a map that lacks one, and then ours.
func appendSchedulerStats(b []byte, s *SchedulerStats) []byte {
	b = appendMapLen(b, 19)
	b = appendInt(appendStr(b, "num_running_reqs"), int64(s.NumRunningReqs))
	b = appendInt(appendStr(b, "num_waiting_reqs"), int64(s.NumWaitingReqs))
	b = appendInt(appendStr(b, "num_skipped_waiting_reqs"), int64(s.NumSkippedWaitingReqs))
	b = appendMapLen(appendStr(b, "num_kv_fetch_reqs_by_stage"), 0)
	b = appendInt(appendStr(b, "step_counter"), int64(s.StepCounter))
	b = appendInt(appendStr(b, "current_wave"), int64(s.CurrentWave))
	b = appendFloat(appendStr(b, "kv_cache_usage"), s.KVCacheUsage)
	b = appendNil(appendStr(b, "iteration_details"))
	b = appendPrefixCacheStats(appendStr(b, "prefix_cache_stats"), &s.PrefixCacheStats)
	b = appendNil(appendStr(b, "connector_prefix_cache_stats"))
	b = appendArrayLen(appendStr(b, "kv_cache_eviction_events"), 0)
	b = appendSpecDecodingStats(appendStr(b, "spec_decoding_stats"), s.SpecDecodingStats)
	b = appendNil(appendStr(b, "kv_connector_stats"))
	b = appendNil(appendStr(b, "ec_connector_stats"))
	b = appendMapLen(appendStr(b, "waiting_lora_adapters"), 0)
	b = appendMapLen(appendStr(b, "running_lora_adapters"), 0)
	b = appendNil(appendStr(b, "cudagraph_stats"))
	b = appendNil(appendStr(b, "perf_stats"))
	return appendStepStats(appendStr(b, "govllm_step"), &s.Step)
}

func appendPrefixCacheStats(b []byte, p *PrefixCacheStats) []byte {
	b = appendMapLen(b, 8)
	b = appendBool(appendStr(b, "reset"), p.Reset)
	b = appendInt(appendStr(b, "requests"), int64(p.Requests))
	b = appendInt(appendStr(b, "queries"), int64(p.Queries))
	b = appendInt(appendStr(b, "hits"), int64(p.Hits))
	b = appendInt(appendStr(b, "preempted_requests"), int64(p.PreemptedRequests))
	b = appendInt(appendStr(b, "preempted_queries"), int64(p.PreemptedQueries))
	b = appendInt(appendStr(b, "preempted_hits"), int64(p.PreemptedHits))
	return appendMapLen(appendStr(b, "hits_by_source"), 0)
}

func appendSpecDecodingStats(b []byte, s *SpecDecodingStats) []byte {
	if s == nil {
		return appendNil(b)
	}
	b = appendMapLen(b, 6)
	b = appendInt(appendStr(b, "num_spec_tokens"), int64(s.NumSpecTokens))
	b = appendInt(appendStr(b, "num_drafts"), int64(s.NumDrafts))
	b = appendInt(appendStr(b, "num_draft_tokens"), int64(s.NumDraftTokens))
	b = appendInt(appendStr(b, "num_accepted_tokens"), int64(s.NumAcceptedTokens))
	b = appendInts(appendStr(b, "num_accepted_tokens_per_pos"), s.NumAcceptedTokensPerPos)
	return appendInts(appendStr(b, "num_draft_tokens_per_pos"), s.NumDraftTokensPerPos)
}

// appendStepStats writes an array, one element per field of StepStats in order.
func appendStepStats(b []byte, s *StepStats) []byte {
	b = appendArrayLen(b, 14)
	b = appendUint(b, s.Number)
	b = appendFloat(b, s.Duration)
	b = appendInt(b, int64(s.NumPrefillTokens))
	b = appendInt(b, int64(s.NumPrefillReqs))
	b = appendInt(b, int64(s.NumDecodeTokens))
	b = appendInt(b, int64(s.NumDecodeReqs))
	b = appendInt(b, int64(s.Preemptions.KVFull))
	b = appendInt(b, int64(s.Preemptions.Priority))
	b = appendInt(b, int64(s.Preemptions.Reset))
	b = appendInt(b, int64(s.NumRecomputed))
	b = appendInt(b, int64(s.NumWaitingTokens))
	b = appendInt(b, int64(s.NumUncachedTokens))
	b = appendInt(b, int64(s.NumResidentTokens))
	return appendInt(b, int64(s.NumPendingTokens))
}

// schedulerStats reads into s; spec is where the spec decoding part goes.
func (r *reader) schedulerStats(s *SchedulerStats, spec *SpecDecodingStats) {
	*s = SchedulerStats{}
	r.eachKey(func(key string) bool {
		switch key {
		case "num_running_reqs":
			s.NumRunningReqs = r.int()
		case "num_waiting_reqs":
			s.NumWaitingReqs = r.int()
		case "num_skipped_waiting_reqs":
			s.NumSkippedWaitingReqs = r.int()
		case "step_counter":
			s.StepCounter = r.int()
		case "current_wave":
			s.CurrentWave = r.int()
		case "kv_cache_usage":
			s.KVCacheUsage = r.float()
		case "prefix_cache_stats":
			if !r.null() {
				r.prefixCacheStats(&s.PrefixCacheStats)
			}
		case "spec_decoding_stats":
			if !r.null() {
				s.SpecDecodingStats = spec
				r.specDecodingStats(spec)
			}
		case "govllm_step":
			r.stepStats(&s.Step)
		default:
			return false
		}
		return true
	})
}

func (r *reader) prefixCacheStats(p *PrefixCacheStats) {
	r.eachKey(func(key string) bool {
		switch key {
		case "reset":
			p.Reset = r.bool()
		case "requests":
			p.Requests = r.int()
		case "queries":
			p.Queries = r.int()
		case "hits":
			p.Hits = r.int()
		case "preempted_requests":
			p.PreemptedRequests = r.int()
		case "preempted_queries":
			p.PreemptedQueries = r.int()
		case "preempted_hits":
			p.PreemptedHits = r.int()
		default:
			return false
		}
		return true
	})
}

func (r *reader) specDecodingStats(s *SpecDecodingStats) {
	*s = SpecDecodingStats{
		NumAcceptedTokensPerPos: s.NumAcceptedTokensPerPos[:0],
		NumDraftTokensPerPos:    s.NumDraftTokensPerPos[:0],
	}
	r.eachKey(func(key string) bool {
		switch key {
		case "num_spec_tokens":
			s.NumSpecTokens = r.int()
		case "num_drafts":
			s.NumDrafts = r.int()
		case "num_draft_tokens":
			s.NumDraftTokens = r.int()
		case "num_accepted_tokens":
			s.NumAcceptedTokens = r.int()
		case "num_accepted_tokens_per_pos":
			s.NumAcceptedTokensPerPos = r.ints(s.NumAcceptedTokensPerPos)
		case "num_draft_tokens_per_pos":
			s.NumDraftTokensPerPos = r.ints(s.NumDraftTokensPerPos)
		default:
			return false
		}
		return true
	})
}

func (r *reader) stepStats(s *StepStats) {
	n, ok := r.array()
	if !ok {
		return
	}
	fields := [...]*int{&s.NumPrefillTokens, &s.NumPrefillReqs, &s.NumDecodeTokens, &s.NumDecodeReqs,
		&s.Preemptions.KVFull, &s.Preemptions.Priority, &s.Preemptions.Reset, &s.NumRecomputed,
		&s.NumWaitingTokens, &s.NumUncachedTokens, &s.NumResidentTokens, &s.NumPendingTokens}
	for i := 0; i < n && !r.stop; i++ {
		r.index(i)
		switch {
		case i == 0:
			s.Number = uint64(r.within(0, math.MaxInt64))
		case i == 1:
			s.Duration = r.float()
		case i-2 < len(fields):
			*fields[i-2] = r.int()
		default:
			r.skip()
		}
	}
}
