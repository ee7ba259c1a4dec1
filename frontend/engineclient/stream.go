package engineclient

import (
	"context"
	"io"
	"sync"
	"time"

	"govllm/protocol"
	"govllm/stats"
)

// Update is everything a request got since the last one. Its slices are the
// caller's until it calls Next again.
type Update struct {
	TokenIDs       []int32
	Logprobs       *protocol.LogprobsLists // one row per token; nil unless asked for
	PromptLogprobs *protocol.LogprobsLists // once, with the first tokens

	Finish     protocol.FinishReason // FinishNone until the last update
	StopReason protocol.StopReason   // with Finish

	// From the first update with tokens on.
	NumPromptTokens int
	NumCachedTokens int // of the prompt's, as of the first admission
	// NumCreatedTokens are those of the prompt that its prefill put in the cache.
	NumCreatedTokens int
}

// Stream is one live request, owned by the handler that submitted it. Next is
// for one goroutine at a time; the rest may be called from any.
type Stream struct {
	client      *Client
	id          string
	parent      *Parent
	stopStrings bool
	engine      int           // rank
	notify      chan struct{} // one slot: there may be something to take

	mu         sync.Mutex // guards what follows
	timeline   stats.Timeline
	recorded   bool // the timeline is closed and in the statistics
	numPrompt  int
	numCached  int
	numCreated int
	pending    output                // gathered since the last Next
	taken      output                // what the last Next returned; its memory is reused
	since      time.Time             // when the oldest part of pending came
	takenSince time.Time             // and of taken; zero once it was delivered
	finish     protocol.FinishReason // nothing is taken in once it is set
	stopReason protocol.StopReason
	endedAt    time.Time // when the engine, or we, ended it
	left       bool      // we ended it, and told the engine so
	visible    bool      // finish may be told
	done       bool      // only io.EOF is left to tell
	err        error     // ends the stream after what is pending
}

func newStream(c *Client, req *protocol.EngineCoreRequest, meta Meta) *Stream {
	maxTokens := 0
	if p := req.SamplingParams; p != nil && p.MaxTokens != nil {
		maxTokens = *p.MaxTokens
	}
	return &Stream{
		client:      c,
		id:          req.RequestID,
		parent:      meta.Parent,
		stopStrings: meta.StopStrings,
		notify:      make(chan struct{}, 1),
		numPrompt:   len(req.PromptTokenIDs),
		timeline:    stats.NewTimeline(meta.Arrival, len(req.PromptTokenIDs), maxTokens),
	}
}

// ID is the request's internal ID.
func (s *Stream) ID() string { return s.id }

// Next returns what has gathered since the last call and waits if that is
// nothing. After the update with Finish set it returns io.EOF, as it does
// after Finish and Close; *EngineDeadError if an engine died. A ctx that ends
// leaves the stream as it was.
func (s *Stream) Next(ctx context.Context) (Update, error) {
	for {
		if u, ok, err := s.take(); ok || err != nil {
			return u, err
		}
		select {
		case <-s.notify:
		case <-ctx.Done():
			return Update{}, context.Cause(ctx)
		}
	}
}

// take returns ok = false while there is nothing to tell.
func (s *Stream) take() (u Update, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.done:
		s.recordAlone(s.finish)
		return Update{}, false, io.EOF
	case s.pending.empty() && !s.visible:
		return Update{}, false, s.err
	}
	s.pending, s.taken = s.taken, s.pending
	s.pending.reset()
	s.takenSince = s.since
	u = Update{
		TokenIDs:        s.taken.tokens,
		Logprobs:        s.taken.rows(),
		PromptLogprobs:  s.taken.promptLogprobs,
		NumPromptTokens: s.numPrompt,
		NumCachedTokens: s.numCached,

		NumCreatedTokens: s.numCreated,
	}
	if s.visible {
		u.Finish, u.StopReason, s.done = s.finish, s.stopReason, true
	}
	return u, true, nil
}

// Delivered notes that what the last Next returned has been written to the
// client. Calls without a Next in between count once.
func (s *Stream) Delivered() {
	s.mu.Lock()
	since := s.takenSince
	s.takenSince = time.Time{}
	s.mu.Unlock()
	if r := s.client.recorder; r != nil && !since.IsZero() {
		r.RecordDelivered(s.engine, s.client.now().Sub(since))
	}
}

