package stats

import "govllm/protocol"

// Iteration collects what one message from one engine amounts to. A request
// that the frontend ends on its own, between messages, has one of its own
// with NumOutputs = 0. The zero value is ready; Reset keeps the memory.
//
// Source: vllm/v1/metrics/stats.py, IterationStats.
type Iteration struct {
	NumOutputs          int // outputs of live requests in the message
	NumGenerationTokens int
	NumPreemptions      int // PREEMPTED events that the outputs carried

	// Prompts whose first token this message brought, in tokens:
	// Prompt = Computed + LocalCached + ExternalCached.
	NumPromptTokens         int
	NumComputedTokens       int
	NumLocalCachedTokens    int
	NumExternalCachedTokens int

	TimeToFirstToken  []float64 // seconds, one per request that got its first token
	InterTokenLatency []float64 // seconds, one per later output with tokens
	Finished          []FinishedRequest
	Parents           []FinishedParent

	Anomalies [NumAnomalies]int
}

// FinishedRequest is the record of one ended request, one child of n > 1.
// Latencies are in seconds.
type FinishedRequest struct {
	Reason              protocol.FinishReason
	E2ELatency          float64 // arrival to end, frontend clock
	NumPromptTokens     int
	NumGenerationTokens int
	NumCachedTokens     int
	MaxTokens           int // 0 if unset
	NumPreemptions      int
	PrefillKnown        bool // prefill ended and the engine told what was cached
	Corrupted           bool // the engine found NaNs among its logits

	QueueTime          Interval // first SCHEDULED − QUEUED
	PrefillTime        Interval // first token − first SCHEDULED
	DecodeTime         Interval // last token − first token
	InferenceTime      Interval // last token − first SCHEDULED
	TimePerOutputToken Interval // DecodeTime / (tokens − 1)
}

// FinishedParent is what a client's request of n sequences amounts to once
// the last of them has ended.
type FinishedParent struct {
	N                      int
	MaxNumGenerationTokens int // of the longest sequence
}

// Reset empties it for the next message.
func (it *Iteration) Reset() {
	*it = Iteration{
		TimeToFirstToken:  it.TimeToFirstToken[:0],
		InterTokenLatency: it.InterTokenLatency[:0],
		Finished:          it.Finished[:0],
		Parents:           it.Parents[:0],
	}
}

// NumIterationTokens is vLLM's reading of a step's size: the computed part of
// the prompts that ended in it and the new tokens. A chunked prefill is
// charged wholly to its last chunk.
func (it *Iteration) NumIterationTokens() int {
	return it.NumComputedTokens + it.NumGenerationTokens
}

// Anomaly is a kind of impossible number. Statistics must never stop the
// serving, so such a number is clamped to the nearest possible one, counted,
// and logged the first time.
type Anomaly int

const (
	AnomalyNegativeInterval Anomaly = iota // an end before its start, or not a number
	AnomalyNegativeCount                   // a count or delta below zero
	AnomalyMissingTimestamp                // a message without a timestamp
	AnomalyUnknownEngine                   // an engine index that no engine registered
	AnomalyUnknownReason                   // a finish reason outside the enum
	NumAnomalies
)

// String returns the value of the kind label.
func (a Anomaly) String() string {
	return [NumAnomalies]string{"negative_interval", "negative_count", "missing_timestamp",
		"unknown_engine", "unknown_reason"}[a]
}

// Rejection is the limit that a request met which was turned away before it
// entered any statistics.
type Rejection int

const (
	RejectedByRequests Rejection = iota // --max-num-queued-reqs
	RejectedByTokens                    // --max-num-queued-tokens
	NumRejections
)

// String returns the value of the reason label.
func (r Rejection) String() string {
	return [NumRejections]string{"max_num_queued_reqs", "max_num_queued_tokens"}[r]
}
