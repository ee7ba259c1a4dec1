package openai

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"govllm/frontend/engineclient"
	"govllm/frontend/outputs"
	"govllm/protocol"
)

// usage is what a request cost. Source: UsageInfo.
type usage struct {
	PromptTokens            int            `json:"prompt_tokens"`
	TotalTokens             int            `json:"total_tokens"`
	CompletionTokens        int            `json:"completion_tokens"`
	PromptTokensDetails     *promptDetails `json:"prompt_tokens_details"`     // null without --enable-prompt-tokens-details
	CompletionTokensDetails *struct{}      `json:"completion_tokens_details"` // null: no reasoning parser
}

// promptDetails says where prompt tokens came from.
// Source: PromptTokenUsageInfo.
type promptDetails struct {
	CachedTokens       int       `json:"cached_tokens"`
	CreatedCacheTokens *int      `json:"created_cache_tokens"` // of a chat, as in vLLM
	MultimodalTokens   *struct{} `json:"multimodal_tokens"`    // null: only text is served
}

func newUsage(prompt, completion int) usage {
	return usage{PromptTokens: prompt, CompletionTokens: completion, TotalTokens: prompt + completion}
}

// order is what a request asks of the engines.
type order struct {
	id      string // the one the client sees
	arrival time.Time
	jobs    []job
	wording wording // of log probabilities
	chat    bool

	cacheSalt string
	sessionID string
	stream    bool
	priority  int
}

// job is a prompt and how many continuations of it to ask the engine for.
type job struct {
	prompt tokens
	params *protocol.SamplingParams
	n      int
}

// sequence is one continuation being generated.
type sequence struct {
	index  int // of the choice
	prompt *tokens
	pays   bool // for the prompt: the first of its continuations does
	stream *engineclient.Stream
	out    *outputs.Sequence
	stops  bool // the frontend has the last word on how it ends
	cached int  // of the prompt's tokens
	chat   bool
	// created are the prompt's tokens that are in the cache since.
	created int
	place   place
	log     *outputLog // nil: not asked for

	logprobs *logprobsForm   // nil: not asked for
	scores   *promptLogprobs // of the prompt's tokens; nil: not asked for

	cancelled bool
	held      delta // what a stream has not told yet: see gather
	told      bool  // it has told something
}

// delta is what an update adds to a continuation.
type delta struct {
	outputs.Delta
	logprobs []outputs.TokenLogprob // one per token, if asked for
}

func (d *delta) empty() bool {
	return len(d.TokenIDs) == 0 && d.Text == "" && d.Finish == protocol.FinishNone
}

// newOrder takes what a request says of all its continuations.
func newOrder(p *sampling, id string, arrival time.Time, jobs []job, wording wording) *order {
	return &order{id: id, arrival: arrival, jobs: jobs, wording: wording,
		cacheSalt: deref(p.CacheSalt, ""), sessionID: p.SessionID, stream: p.Stream, priority: p.Priority}
}

// submit sends one request per continuation. Choices are numbered prompt by
// prompt. On an error none is left running.
func (s *Server) submit(ctx context.Context, o *order) ([]*sequence, error) {
	ticket, err := admitJobs(ctx, o.jobs)
	if err != nil {
		return nil, err
	}
	defer intakeOf(ctx).prepared()
	s.logRequest(o)
	var seqs []*sequence
	for i := range o.jobs {
		j := &o.jobs[i]
		var parent *engineclient.Parent
		if j.n > 1 {
			parent = engineclient.NewParent(j.n)
		}
		internal := engineclient.NewRequestID(o.id)
		for child := range j.n {
			req := &protocol.EngineCoreRequest{
				RequestID:      internal,
				ExternalReqID:  o.id,
				PromptTokenIDs: j.prompt.ids,
				SamplingParams: j.params,
				ArrivalTime:    float64(o.arrival.UnixNano()) / 1e9,
				CacheSalt:      o.cacheSalt,
				SessionID:      o.sessionID,
				Priority:       o.priority,
			}
			if parent != nil {
				req.RequestID = engineclient.ChildRequestID(child, internal)
				req.SamplingParams = childParams(j.params, child)
			}
			stops := len(j.params.Stop) > 0
			stream, err := s.cfg.Client.Submit(ctx, req, engineclient.Meta{Arrival: o.arrival, Parent: parent, StopStrings: stops})
			if err != nil {
				closeAll(seqs)
				if ctx.Err() != nil {
					return nil, endedEarly(ctx)
				}
				return nil, err
			}
			q := s.newSequence(o, j, stream, len(seqs))
			q.pays = child == 0
			q.place = place{ticket: ticket, tokens: len(j.prompt.ids)}
			q.log = s.newOutputLog(o, q.index)
			seqs = append(seqs, q)
		}
	}
	return seqs, nil
}

