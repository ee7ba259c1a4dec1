// Package request holds one request from its ADD to its last token.
//
// A request is a list of tokens, the prompt and then what was generated, and
// one number: how many of them have been computed. Everything the scheduler
// does makes the second catch up with the first.
//
// Follows vLLM V1 request.py; we differ in: finished is one status with a
// reason beside it, not "every status above PREEMPTED".
// Owned by the engine loop once it is added: no locks.
package request

import "govllm/protocol"

// Status says where a request is.
type Status uint8

const (
	New       Status = iota // not added yet
	Deferred                // in no queue: waits for something other than capacity
	Waiting                 // queued, never admitted
	Preempted               // queued again after a preemption
	Running                 // admitted: holds a row and blocks
	Finished                // ended; nothing may follow
)

// IsQueued reports whether the request stands in the waiting queue.
func (s Status) IsQueued() bool {
	switch s {
	case Waiting, Preempted:
		return true
	}
	return false
}

// IsLive reports whether the scheduler still has work for the request.
func (s Status) IsLive() bool {
	switch s {
	case Deferred, Waiting, Preempted, Running:
		return true
	}
	return false
}

func (s Status) String() string {
	switch s {
	case New:
		return "new"
	case Deferred:
		return "deferred"
	case Waiting:
		return "waiting"
	case Preempted:
		return "preempted"
	case Running:
		return "running"
	case Finished:
		return "finished"
	}
	return "invalid"
}

// Hash names a full block of tokens together with all that precedes it.
type Hash [32]byte

// Request is one sampled continuation of one prompt.
//
// Invariants, between steps:
//
//	1 ≤ NumPrompt ≤ NumTokens
//	0 ≤ Computed ≤ NumTokens + InFlight; Computed = 0 unless running
//	len(Blocks)*blockSize ≥ Computed; Blocks is empty unless running
//	len(Nodes) = ⌊NumTokens/blockSize⌋ with prefix caching, else 0 (an ended
//	request aside: the block that its last token fills is not hashed)
type Request struct {
	ID        string
	Client    int // index of the outputs socket
	Params    *protocol.SamplingParams
	MaxTokens int     // resolved: at least 1
	Priority  int     // lower runs first
	Arrival   float64 // Unix seconds by the frontend's clock; breaks ties of priority
	Order     uint64  // of addition; breaks ties of Arrival
	Seed      uint64  // of sampling: the request's own, or drawn when it was added
	CacheSalt string

	// ReadsCache is false for requests that must compute their whole prompt,
	// prompt logprobs for instance. Their blocks are cached all the same.
	ReadsCache bool

	TraceHeaders map[string]string

	Status       Status
	FinishReason protocol.FinishReason
	StopReason   protocol.StopReason

	Computed       int // tokens whose KV is in Blocks, or will be after this step
	InFlight       int // tokens sampled by steps whose result is not known yet
	Cached         int // prompt tokens found in the cache at first admission; -1 before it
	RecomputeUntil int // tokens below this were computed before a preemption
	NumPreemptions int

	Blocks []int32 // block table
	Row    int32   // place in the runner's batch, while running

	// Hashes of the prompt's full blocks. They are computed where the request
	// is decoded and handed to the prefix index when it is added; from then on
	// Nodes, the index's own numbers, stand for them.
	Hashes    []Hash
	Nodes     []int32
	LastHash  Hash // of the last full block, the parent of the next
	NumLinked int  // leading Nodes whose block of ours is findable in the cache

	// Owned by sched: the place in a queue, and in the plan being made.
	Prev, Next *Request
	HeapIndex  int
	Released   bool // was deferred: stands in the queue of those
	PlanIndex  int

	tokens    []int32
	numPrompt int

	events       []protocol.EngineCoreEvent
	told         bool // prefill stats have been sent
	prefillStats protocol.PrefillStats
}