// Finish ends the request for a reason that the frontend found, a stop
// string, and records it as that. If the engine is still at work on it, it is
// told to stop. Without Meta.StopStrings the engine's own end stands.
func (s *Stream) Finish(reason protocol.FinishReason) { s.end(reason) }

// Close gives the stream up. A request that is still live is aborted and
// recorded as such; one that has ended is left alone. Handlers defer it.
func (s *Stream) Close() { s.end(protocol.FinishNone) }

// end is for the stream's owner: reason FinishNone means the engine's if it
// has given one, else abort.
func (s *Stream) end(reason protocol.FinishReason) {
	s.mu.Lock()
	atWork := s.finish == protocol.FinishNone && s.err == nil
	switch {
	case reason != protocol.FinishNone:
	case atWork:
		reason = protocol.FinishAbort
	default:
		reason = s.finish
	}
	if atWork {
		s.finish, s.endedAt, s.left = reason, s.client.now(), true
	}
	s.recordAlone(reason)
	s.done = true
	s.mu.Unlock()
	s.wake()
	if atWork {
		s.leave()
	}
}

// abort ends the request on behalf of the server; its owner is told.
func (s *Stream) abort() {
	s.mu.Lock()
	atWork := s.finish == protocol.FinishNone && s.err == nil
	if atWork {
		s.finish, s.endedAt, s.left, s.visible = protocol.FinishAbort, s.client.now(), true, true
		s.recordAlone(s.finish)
	}
	s.mu.Unlock()
	if atWork {
		s.wake()
		s.leave()
	}
}

func (s *Stream) hasLeft() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left
}

// leave takes a request that its engine has not ended out of the system.
func (s *Stream) leave() {
	s.client.forget(s)
	s.client.sendAbort(s)
}

// fail ends the stream because its engine is gone.
func (s *Stream) fail(err error) {
	s.mu.Lock()
	if s.finish == protocol.FinishNone {
		s.err, s.endedAt = err, s.client.now()
		s.recordAlone(protocol.FinishError)
	}
	s.mu.Unlock()
	s.client.forget(s)
	s.wake()
}

// deliver takes one output in, and reports whether it ended the request; then
// the reader calls reveal once that is recorded. What comes after the end is
// late, and dropped: an engine runs on until an abort reaches it.
func (s *Stream) deliver(it *stats.Iteration, now time.Time, timestamp float64, out *protocol.EngineCoreOutput) (ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finish != protocol.FinishNone || s.err != nil {
		return false
	}
	s.timeline.Output(it, now, timestamp, out)
	if p := out.PrefillStats; p != nil {
		s.numPrompt, s.numCached, s.numCreated = p.NumPromptTokens, p.NumCachedTokens, p.NumCacheCreationTokens
	}
	if s.pending.empty() {
		s.since = now
	}
	if out.FinishReason == protocol.FinishNone {
		s.pending.add(out)
		s.wake()
		return false
	}
	s.finish, s.stopReason, s.endedAt = out.FinishReason, out.StopReason, now
	if !s.stopStrings {
		s.record(it, s.finish)
	}
	return true
}

// reveal shows the terminal output, which deliver has taken in.
func (s *Stream) reveal(out *protocol.EngineCoreOutput) {
	s.mu.Lock()
	s.pending.add(out)
	s.visible = true
	s.mu.Unlock()
	s.wake()
}

// record closes the timeline, which is open. s.mu is held.
func (s *Stream) record(it *stats.Iteration, reason protocol.FinishReason) {
	s.recorded = true
	s.timeline.Finish(it, s.endedAt, reason)
	s.parent.childEnded(it, s.timeline.NumGenerationTokens())
}

// recordAlone is record outside a message, once. s.mu is held.
func (s *Stream) recordAlone(reason protocol.FinishReason) {
	if s.recorded {
		return
	}
	var it stats.Iteration
	s.record(&it, reason)
	s.client.recordFor(s.engine, &it)
}

func (s *Stream) wake() {
	select {
	case s.notify <- struct{}{}:
	default: // already awake
	}
}