func (s *Server) newSequence(o *order, j *job, stream *engineclient.Stream, index int) *sequence {
	q := &sequence{index: index, chat: o.chat, prompt: &j.prompt, stream: stream, stops: len(j.params.Stop) > 0,
		out: outputs.New(outputs.Config{
			Detokenizer: s.cfg.Tokenizer.NewDetokenizer(j.prompt.ids, j.params.SkipSpecialTokens),
			Stop:        j.params.Stop, IncludeStop: j.params.IncludeStopStrInOutput, MinTokens: j.params.MinTokens,
		}),
	}
	if j.params.Logprobs != nil || len(j.params.LogprobTokenIDs) > 0 {
		var hidden func(int32) bool
		if j.params.SkipSpecialTokens {
			hidden = s.cfg.Tokenizer.IsSpecial
		}
		q.logprobs = &logprobsForm{wording: o.wording, words: outputs.NewLogprobs(outputs.LogprobsConfig{
			TokenBytes: s.cfg.Tokenizer.TokenBytes, Hidden: hidden,
			Detokenizer: s.cfg.Tokenizer.NewDetokenizer(j.prompt.ids, j.params.SkipSpecialTokens),
		})}
	}
	if j.params.PromptLogprobs != nil {
		q.scores = s.newPromptLogprobs(&j.prompt)
	}
	return q
}

// childParams gives each of n continuations a seed of its own, if the request
// has one. Source: vllm/v1/engine/parallel_sampling.py.
func childParams(p *protocol.SamplingParams, child int) *protocol.SamplingParams {
	if p.Seed == nil {
		return p
	}
	c := *p
	seed := *p.Seed + int64(child)
	c.Seed = &seed
	return &c
}

// closeAll gives up what is still running; what has ended is left alone.
func closeAll(seqs []*sequence) {
	for _, q := range seqs {
		q.stream.Close()
	}
}

// next waits for what the engine adds to the continuation. The delta with
// Finish set is the last.
func (q *sequence) next(ctx context.Context) (delta, error) {
	u, err := q.stream.Next(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return q.interrupted(ctx)
	case errors.Is(err, io.EOF): // the caller reads no further than Finish
		return delta{}, errGeneration
	case err != nil:
		return delta{}, err
	case u.Finish == protocol.FinishError:
		return delta{}, errGeneration
	}
	q.cached, q.created = u.NumCachedTokens, u.NumCreatedTokens
	if q.scores != nil && u.PromptLogprobs != nil {
		q.scores.add(u.PromptLogprobs)
	}
	d := delta{Delta: q.out.Append(u.TokenIDs, u.Finish, u.StopReason)}
	q.place.follow(&d)
	if len(d.TokenIDs) > 0 {
		if q.logprobs != nil && u.Logprobs == nil || q.scores != nil && !q.scores.complete() {
			return delta{}, errNoLogprobs
		}
		if q.logprobs != nil {
			d.logprobs = q.logprobs.entries(d.TokenIDs, u.Logprobs)
		}
	}
	if d.Finish != protocol.FinishNone && q.stops {
		q.stream.Finish(d.Finish)
	}
	q.log.add(&d)
	return d, nil
}

// interrupted ends a continuation whose request's context has ended: with an
// error, or, if it was cancelled by its ID, with what there is.
func (q *sequence) interrupted(ctx context.Context) (delta, error) {
	err := ended(ctx)
	if !errors.Is(err, errCancelled) {
		return delta{}, err
	}
	q.stream.Close()
	q.cancelled = true
	d := delta{Delta: q.out.Append(nil, protocol.FinishAbort, protocol.StopReason{})}
	q.log.add(&d)
	return d, nil
}

// completed is a continuation that has ended.
type completed struct {
	text     string
	tokenIDs []int32
	finish   protocol.FinishReason
	reason   protocol.StopReason
	logprobs []outputs.TokenLogprob
}

// collect reads a continuation to its end.
func (q *sequence) collect(ctx context.Context) (completed, error) {
	var c completed
	var text []byte
	for {
		d, err := q.next(ctx)
		if err != nil {
			return completed{}, err
		}
		text = append(text, d.Text...)
		c.tokenIDs = append(c.tokenIDs, d.TokenIDs...)
		c.logprobs = append(c.logprobs, d.logprobs...)
		if d.Finish != protocol.FinishNone {
			if d.Finish == protocol.FinishAbort && q.out.NumTokens() == 0 && !q.cancelled {
				return completed{}, errAborted
			}
			c.text, c.finish, c.reason = string(text), d.Finish, d.Reason
			return c, nil
		}
	}
}

