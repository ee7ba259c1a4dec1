package protocol

import (
	"encoding/binary"
	"math"
)

// Most statistics of an engine of ours are plain: they have a step and none of
// the optional parts, so that messages differ in numbers alone. What stands
// between those is the same text each time, and to compare or copy it takes a
// quarter of the time that 26 keys take (BenchmarkSchedulerStats). It is part of
// every message.
//
// plainStats reads that and nothing else. Whatever is different, a foreign
// engine's order of keys included, is read key by key.

// plain are the texts before each number, as appendSchedulerStats writes them.
var plain = struct {
	queue  [5]string // before ints: running … current_wave
	usage  string
	reset  string
	prefix [6]string // before ints: requests … preempted_hits
	step   string    // up to and with the header of the step's array
}{
	queue: [5]string{
		string(appendStr(appendMapLen(nil, 19), "num_running_reqs")),
		string(appendStr(nil, "num_waiting_reqs")),
		string(appendStr(nil, "num_skipped_waiting_reqs")),
		string(appendStr(appendMapLen(appendStr(nil, "num_kv_fetch_reqs_by_stage"), 0), "step_counter")),
		string(appendStr(nil, "current_wave")),
	},
	usage: string(appendStr(nil, "kv_cache_usage")),
	reset: string(appendStr(appendMapLen(appendStr(appendNil(appendStr(nil, "iteration_details")), "prefix_cache_stats"), 8), "reset")),
	prefix: [6]string{
		string(appendStr(nil, "requests")), string(appendStr(nil, "queries")), string(appendStr(nil, "hits")),
		string(appendStr(nil, "preempted_requests")), string(appendStr(nil, "preempted_queries")), string(appendStr(nil, "preempted_hits")),
	},
	step: string(plainRest()),
}

func plainRest() []byte {
	b := appendMapLen(appendStr(nil, "hits_by_source"), 0)
	b = appendNil(appendStr(b, "connector_prefix_cache_stats"))
	b = appendArrayLen(appendStr(b, "kv_cache_eviction_events"), 0)
	for _, key := range []string{"spec_decoding_stats", "kv_connector_stats", "ec_connector_stats"} {
		b = appendNil(appendStr(b, key))
	}
	b = appendMapLen(appendStr(b, "waiting_lora_adapters"), 0)
	b = appendMapLen(appendStr(b, "running_lora_adapters"), 0)
	b = appendNil(appendStr(b, "cudagraph_stats"))
	b = appendNil(appendStr(b, "perf_stats"))
	return appendArrayLen(appendStr(b, "govllm_step"), 18)
}

// isPlain says whether appendPlainStats may write s.
func (s *SchedulerStats) isPlain() bool {
	return s.Step.Known && s.IterationDetails == nil && s.ConnectorPrefixCacheStats == nil && len(s.KVCacheEvictionEvents) == 0 &&
		s.SpecDecodingStats == nil && s.PerfStats == nil && s.PrefixCacheStats.HitsBySource == HitsBySource{}
}

// appendPlainStats writes what appendSchedulerStats would.
func appendPlainStats(b []byte, s *SchedulerStats) []byte {
	p := &s.PrefixCacheStats
	for i, n := range [...]int{s.NumRunningReqs, s.NumWaitingReqs, s.NumSkippedWaitingReqs, s.StepCounter, s.CurrentWave} {
		b = appendInt(append(b, plain.queue[i]...), int64(n))
	}
	b = appendFloat(append(b, plain.usage...), s.KVCacheUsage)
	b = appendBool(append(b, plain.reset...), p.Reset)
	for i, n := range [...]int{p.Requests, p.Queries, p.Hits, p.PreemptedRequests, p.PreemptedQueries, p.PreemptedHits} {
		b = appendInt(append(b, plain.prefix[i]...), int64(n))
	}
	return appendStepFields(append(b, plain.step...), &s.Step)
}

