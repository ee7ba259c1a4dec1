// Package sched decides, step by step, which requests get how many tokens.
//
// There is no prefill phase and no decode phase. A request has tokens, and a
// number of them that are computed; each step hands out a budget of tokens so
// that the second number catches up with the first. Chunked prefill, prefix
// hits, recomputation after a preemption and decoding are all the same to it.
//
//	Schedule  running requests first, then waiting ones → Plan
//	Update    what the device sampled for a Plan → outputs
//	Add, Abort between steps, or while a step runs
//
// Running requests go first, and nothing is admitted in a step that had to
// preempt. A preempted request gives up its blocks and its computed tokens and
// waits again, at the head of the queue (fcfs) or in its place (priority).
//
// Follows vLLM V1 scheduler.py; where we differ is in ../README.md.
// Owned by the engine loop: no locks.
package sched

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"govllm/enginecore/internal/invariants"
	"govllm/enginecore/kvcache"
	"govllm/enginecore/request"
	"govllm/enginecore/step"
	"govllm/protocol"
)

var (
	// ErrDuplicateRequest reports an ADD whose ID is still in flight.
	ErrDuplicateRequest = errors.New("request ID is already in flight")
	// ErrPromptTooLong reports a prompt that leaves no room for a token.
	ErrPromptTooLong = errors.New("prompt is too long for the model")
	// ErrNeverFits reports a request that needs more KV blocks than there are.
	ErrNeverFits = errors.New("request needs more KV cache than there is")
	// ErrNotFinite reports a request whose logits were NaN or infinite, or all
	// of them −Inf once its own lists had been applied.
	ErrNotFinite = errors.New("no token can be sampled: logits are not finite, or the request's parameters forbid every token")
)

// Pause says how much of the work is held back.
type Pause uint8

const (
	Unpaused  Pause = iota
	PausedNew       // nothing is admitted; what runs goes on
	PausedAll       // nothing is scheduled
)

// Plan is what Schedule decided, until Update has seen its result.
type Plan struct {
	step.SchedulerOutput
	requests []*request.Request // of Scheduled, index by index
}

// Scheduler holds every live request. It reads no clock: those who call it say
// what time it is, in seconds of the engine's monotonic clock.
type Scheduler struct {
	cfg   Config
	cache *kvcache.Cache

	live     map[string]*request.Request
	running  []*request.Request // in order of admission; ended ones until the next Schedule
	waiting  queue
	released *list // no longer deferred: served before waiting, in order of release
	pause    Pause
	numAdded uint64

	plans    [2]Plan // the one being built and the one in flight
	numPlans uint64
	freed    []step.Row // since the last plan that the runner got
	rows     []step.Row // free ones; the last is handed out next

	numRunning    int
	numDeferred   int
	pendingTokens int
	deltas        Deltas
	changed       bool // anything, since statistics were taken

	out Outbox
}

// New returns a scheduler without requests, or everything that is wrong with
// cfg.
func New(cfg Config) (*Scheduler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	var hasher *kvcache.Hasher
	if !cfg.NoPrefixCaching {
		var err error
		if hasher, err = kvcache.NewHasher(cfg.HashAlgo, cfg.BlockSize, cfg.HashSeed); err != nil {
			return nil, err
		}
	}
	s := &Scheduler{
		cfg:      cfg,
		cache:    kvcache.New(cfg.NumBlocks, cfg.BlockSize, hasher),
		live:     make(map[string]*request.Request),
		waiting:  newQueue(cfg.Policy),
		released: newList(),
	}
	if cfg.KVMetricsSample > 0 {
		s.cache.Sample(cfg.KVMetricsSample)
	}
	for row := cfg.MaxNumSeqs - 1; row >= 0; row-- {
		s.rows = append(s.rows, step.Row(row))
	}
	return s, nil
}

// Config returns what the scheduler was made with.
func (s *Scheduler) Config() *Config { return &s.cfg }

// Hasher returns a hasher for prompts that are to be added, for use on another
// goroutine; nil without prefix caching.
func (s *Scheduler) Hasher() *kvcache.Hasher { return s.cache.Hasher() }

// Outbox is where outputs gather until they are taken.
func (s *Scheduler) Outbox() *Outbox { return &s.out }

// Add takes a new request into the waiting queue, or refuses it with
// ErrDuplicateRequest, ErrPromptTooLong or ErrNeverFits. With deferred, it
// waits until Release for something other than capacity.
func (s *Scheduler) Add(r *request.Request, deferred bool, now float64) error {
	if _, ok := s.live[r.ID]; ok {
		return fmt.Errorf("add %q: %w", r.ID, ErrDuplicateRequest)
	}
	if err := s.cfg.CheckFits(r.NumTokens()); err != nil {
		return fmt.Errorf("add %q: %w", r.ID, err)
	}
	s.changed = true
	s.live[r.ID] = r
	s.numAdded++
	r.Order = s.numAdded
	s.event(r, protocol.EventQueued, now)
	s.cache.Add(r)
	s.cache.Enqueue(r)
	if deferred {
		r.Status = request.Deferred
		s.numDeferred++
	} else {
		r.Status = request.Waiting
		s.waiting.Push(r)
	}
	return nil
}