// collectAll reads every continuation to its end.
func collectAll(ctx context.Context, seqs []*sequence) ([]completed, error) {
	all := make([]completed, len(seqs))
	for i, q := range seqs {
		var err error
		if all[i], err = q.collect(ctx); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// merge calls emit with every delta of every sequence, one at a time, in the
// order they come. It ends with the first error, emit's included.
func merge(ctx context.Context, seqs []*sequence, emit func(*sequence, delta) error) error {
	if len(seqs) == 1 {
		return follow(ctx, seqs[0], emit)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var failed error // the first
	var all sync.WaitGroup
	for _, q := range seqs {
		all.Go(func() {
			err := follow(ctx, q, func(q *sequence, d delta) error {
				mu.Lock()
				defer mu.Unlock()
				if failed != nil {
					return failed
				}
				return emit(q, d)
			})
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				if failed == nil {
					failed = err
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return failed
}

func follow(ctx context.Context, q *sequence, emit func(*sequence, delta) error) error {
	for {
		d, err := q.next(ctx)
		if err != nil {
			return err
		}
		if err := emit(q, d); err != nil {
			return err
		}
		if d.Finish != protocol.FinishNone {
			return nil
		}
	}
}

// gather joins deltas until they hold interval tokens. The first tokens and
// the end go out at once. Source: vllm/v1/engine/output_processor.py.
func (q *sequence) gather(d delta, interval int) (_ delta, ready bool) {
	if interval <= 1 {
		return d, true
	}
	h := &q.held
	h.Text += d.Text
	h.TokenIDs = append(h.TokenIDs, d.TokenIDs...) // d's are the stream's
	h.logprobs = append(h.logprobs, d.logprobs...)
	h.Finish, h.Reason = d.Finish, d.Reason
	if d.Finish == protocol.FinishNone && q.told && len(h.TokenIDs) < interval {
		return delta{}, false
	}
	out := *h
	q.held, q.told = delta{}, q.told || !out.empty()
	return out, true
}

// delivered notes that the answer of all sequences has been written.
func delivered(seqs []*sequence) {
	for _, q := range seqs {
		q.stream.Delivered()
	}
}

// totals sums what the sequences of a request cost.
func (s *Server) totals(seqs []*sequence) usage {
	var prompt, completion, cached, created int
	for _, q := range seqs {
		if q.pays {
			prompt += len(q.prompt.ids)
			cached += q.cached
			created += q.created
		}
		completion += q.out.NumTokens()
	}
	u := newUsage(prompt, completion)
	if s.cfg.PromptTokensDetails {
		u.PromptTokensDetails = &promptDetails{CachedTokens: cached}
		if seqs[0].chat {
			u.PromptTokensDetails.CreatedCacheTokens = &created
		}
	}
	return u
}

// eventMaker words a stream's events. Each is valid until the next call.
type eventMaker interface {
	delta(q *sequence, d delta) []byte // nothing for an empty delta
	usage(u usage) []byte
}

// respond streams a request's events. The first goes out with the first token,
// so a failure before it is a plain error; a later one is an event, and [DONE]
// ends the stream all the same.
func (s *Server) respond(ctx context.Context, w http.ResponseWriter, r *http.Request, p *sampling, id string, seqs []*sequence, events eventMaker) {
	sse := newSSE(w)
	quiet := sse.keepAlive(s.cfg.SSEKeepAlive)
	defer quiet() // after a panic
	interval := max(s.cfg.StreamInterval, deref(p.StreamInterval, 1))
	err := merge(ctx, seqs, func(q *sequence, d delta) error {
		d, ready := q.gather(d, interval)
		if !ready {
			return nil
		}
		if err := sse.send(events.delta(q, d)); err != nil {
			return err
		}
		q.stream.Delivered()
		return nil
	})
	quiet()
	switch {
	case err == nil:
		if final, _ := s.usage(p); final {
			_ = sse.send(events.usage(s.totals(seqs)))
		}
		sse.done()
	case errors.Is(err, errClientGone):
	case !sse.started:
		s.fail(w, r, err, id)
	default:
		e := toAPIError(err, id)
		if e.Status >= http.StatusInternalServerError {
			s.log.Error("stream failed", "request_id", id, "error", err)
		}
		sse.fail(s.cfg.ErrorFormat, e)
	}
}
