package protocol

import (
	"math"
	"slices"
)

// appendSchedulerStats writes every key of vLLM's dataclass, for foreign
// frontends refuse a map that lacks one, and then ours.
func appendSchedulerStats(b []byte, s *SchedulerStats) []byte {
	if s.isPlain() {
		return appendPlainStats(b, s)
	}
	return appendStatsByKey(b, s)
}

func appendStatsByKey(b []byte, s *SchedulerStats) []byte {
	n := 18
	if s.Step.Known {
		n++
	}
	b = appendMapLen(b, n)
	b = appendInt(appendStr(b, "num_running_reqs"), int64(s.NumRunningReqs))
	b = appendInt(appendStr(b, "num_waiting_reqs"), int64(s.NumWaitingReqs))
	b = appendInt(appendStr(b, "num_skipped_waiting_reqs"), int64(s.NumSkippedWaitingReqs))
	b = appendMapLen(appendStr(b, "num_kv_fetch_reqs_by_stage"), 0)
	b = appendInt(appendStr(b, "step_counter"), int64(s.StepCounter))
	b = appendInt(appendStr(b, "current_wave"), int64(s.CurrentWave))
	b = appendFloat(appendStr(b, "kv_cache_usage"), s.KVCacheUsage)
	b = appendIterationDetails(appendStr(b, "iteration_details"), s.IterationDetails)
	b = appendPrefixCacheStats(appendStr(b, "prefix_cache_stats"), &s.PrefixCacheStats)
	b = appendPrefixCacheStats(appendStr(b, "connector_prefix_cache_stats"), s.ConnectorPrefixCacheStats)
	b = appendEvictionEvents(appendStr(b, "kv_cache_eviction_events"), s.KVCacheEvictionEvents)
	b = appendSpecDecodingStats(appendStr(b, "spec_decoding_stats"), s.SpecDecodingStats)
	b = appendNil(appendStr(b, "kv_connector_stats"))
	b = appendNil(appendStr(b, "ec_connector_stats"))
	b = appendMapLen(appendStr(b, "waiting_lora_adapters"), 0)
	b = appendMapLen(appendStr(b, "running_lora_adapters"), 0)
	b = appendNil(appendStr(b, "cudagraph_stats"))
	b = appendPerfStats(appendStr(b, "perf_stats"), s.PerfStats)
	if s.Step.Known {
		b = appendStepStats(appendStr(b, "govllm_step"), &s.Step)
	}
	return b
}

func appendPrefixCacheStats(b []byte, p *PrefixCacheStats) []byte {
	if p == nil {
		return appendNil(b)
	}
	b = appendMapLen(b, 8)
	b = appendBool(appendStr(b, "reset"), p.Reset)
	b = appendInt(appendStr(b, "requests"), int64(p.Requests))
	b = appendInt(appendStr(b, "queries"), int64(p.Queries))
	b = appendInt(appendStr(b, "hits"), int64(p.Hits))
	b = appendInt(appendStr(b, "preempted_requests"), int64(p.PreemptedRequests))
	b = appendInt(appendStr(b, "preempted_queries"), int64(p.PreemptedQueries))
	b = appendInt(appendStr(b, "preempted_hits"), int64(p.PreemptedHits))
	return appendHitsBySource(appendStr(b, "hits_by_source"), &p.HitsBySource)
}

// hitSources are the keys of hits_by_source, in the order of HitsBySource.
var hitSources = [...]string{"device", "host", "p2p", "disk", "external_unspecified"}

// counts lists h's fields, for which hitSources has the names.
func (h *HitsBySource) counts() [len(hitSources)]*int {
	return [...]*int{&h.Device, &h.Host, &h.P2P, &h.Disk, &h.ExternalUnspecified}
}

// appendHitsBySource writes those that are not zero, as vLLM does.
func appendHitsBySource(b []byte, h *HitsBySource) []byte {
	n, counts := 0, h.counts()
	for _, count := range counts {
		if *count != 0 {
			n++
		}
	}
	b = appendMapLen(b, n)
	for i, count := range counts {
		if *count != 0 {
			b = appendInt(appendStr(b, hitSources[i]), int64(*count))
		}
	}
	return b
}

func appendIterationDetails(b []byte, d *IterationDetails) []byte {
	if d == nil {
		return appendNil(b)
	}
	b = appendMapLen(b, 9)
	b = appendInt(appendStr(b, "iteration_index"), int64(d.Index))
	b = appendInt(appendStr(b, "num_ctx_requests"), int64(d.NumContextReqs))
	b = appendInt(appendStr(b, "num_ctx_tokens"), int64(d.NumContextTokens))
	b = appendInt(appendStr(b, "num_generation_requests"), int64(d.NumGenerationReqs))
	b = appendInt(appendStr(b, "num_generation_tokens"), int64(d.NumGenTokens))
	b = appendFloat(appendStr(b, "elapsed_ms"), d.ElapsedMS)
	b = appendInt(appendStr(b, "num_encoder_inputs"), int64(d.NumEncoderInputs))
	b = appendInt(appendStr(b, "num_encoder_output_tokens"), int64(d.NumEncoderTokens))
	return appendBool(appendStr(b, "is_dummy"), d.IsDummy)
}

func appendEvictionEvents(b []byte, events []KVCacheEvictionEvent) []byte {
	b = appendArrayLen(b, len(events))
	for i := range events {
		e := &events[i]
		b = appendMapLen(b, 3)
		b = appendFloat(appendStr(b, "lifetime_seconds"), e.Lifetime)
		b = appendFloat(appendStr(b, "idle_seconds"), e.Idle)
		b = appendArrayLen(appendStr(b, "reuse_gaps_seconds"), len(e.ReuseGaps))
		for _, gap := range e.ReuseGaps {
			b = appendFloat(b, gap)
		}
	}
	return b
}

