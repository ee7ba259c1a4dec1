package stats

import (
	"math"
	"time"

	"govllm/protocol"
)

// Timeline is one request's life as the frontend learns of it.
//
//	arrival          HTTP request received            frontend clock
//	queued           first QUEUED event               engine clock
//	scheduled        first SCHEDULED event            engine clock
//	first, last      first and newest message that carried tokens, engine clock
//
// Preemption resets nothing, so its cost lies inside the interval it fell in:
// before the first token in TTFT, prefill and inference; after it in ITL,
// decode and inference; never in queue time.
//
// Not safe for concurrent use: the owner of the request guards it.
//
// Source: vllm/v1/metrics/stats.py, RequestStateStats, and PR #13169.
type Timeline struct {
	arrival   time.Time
	queued    moment
	scheduled moment
	first     moment
	last      moment

	numPrompt      int
	maxTokens      int
	numGenerated   int
	numPreemptions int
	prefill        protocol.PrefillStats
	prefillKnown   bool
	corrupted      bool
}

// moment is a time of the engine's clock that may not have come yet.
type moment struct {
	at    float64 // seconds
	known bool
}

// Interval is a length of time; Known is false while one of its ends is
// missing, and then Seconds means nothing.
type Interval struct {
	Seconds float64
	Known   bool
}

// NewTimeline starts the timeline of a request that arrived at the given time
// of the frontend's clock with numPromptTokens tokens. maxTokens is its
// max_tokens, 0 if unset.
func NewTimeline(arrival time.Time, numPromptTokens, maxTokens int) Timeline {
	return Timeline{arrival: arrival, numPrompt: numPromptTokens, maxTokens: maxTokens}
}

// NumGenerationTokens is how many tokens the engine delivered so far.
func (t *Timeline) NumGenerationTokens() int { return t.numGenerated }

// Output takes one output of the request into t and it. now is the frontend's
// clock when the message is being processed; timestamp is the message's own,
// of the engine's clock, and stands for the moment of every token in it.
func (t *Timeline) Output(it *Iteration, now time.Time, timestamp float64, out *protocol.EngineCoreOutput) {
	it.NumOutputs++
	for _, e := range out.Events {
		t.event(it, e)
	}
	if out.PrefillStats != nil && !t.prefillKnown {
		t.prefill, t.prefillKnown = it.checkPrefill(*out.PrefillStats), true
	}
	if out.NumNaNsInLogits > 0 {
		t.corrupted = true
	}
	if n := len(out.NewTokenIDs); n > 0 {
		t.tokens(it, now, timestamp, n)
	}
}

func (t *Timeline) event(it *Iteration, e protocol.EngineCoreEvent) {
	switch e.Type {
	case protocol.EventQueued:
		t.queued.setOnce(e.Timestamp)
	case protocol.EventScheduled:
		t.scheduled.setOnce(e.Timestamp)
	case protocol.EventPreempted:
		t.numPreemptions++
		it.NumPreemptions++
	}
}

// tokens records n ≥ 1 new tokens. An output without tokens says nothing
// about latency: a request that ends before its first token has no TTFT.
func (t *Timeline) tokens(it *Iteration, now time.Time, timestamp float64, n int) {
	if t.numGenerated == 0 {
		it.TimeToFirstToken = append(it.TimeToFirstToken, it.wall(t.arrival, now))
		t.promptDone(it)
	}
	t.numGenerated += n
	it.NumGenerationTokens += n
	if timestamp == 0 { // msgspec's default: the engine did not stamp it
		it.Anomalies[AnomalyMissingTimestamp]++
		return
	}
	at := moment{timestamp, true}
	if gap := it.between(t.last, at); gap.Known {
		it.InterTokenLatency = append(it.InterTokenLatency, gap.Seconds)
	}
	t.first.setOnce(timestamp)
	t.last = at
}

// promptDone counts the prompt, once, when its first token comes.
func (t *Timeline) promptDone(it *Iteration) {
	if !t.prefillKnown {
		return // the engine does not report where prompt tokens came from
	}
	it.NumPromptTokens += t.prefill.NumPromptTokens
	it.NumComputedTokens += t.prefill.NumComputedTokens
	it.NumLocalCachedTokens += t.prefill.NumLocalCachedTokens
	it.NumExternalCachedTokens += t.prefill.NumExternalCachedTokens
}

// Finish closes the timeline at now and appends the request's record to it.
//
// A phase appears in the record only if the request completed it: an aborted
// or failed request has no decode time, and none of the phases it never
// reached. Token counts and e2e are always there.
func (t *Timeline) Finish(it *Iteration, now time.Time, reason protocol.FinishReason) {
	f := FinishedRequest{
		Reason:              reason,
		E2ELatency:          it.wall(t.arrival, now),
		NumPromptTokens:     t.numPrompt,
		NumGenerationTokens: t.numGenerated,
		NumCachedTokens:     t.prefill.NumCachedTokens,
		MaxTokens:           t.maxTokens,
		NumPreemptions:      t.numPreemptions,
		QueueTime:           it.between(t.queued, t.scheduled),
		PrefillTime:         it.between(t.scheduled, t.first),
		PrefillKnown:        t.prefillKnown && t.numGenerated > 0,
		Corrupted:           t.corrupted,
	}
	if completes(reason) {
		f.DecodeTime = it.between(t.first, t.last)
		f.InferenceTime = it.between(t.scheduled, t.last)
		f.TimePerOutputToken = perToken(f.DecodeTime, t.numGenerated)
	}
	it.Finished = append(it.Finished, f)
}

// completes says whether a request that ended so had all its tokens.
func completes(reason protocol.FinishReason) bool {
	return reason == protocol.FinishStop || reason == protocol.FinishLength || reason == protocol.FinishRepetition
}

// perToken is the mean time of the tokens after the first; vLLM reads a
// request of a single token as 0.
func perToken(decode Interval, numGenerated int) Interval {
	if numGenerated > 1 {
		decode.Seconds /= float64(numGenerated - 1)
	} else {
		decode.Seconds = 0
	}
	return decode
}

func (m *moment) setOnce(at float64) {
	if !m.known {
		*m = moment{at, true}
	}
}

// between subtracts two moments of one engine's clock. Events may come from a
// foreign engine, so an end before its start is clamped and counted.
func (it *Iteration) between(from, to moment) Interval {
	if !from.known || !to.known {
		return Interval{}
	}
	return Interval{it.clampSeconds(to.at - from.at), true}
}

// wall subtracts two moments of the frontend's clock, in seconds.
func (it *Iteration) wall(from, to time.Time) float64 {
	return it.clampSeconds(to.Sub(from).Seconds())
}

func (it *Iteration) clampSeconds(s float64) float64 {
	if s >= 0 && !math.IsInf(s, 1) {
		return s
	}
	it.Anomalies[AnomalyNegativeInterval]++
	return 0
}

// checkPrefill clamps counts that would make a counter run backwards.
func (it *Iteration) checkPrefill(p protocol.PrefillStats) protocol.PrefillStats {
	for _, n := range []*int{&p.NumPromptTokens, &p.NumComputedTokens, &p.NumCachedTokens,
		&p.NumLocalCachedTokens, &p.NumExternalCachedTokens} {
		if *n < 0 {
			*n = 0
			it.Anomalies[AnomalyNegativeCount]++
		}
	}
	return p
}