// plainStats reads plain statistics into s, which is empty. If they are not
// plain it returns false, reads nothing and leaves s to be read again.
func (r *reader) plainStats(s *SchedulerStats) bool {
	q := plainReader{b: r.buf[r.pos:], ok: true}
	p, t := &s.PrefixCacheStats, &s.Step
	for i, n := range [...]*int{&s.NumRunningReqs, &s.NumWaitingReqs, &s.NumSkippedWaitingReqs, &s.StepCounter, &s.CurrentWave} {
		q.text(plain.queue[i])
		*n = q.int()
	}
	q.text(plain.usage)
	s.KVCacheUsage = q.float()
	q.text(plain.reset)
	p.Reset = q.bool()
	for i, n := range [...]*int{&p.Requests, &p.Queries, &p.Hits, &p.PreemptedRequests, &p.PreemptedQueries, &p.PreemptedHits} {
		q.text(plain.prefix[i])
		*n = q.int()
	}
	q.text(plain.step)
	t.Known = true
	t.Number = uint64(q.int())
	t.Duration = q.float()
	for _, n := range [...]*int{&t.NumPrefillTokens, &t.NumPrefillReqs, &t.NumDecodeTokens, &t.NumDecodeReqs,
		&t.Preemptions.KVFull, &t.Preemptions.Priority, &t.Preemptions.Reset, &t.NumRecomputed,
		&t.NumWaitingTokens, &t.NumUncachedTokens, &t.NumResidentTokens, &t.NumPendingTokens} {
		*n = q.int()
	}
	t.Running = uint64(q.int())
	t.RunningFor = q.float()
	t.NumArrived = q.int()
	t.Paused = q.bool()
	if !q.ok {
		*s = SchedulerStats{KVCacheEvictionEvents: s.KVCacheEvictionEvents}
		return false
	}
	r.pos += q.pos
	return true
}

// plainReader reads from b while all is as expected; then ok is false, and
// what it returns means nothing.
type plainReader struct {
	b   []byte
	pos int
	ok  bool
}

func (q *plainReader) text(want string) {
	end := q.pos + len(want)
	if !q.ok || end > len(q.b) || string(q.b[q.pos:end]) != want {
		q.ok = false
		return
	}
	q.pos = end
}

// take returns the next n bytes, nil if there are not so many.
func (q *plainReader) take(n int) []byte {
	if !q.ok || q.pos+n > len(q.b) {
		q.ok = false
		return nil
	}
	q.pos += n
	return q.b[q.pos-n : q.pos]
}

// int reads an int that is not negative.
func (q *plainReader) int() int {
	head := q.take(1)
	if !q.ok {
		return 0
	}
	if head[0] <= 0x7f {
		return int(head[0])
	}
	var v uint64
	switch p := q.take(plainWidth(head[0])); len(p) {
	case 1:
		v = uint64(p[0])
	case 2:
		v = uint64(binary.BigEndian.Uint16(p))
	case 4:
		v = uint64(binary.BigEndian.Uint32(p))
	case 8:
		v = binary.BigEndian.Uint64(p)
	default:
		q.ok = false
	}
	if v > math.MaxInt64 {
		q.ok = false
	}
	return int(v)
}

// plainWidth is how many bytes follow an unsigned int's head, 0 for others.
func plainWidth(head byte) int {
	if head < 0xcc || head > 0xcf {
		return 0
	}
	return 1 << (head - 0xcc)
}

func (q *plainReader) float() float64 {
	p := q.take(9)
	if !q.ok || p[0] != 0xcb {
		q.ok = false
		return 0
	}
	return math.Float64frombits(binary.BigEndian.Uint64(p[1:]))
}

func (q *plainReader) bool() bool {
	p := q.take(1)
	if !q.ok || p[0]&^1 != 0xc2 {
		q.ok = false
		return false
	}
	return p[0] == 0xc3
}