func appendPerfStats(b []byte, p *PerfStats) []byte {
	if p == nil {
		return appendNil(b)
	}
	b = appendMapLen(b, 4)
	b = appendInt(appendStr(b, "num_flops_per_gpu"), int64(p.NumFlops))
	b = appendInt(appendStr(b, "num_read_bytes_per_gpu"), int64(p.NumReadBytes))
	b = appendInt(appendStr(b, "num_write_bytes_per_gpu"), int64(p.NumWriteBytes))
	return appendNil(appendStr(b, "debug_stats"))
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
	return appendStepFields(appendArrayLen(b, 18), s)
}

func appendStepFields(b []byte, s *StepStats) []byte {
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
	b = appendInt(b, int64(s.NumPendingTokens))
	b = appendUint(b, s.Running)
	b = appendFloat(b, s.RunningFor)
	b = appendInt(b, int64(s.NumArrived))
	return appendBool(b, s.Paused)
}

// statsParts is where the optional parts of scheduler statistics go.
type statsParts struct {
	spec      SpecDecodingStats
	connector PrefixCacheStats
	perf      PerfStats
	details   IterationDetails
}

func (r *reader) schedulerStats(s *SchedulerStats, parts *statsParts) {
	*s = SchedulerStats{KVCacheEvictionEvents: s.KVCacheEvictionEvents[:0]}
	if !r.plainStats(s) {
		r.statsByKey(s, parts)
	}
}

func (r *reader) statsByKey(s *SchedulerStats, parts *statsParts) {
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
				s.SpecDecodingStats = &parts.spec
				r.specDecodingStats(&parts.spec)
			}
		case "connector_prefix_cache_stats":
			if !r.null() {
				parts.connector = PrefixCacheStats{}
				s.ConnectorPrefixCacheStats = &parts.connector
				r.prefixCacheStats(&parts.connector)
			}
		case "kv_cache_eviction_events":
			s.KVCacheEvictionEvents = r.evictionEvents(s.KVCacheEvictionEvents)
		case "perf_stats":
			if !r.null() {
				s.PerfStats = &parts.perf
				r.perfStats(&parts.perf)
			}
		case "iteration_details":
			if !r.null() {
				s.IterationDetails = &parts.details
				r.iterationDetails(&parts.details)
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
		case "hits_by_source":
			if !r.null() {
				r.hitsBySource(&p.HitsBySource)
			}
		default:
			return false
		}
		return true
	})
}

func (r *reader) hitsBySource(h *HitsBySource) {
	counts := h.counts()
	r.eachKey(func(key string) bool {
		i := slices.Index(hitSources[:], key)
		if i < 0 {
			return false
		}
		*counts[i] = r.int()
		return true
	})
}

func (r *reader) evictionEvents(events []KVCacheEvictionEvent) []KVCacheEvictionEvent {
	n, ok := r.array()
	if !ok {
		return events
	}
	for i := 0; i < n && !r.stop; i++ {
		r.index(i)
		var e KVCacheEvictionEvent
		r.eachKey(func(key string) bool {
			switch key {
			case "lifetime_seconds":
				e.Lifetime = r.float()
			case "idle_seconds":
				e.Idle = r.float()
			case "reuse_gaps_seconds":
				e.ReuseGaps = r.floats()
			default:
				return false
			}
			return true
		})
		events = append(events, e)
	}
	r.index(-1)
	return events
}

func (r *reader) perfStats(p *PerfStats) {
	*p = PerfStats{}
	r.eachKey(func(key string) bool {
		switch key {
		case "num_flops_per_gpu":
			p.NumFlops = r.int()
		case "num_read_bytes_per_gpu":
			p.NumReadBytes = r.int()
		case "num_write_bytes_per_gpu":
			p.NumWriteBytes = r.int()
		default:
			return false
		}
		return true
	})
}

func (r *reader) iterationDetails(d *IterationDetails) {
	*d = IterationDetails{}
	r.eachKey(func(key string) bool {
		switch key {
		case "iteration_index":
			d.Index = r.int()
		case "num_ctx_requests":
			d.NumContextReqs = r.int()
		case "num_ctx_tokens":
			d.NumContextTokens = r.int()
		case "num_generation_requests":
			d.NumGenerationReqs = r.int()
		case "num_generation_tokens":
			d.NumGenTokens = r.int()
		case "elapsed_ms":
			d.ElapsedMS = r.float()
		case "num_encoder_inputs":
			d.NumEncoderInputs = r.int()
		case "num_encoder_output_tokens":
			d.NumEncoderTokens = r.int()
		case "is_dummy":
			d.IsDummy = r.bool()
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
	s.Known = true
	fields := [...]*int{&s.NumPrefillTokens, &s.NumPrefillReqs, &s.NumDecodeTokens, &s.NumDecodeReqs,
		&s.Preemptions.KVFull, &s.Preemptions.Priority, &s.Preemptions.Reset, &s.NumRecomputed,
		&s.NumWaitingTokens, &s.NumUncachedTokens, &s.NumResidentTokens, &s.NumPendingTokens}
	const after = 2 + len(fields)
	for i := 0; i < n && !r.stop; i++ {
		r.index(i)
		switch {
		case i == 0:
			s.Number = uint64(r.within(0, math.MaxInt64))
		case i == 1:
			s.Duration = r.float()
		case i < after:
			*fields[i-2] = r.int()
		case i == after:
			s.Running = uint64(r.within(0, math.MaxInt64))
		case i == after+1:
			s.RunningFor = r.float()
		case i == after+2:
			s.NumArrived = r.int()
		case i == after+3:
			s.Paused = r.bool()
		default:
			r.skip()
		}
	}
}