// Release makes a deferred request wait for capacity alone. Under fcfs it goes
// before those that were added while it was deferred. An unknown or other ID
// is ignored: the request may have been aborted.
func (s *Scheduler) Release(id string) {
	r := s.live[id]
	if r == nil || r.Status != request.Deferred {
		return
	}
	s.changed = true
	s.numDeferred--
	r.Status = request.Waiting
	if s.cfg.Policy == Priority {
		s.waiting.Push(r) // its place is the same whenever it comes
		return
	}
	r.Released = true
	s.released.Push(r)
}

// Abort ends a request wherever it is, without an output, and reports whether
// it was live. Its blocks are free when Abort returns; if a step is in flight,
// what it computes for the request is dropped, and so is what has not been sent.
func (s *Scheduler) Abort(id string) bool {
	s.out.Drop(id)
	r := s.live[id]
	if r == nil {
		return false
	}
	s.finish(r, protocol.FinishAbort)
	s.out.Finished(r.Client, r.ID)
	return true
}

// AbortAll ends every request with an ABORT output, oldest first.
func (s *Scheduler) AbortAll() {
	all := slices.SortedFunc(maps.Values(s.live), func(a, b *request.Request) int {
		return cmp.Compare(a.Order, b.Order)
	})
	for _, r := range all {
		s.finish(r, protocol.FinishAbort)
		s.out.End(r.Client, r.ID, protocol.FinishAbort)
	}
}

// fail ends a request with an ERROR output; err says why, to the log.
func (s *Scheduler) fail(r *request.Request, err error) *protocol.EngineCoreOutput {
	s.finish(r, protocol.FinishError)
	s.out.Failed(r.ID, err)
	return s.out.End(r.Client, r.ID, protocol.FinishError)
}

// finish takes a live request out of everything it is in.
func (s *Scheduler) finish(r *request.Request, why protocol.FinishReason) {
	s.changed = true
	switch r.Status {
	case request.Running:
		s.leaveRunning(r)
	case request.Deferred:
		s.numDeferred--
		s.cache.Dequeue(r)
	case request.Waiting, request.Preempted:
		s.cache.Dequeue(r)
		s.queueOf(r).Remove(r)
	default:
		invariants.Fail("request %q finished while %v", r.ID, r.Status)
	}
	r.Status = request.Finished
	r.FinishReason = why
	s.cache.Remove(r)
	delete(s.live, r.ID)
}

// queueOf returns the queue that a queued request stands in.
func (s *Scheduler) queueOf(r *request.Request) queue {
	if r.Released {
		return s.released
	}
	return s.waiting
}

// leaveRunning gives up blocks and row. The request stays in s.running, as one
// whose status is no longer Running, until the next Schedule begins.
func (s *Scheduler) leaveRunning(r *request.Request) {
	s.pendingTokens -= r.Backlog()
	s.numRunning--
	s.cache.Free(r)
	s.freed = append(s.freed, step.Row(r.Row))
	s.rows = append(s.rows, step.Row(r.Row))
}

// preempt sends a running request back to wait, with nothing computed.
func (s *Scheduler) preempt(r *request.Request, why PreemptionReason, now float64) {
	r.RecomputeUntil = max(r.RecomputeUntil, min(r.Computed, r.NumTokens()))
	s.leaveRunning(r)
	r.NumPreemptions++
	r.Status = request.Preempted
	s.cache.Enqueue(r)
	s.waiting.PushFront(r)
	s.changed = true
	s.deltas.Preemptions[why]++
	s.event(r, protocol.EventPreempted, now)
}

// ResetPrefixCache makes cached blocks unfindable, after preempting every
// running request if resetRunning says so, and reports whether it could: it
// refuses while blocks are used. No step may be in flight.
func (s *Scheduler) ResetPrefixCache(resetRunning bool, now float64) bool {
	if resetRunning {
		s.compactRunning()
		for i := len(s.running) - 1; i >= 0; i-- { // so that the first is first in the queue again
			s.preempt(s.running[i], ByReset, now)
		}
	}
	if !s.cache.Reset() {
		return false
	}
	s.changed = true
	s.deltas.PrefixCache.Reset = true
	return true
}

// SetPause holds work back, or no longer.
func (s *Scheduler) SetPause(p Pause) { s.pause = p }

// Paused says how much is held back.
func (s *Scheduler) Paused() Pause { return s.pause }

// NumLive is how many requests have not ended.
func (s *Scheduler) NumLive() int { return len(s.live) }

// NumRunning is how many requests hold a row.
func (s *Scheduler) NumRunning() int { return s.numRunning }

// IsLive reports whether a request with this ID has not ended.
func (s *Scheduler) IsLive(id string) bool { return s.live[id] != nil }

// HasWork reports whether a step could schedule anything.
func (s *Scheduler) HasWork() bool {
	switch s.pause {
	case PausedAll:
		return false
	case PausedNew:
		return s.numRunning > 0
	}
	return s.numRunning+s.waiting.Len()+s.released.Len() > 0
}

func (s *Scheduler) event(r *request.Request, t protocol.EventType, now float64) {
	if !s.cfg.NoLogStats {
		r.AddEvent(t, now)
	}
}
