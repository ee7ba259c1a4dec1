package stats

import (
	"math"
	"testing"
	"time"

	"govllm/protocol"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// arrival is 0 on the frontend's clock of these tests; the engine's clock
// shows something else altogether, and no result may depend on that.
var arrival = time.Date(2026, 8, 4, 12, 0, 0, 0, time.UTC)

func wall(seconds float64) time.Time {
	return arrival.Add(time.Duration(seconds * float64(time.Second)))
}

const (
	queued    = protocol.EventQueued
	scheduled = protocol.EventScheduled
	preempted = protocol.EventPreempted
)

func ev(t protocol.EventType, at float64) protocol.EngineCoreEvent {
	return protocol.EngineCoreEvent{Type: t, Timestamp: at}
}

// out is one output: processed at wall, stamped at, with so many tokens.
type out struct {
	wall, at float64
	tokens   int
	events   []protocol.EngineCoreEvent
	prefill  *protocol.PrefillStats
}

func known(seconds float64) Interval { return Interval{seconds, true} }

var prompt8 = &protocol.PrefillStats{NumPromptTokens: 8, NumComputedTokens: 5, NumCachedTokens: 3,
	NumLocalCachedTokens: 2, NumExternalCachedTokens: 1}

// Every interval here was worked out by hand from the definitions: TTFT and
// e2e from the frontend's clock, the rest from the engine's, all anchored to
// the first SCHEDULED.
var timelines = []struct {
	name   string
	outs   []out
	end    float64 // wall
	reason protocol.FinishReason
	want   FinishedRequest
	ttft   []float64
	itl    []float64
	sum    Iteration // the counts
}{
	{
		name: "queued, scheduled, finished by length",
		outs: []out{
			{3, 1001.75, 1, []protocol.EngineCoreEvent{ev(queued, 1000.5), ev(scheduled, 1001)}, prompt8},
			{3.25, 1002, 1, nil, nil},
			{3.75, 1002.5, 1, nil, nil},
		},
		end: 3.75, reason: protocol.FinishLength,
		want: FinishedRequest{Reason: protocol.FinishLength, E2ELatency: 3.75, NumPromptTokens: 8, NumGenerationTokens: 3,
			NumCachedTokens: 3, MaxTokens: 16, PrefillKnown: true, QueueTime: known(0.5), PrefillTime: known(0.75),
			DecodeTime: known(0.75), InferenceTime: known(1.5), TimePerOutputToken: known(0.375)},
		ttft: []float64{3}, itl: []float64{0.25, 0.5},
		sum: Iteration{NumOutputs: 3, NumGenerationTokens: 3, NumPromptTokens: 8, NumComputedTokens: 5,
			NumLocalCachedTokens: 2, NumExternalCachedTokens: 1},
	},
	{
		// The gap is in TTFT, prefill and inference, not in queue time.
		name: "preempted in prefill",
		outs: []out{
			{6, 105, 1, []protocol.EngineCoreEvent{ev(queued, 100), ev(scheduled, 101), ev(preempted, 102), ev(scheduled, 104)}, prompt8},
			{6.5, 105.5, 1, nil, nil},
		},
		end: 6.5, reason: protocol.FinishStop,
		want: FinishedRequest{Reason: protocol.FinishStop, E2ELatency: 6.5, NumPromptTokens: 8, NumGenerationTokens: 2,
			NumCachedTokens: 3, MaxTokens: 16, NumPreemptions: 1, PrefillKnown: true, QueueTime: known(1), PrefillTime: known(4),
			DecodeTime: known(0.5), InferenceTime: known(4.5), TimePerOutputToken: known(0.5)},
		ttft: []float64{6}, itl: []float64{0.5},
		sum: Iteration{NumOutputs: 2, NumGenerationTokens: 2, NumPreemptions: 1, NumPromptTokens: 8, NumComputedTokens: 5,
			NumLocalCachedTokens: 2, NumExternalCachedTokens: 1},
	},
	{
		// Each gap is one long ITL sample, and in decode and inference.
		// Cached tokens are those of the first admission.
		name: "preempted twice in decode",
		outs: []out{
			{1, 11, 1, []protocol.EngineCoreEvent{ev(queued, 10), ev(scheduled, 10.25)}, prompt8},
			{1.25, 11.25, 1, nil, nil},
			{4, 14, 1, []protocol.EngineCoreEvent{ev(preempted, 11.5), ev(scheduled, 13)},
				&protocol.PrefillStats{NumPromptTokens: 8, NumCachedTokens: 8, NumLocalCachedTokens: 8}},
			{9, 19, 1, []protocol.EngineCoreEvent{ev(preempted, 14.5), ev(scheduled, 18)}, nil},
			{9.5, 19.5, 1, nil, nil},
		},
		end: 9.5, reason: protocol.FinishLength,
		want: FinishedRequest{Reason: protocol.FinishLength, E2ELatency: 9.5, NumPromptTokens: 8, NumGenerationTokens: 5,
			NumCachedTokens: 3, MaxTokens: 16, NumPreemptions: 2, PrefillKnown: true, QueueTime: known(0.25), PrefillTime: known(0.75),
			DecodeTime: known(8.5), InferenceTime: known(9.25), TimePerOutputToken: known(2.125)},
		ttft: []float64{1}, itl: []float64{0.25, 2.75, 5, 0.5},
		sum: Iteration{NumOutputs: 5, NumGenerationTokens: 5, NumPreemptions: 2, NumPromptTokens: 8, NumComputedTokens: 5,
			NumLocalCachedTokens: 2, NumExternalCachedTokens: 1},
	},
	{
		name: "aborted before anything was heard of it",
		end:  2, reason: protocol.FinishAbort,
		want: FinishedRequest{Reason: protocol.FinishAbort, E2ELatency: 2, NumPromptTokens: 8, MaxTokens: 16},
	},
	{
		name: "aborted in the queue by the engine",
		outs: []out{{2, 12, 0, []protocol.EngineCoreEvent{ev(queued, 10)}, nil}},
		end:  2, reason: protocol.FinishAbort,
		want: FinishedRequest{Reason: protocol.FinishAbort, E2ELatency: 2, NumPromptTokens: 8, MaxTokens: 16},
		sum:  Iteration{NumOutputs: 1},
	},
	{
		// It completed queueing, and nothing else.
		name: "aborted in prefill by the engine",
		outs: []out{{2, 12, 0, []protocol.EngineCoreEvent{ev(queued, 10), ev(scheduled, 10.5)}, prompt8}},
		end:  2, reason: protocol.FinishAbort,
		want: FinishedRequest{Reason: protocol.FinishAbort, E2ELatency: 2, NumPromptTokens: 8, NumCachedTokens: 3, MaxTokens: 16,
			QueueTime: known(0.5)},
		sum: Iteration{NumOutputs: 1},
	},
	{
		name: "aborted in decode",
		outs: []out{
			{1, 11, 1, []protocol.EngineCoreEvent{ev(queued, 10), ev(scheduled, 10.25)}, prompt8},
			{1.5, 11.5, 1, nil, nil},
		},
		end: 5, reason: protocol.FinishAbort,
		want: FinishedRequest{Reason: protocol.FinishAbort, E2ELatency: 5, NumPromptTokens: 8, NumGenerationTokens: 2,
			NumCachedTokens: 3, MaxTokens: 16, PrefillKnown: true, QueueTime: known(0.25), PrefillTime: known(0.75)},
		ttft: []float64{1}, itl: []float64{0.5},
		sum: Iteration{NumOutputs: 2, NumGenerationTokens: 2, NumPromptTokens: 8, NumComputedTokens: 5,
			NumLocalCachedTokens: 2, NumExternalCachedTokens: 1},
	},
	{
		// Whoever found the stop string did so a second after the last token.
		name: "finished by a stop string",
		outs: []out{
			{1, 11, 1, []protocol.EngineCoreEvent{ev(queued, 10), ev(scheduled, 10)}, prompt8},
			{2, 12, 3, nil, nil},
		},
		end: 3, reason: protocol.FinishStop,
		want: FinishedRequest{Reason: protocol.FinishStop, E2ELatency: 3, NumPromptTokens: 8, NumGenerationTokens: 4,
			NumCachedTokens: 3, MaxTokens: 16, PrefillKnown: true, QueueTime: known(0), PrefillTime: known(1), DecodeTime: known(1),
			InferenceTime: known(2), TimePerOutputToken: known(1. / 3)},
		ttft: []float64{1}, itl: []float64{1},
		sum: Iteration{NumOutputs: 2, NumGenerationTokens: 4, NumPromptTokens: 8, NumComputedTokens: 5,
			NumLocalCachedTokens: 2, NumExternalCachedTokens: 1},
	},
	{
		name: "a single token",
		outs: []out{{1, 11, 1, []protocol.EngineCoreEvent{ev(queued, 10), ev(scheduled, 10.5)}, prompt8}},
		end:  1, reason: protocol.FinishStop,
		want: FinishedRequest{Reason: protocol.FinishStop, E2ELatency: 1, NumPromptTokens: 8, NumGenerationTokens: 1,
			NumCachedTokens: 3, MaxTokens: 16, PrefillKnown: true, QueueTime: known(0.5), PrefillTime: known(0.5), DecodeTime: known(0),
			InferenceTime: known(0.5), TimePerOutputToken: known(0)},
		ttft: []float64{1},
		sum: Iteration{NumOutputs: 1, NumGenerationTokens: 1, NumPromptTokens: 8, NumComputedTokens: 5,
			NumLocalCachedTokens: 2, NumExternalCachedTokens: 1},
	},
	{
		// A last output without tokens is no latency sample.
		name: "failed in decode",
		outs: []out{
			{1, 11, 1, []protocol.EngineCoreEvent{ev(queued, 10), ev(scheduled, 10.5)}, prompt8},
			{4, 14, 0, nil, nil},
		},
		end: 4, reason: protocol.FinishError,
		want: FinishedRequest{Reason: protocol.FinishError, E2ELatency: 4, NumPromptTokens: 8, NumGenerationTokens: 1,
			NumCachedTokens: 3, MaxTokens: 16, PrefillKnown: true, QueueTime: known(0.5), PrefillTime: known(0.5)},
		ttft: []float64{1},
		sum: Iteration{NumOutputs: 2, NumGenerationTokens: 1, NumPromptTokens: 8, NumComputedTokens: 5,
			NumLocalCachedTokens: 2, NumExternalCachedTokens: 1},
	},
	{
		// An engine without --log-stats: what is unknown is not observed.
		name: "no events and no prefill statistics",
		outs: []out{{1, 11, 1, nil, nil}, {2, 12, 1, nil, nil}},
		end:  2, reason: protocol.FinishStop,
		want: FinishedRequest{Reason: protocol.FinishStop, E2ELatency: 2, NumPromptTokens: 8, NumGenerationTokens: 2, MaxTokens: 16,
			DecodeTime: known(1), TimePerOutputToken: known(1)},
		ttft: []float64{1}, itl: []float64{1},
		sum: Iteration{NumOutputs: 2, NumGenerationTokens: 2},
	},
	{
		name: "clocks that run backwards are clamped and counted",
		outs: []out{
			{-1, 9, 1, []protocol.EngineCoreEvent{ev(queued, 11), ev(scheduled, 10)}, nil},
			{1, 8, 1, nil, nil},
			{2, math.NaN(), 1, nil, nil},
		},
		end: -2, reason: protocol.FinishStop,
		want: FinishedRequest{Reason: protocol.FinishStop, NumPromptTokens: 8, NumGenerationTokens: 3, MaxTokens: 16,
			QueueTime: known(0), PrefillTime: known(0), DecodeTime: known(0), InferenceTime: known(0), TimePerOutputToken: known(0)},
		ttft: []float64{0}, itl: []float64{0, 0},
		sum: Iteration{NumOutputs: 3, NumGenerationTokens: 3, Anomalies: [NumAnomalies]int{AnomalyNegativeInterval: 8}},
	},
	{
		name: "messages without timestamps",
		outs: []out{{1, 0, 1, nil, nil}, {2, 0, 1, nil, nil}},
		end:  2, reason: protocol.FinishStop,
		want: FinishedRequest{Reason: protocol.FinishStop, E2ELatency: 2, NumPromptTokens: 8, NumGenerationTokens: 2, MaxTokens: 16},
		ttft: []float64{1},
		sum:  Iteration{NumOutputs: 2, NumGenerationTokens: 2, Anomalies: [NumAnomalies]int{AnomalyMissingTimestamp: 2}},
	},
	{
		name: "negative counts are clamped and counted",
		outs: []out{{1, 11, 1, nil, &protocol.PrefillStats{NumPromptTokens: 8, NumComputedTokens: 9, NumCachedTokens: -1, NumExternalCachedTokens: -1}}},
		end:  1, reason: protocol.FinishStop,
		want: FinishedRequest{Reason: protocol.FinishStop, E2ELatency: 1, NumPromptTokens: 8, NumGenerationTokens: 1, MaxTokens: 16,
			PrefillKnown: true, DecodeTime: known(0), TimePerOutputToken: known(0)},
		ttft: []float64{1},
		sum: Iteration{NumOutputs: 1, NumGenerationTokens: 1, NumPromptTokens: 8, NumComputedTokens: 9,
			Anomalies: [NumAnomalies]int{AnomalyNegativeCount: 2}},
	},
}

func TestTimeline(t *testing.T) {
	for _, tt := range timelines {
		t.Run(tt.name, func(t *testing.T) {
			tl := NewTimeline(arrival, 8, 16)
			var it Iteration
			for _, o := range tt.outs {
				tl.Output(&it, wall(o.wall), o.at, &protocol.EngineCoreOutput{
					NewTokenIDs: make([]int32, o.tokens), Events: o.events, PrefillStats: o.prefill})
			}
			tl.Finish(&it, wall(tt.end), tt.reason)

			want := tt.sum
			want.TimeToFirstToken, want.InterTokenLatency = tt.ttft, tt.itl
			want.Finished = []FinishedRequest{tt.want}
			if diff := cmp.Diff(want, it, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
				t.Errorf("timeline, -want +got:\n%s", diff)
			}
		})
	}
}

// An iteration is reused for every message of a connection's life.
func TestOutputAllocatesNothing(t *testing.T) {
	var it Iteration
	tl := NewTimeline(arrival, 8, 16)
	o := &protocol.EngineCoreOutput{NewTokenIDs: make([]int32, 1)}
	tl.Output(&it, wall(1), 11, o)
	tl.Output(&it, wall(2), 12, o)
	if n := testing.AllocsPerRun(100, func() {
		it.Reset()
		tl.Output(&it, wall(3), 13, o)
	}); n != 0 {
		t.Errorf("one output allocates %v times, want 0", n)
	}
}

func TestAnomalyNames(t *testing.T) {
	seen := map[string]bool{}
	for a := range NumAnomalies {
		if s := a.String(); s == "" || seen[s] {
			t.Errorf("Anomaly(%d).String() = %q: empty or taken", a, s)
		}
		seen[a.String()] = true
	}
}