// FromWire returns a request for an ADD that has passed validation. It keeps the
// slices of req. maxModelLen in tokens bounds what max_tokens leaves open.
func FromWire(req *protocol.EngineCoreRequest, maxModelLen int) *Request {
	p := req.SamplingParams
	r := &Request{
		ID:           req.RequestID,
		Client:       req.ClientIndex,
		Params:       p,
		MaxTokens:    maxModelLen - len(req.PromptTokenIDs),
		Priority:     req.Priority,
		Arrival:      req.ArrivalTime,
		CacheSalt:    req.CacheSalt,
		ReadsCache:   p.PromptLogprobs == nil,
		TraceHeaders: req.TraceHeaders,
		Cached:       -1,
		tokens:       req.PromptTokenIDs,
		numPrompt:    len(req.PromptTokenIDs),
	}
	if p.MaxTokens != nil {
		r.MaxTokens = min(r.MaxTokens, *p.MaxTokens)
	}
	if p.SkipReadingPrefixCache != nil {
		r.ReadsCache = !*p.SkipReadingPrefixCache
	}
	return r
}

// NumTokens is the length of the prompt and of what was generated so far.
func (r *Request) NumTokens() int { return len(r.tokens) }

// NumPrompt is the length of the prompt.
func (r *Request) NumPrompt() int { return r.numPrompt }

// NumOutput is how many tokens were generated.
func (r *Request) NumOutput() int { return len(r.tokens) - r.numPrompt }

// Tokens returns prompt and output; valid until the next Append.
func (r *Request) Tokens() []int32 { return r.tokens }

// Backlog is how many of the known tokens are still to be computed.
func (r *Request) Backlog() int { return max(0, len(r.tokens)-r.Computed) }

// Append adds a generated token. The first one makes room for as many as the
// request may still get, within reason, so that decoding allocates nothing.
func (r *Request) Append(token int32) {
	if len(r.tokens) == cap(r.tokens) {
		room := min(r.MaxTokens-r.NumOutput(), max(1024, len(r.tokens)))
		grown := make([]int32, len(r.tokens), len(r.tokens)+max(room, 1))
		copy(grown, r.tokens)
		r.tokens = grown
	}
	r.tokens = append(r.tokens, token)
}

// LastTokens returns the last n tokens, which belong to the request and stay
// what they are.
func (r *Request) LastTokens(n int) []int32 {
	return r.tokens[len(r.tokens)-n : len(r.tokens) : len(r.tokens)]
}

// AddEvent notes a moment; it rides on the request's next token output.
func (r *Request) AddEvent(t protocol.EventType, now float64) {
	r.events = append(r.events, protocol.EngineCoreEvent{Type: t, Timestamp: now})
}

// TakeEvents returns the events since it was last called. They are the
// caller's: an output that waits to be sent must not see later ones.
func (r *Request) TakeEvents() []protocol.EngineCoreEvent {
	taken := r.events
	r.events = nil
	return taken
}

// TakePrefillStats returns, once, where the prompt's tokens came from. The
// numbers are those of the first admission, whatever a preemption did later.
func (r *Request) TakePrefillStats(blockSize int, cachingOn bool) *protocol.PrefillStats {
	if r.told {
		return nil
	}
	r.told = true
	r.prefillStats = protocol.PrefillStats{
		NumPromptTokens:      r.numPrompt,
		NumComputedTokens:    r.numPrompt - r.Cached,
		NumCachedTokens:      r.Cached,
		NumLocalCachedTokens: r.Cached,
	}
	if cachingOn {
		r.prefillStats.NumCacheCreationTokens = r.numPrompt/blockSize*blockSize - r.Cached
	}
	return &r.prefillStats
}

// Before reports whether r is served before o under the priority policy: lower
// priority value, then earlier arrival, then earlier addition.
func (r *Request) Before(o *Request) bool {
	if r.Priority != o.Priority {
		return r.Priority < o.Priority
	}
	if r.Arrival != o.Arrival {
		return r.Arrival < o.Arrival
	}
	return r.Order < o.Order
}
