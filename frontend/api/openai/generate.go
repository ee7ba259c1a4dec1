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
	PromptTokens            int       `json:"prompt_tokens"`
	TotalTokens             int       `json:"total_tokens"`
	CompletionTokens        int       `json:"completion_tokens"`
	PromptTokensDetails     *struct{} `json:"prompt_tokens_details"`     // null until served
	CompletionTokensDetails *struct{} `json:"completion_tokens_details"` // null: no reasoning parser
}

func newUsage(prompt, completion int) usage {
	return usage{PromptTokens: prompt, CompletionTokens: completion, TotalTokens: prompt + completion}
}

// job is a prompt and how many continuations of it to ask the engine for.
type job struct {
	promptIDs []int32
	params    *protocol.SamplingParams
	n         int
	cacheSalt string
	chat      bool
}

// sequence is one continuation being generated.
type sequence struct {
	index     int // of the choice
	promptLen int
	pays      bool // for the prompt: the first of its continuations does
	stream    *engineclient.Stream
	out       *outputs.Sequence
	stops     bool          // the frontend has the last word on how it ends
	logprobs  *logprobsForm // nil: not asked for
}

// delta is what an update adds to a continuation.
type delta struct {
	outputs.Delta
	logprobs []outputs.TokenLogprob // one per token, if asked for
}

// submit sends one request per continuation. Choices are numbered prompt by
// prompt. On an error none is left running.
func (s *Server) submit(ctx context.Context, arrival time.Time, id string, jobs []job) ([]*sequence, error) {
	var seqs []*sequence
	for _, j := range jobs {
		var parent *engineclient.Parent
		if j.n > 1 {
			parent = engineclient.NewParent(j.n)
		}
		internal := engineclient.NewRequestID(id)
		for child := range j.n {
			req := &protocol.EngineCoreRequest{
				RequestID:      internal,
				ExternalReqID:  id,
				PromptTokenIDs: j.promptIDs,
				SamplingParams: j.params,
				ArrivalTime:    float64(arrival.UnixNano()) / 1e9,
				CacheSalt:      j.cacheSalt,
			}
			if parent != nil {
				req.RequestID = engineclient.ChildRequestID(child, internal)
				req.SamplingParams = childParams(j.params, child)
			}
			stops := len(j.params.Stop) > 0
			stream, err := s.cfg.Client.Submit(ctx, req, engineclient.Meta{Arrival: arrival, Parent: parent, StopStrings: stops})
			if err != nil {
				closeAll(seqs)
				return nil, err
			}
			seqs = append(seqs, &sequence{
				logprobs: s.newLogprobs(j),
				index:    len(seqs), promptLen: len(j.promptIDs), pays: child == 0, stream: stream, stops: stops,
				out: outputs.New(outputs.Config{
					Detokenizer: s.cfg.Tokenizer.NewDetokenizer(j.promptIDs, j.params.SkipSpecialTokens),
					Stop:        j.params.Stop, IncludeStop: j.params.IncludeStopStrInOutput, MinTokens: j.params.MinTokens,
				}),
			})
		}
	}
	return seqs, nil
}

// newLogprobs is nil where none were asked for.
func (s *Server) newLogprobs(j job) *logprobsForm {
	if j.params.Logprobs == nil {
		return nil
	}
	return &logprobsForm{words: outputs.NewLogprobs(s.cfg.Tokenizer.TokenBytes), chat: j.chat, num: *j.params.Logprobs}
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
	if err != nil {
		if ctx.Err() != nil {
			return delta{}, errClientGone
		}
		if errors.Is(err, io.EOF) { // the caller reads no further than Finish
			return delta{}, errGeneration
		}
		return delta{}, err
	}
	if u.Finish == protocol.FinishError {
		return delta{}, errGeneration
	}
	d := delta{Delta: q.out.Append(u.TokenIDs, u.Finish, u.StopReason)}
	if q.logprobs != nil && len(d.TokenIDs) > 0 {
		if u.Logprobs == nil {
			return delta{}, errNoLogprobs
		}
		d.logprobs = q.logprobs.entries(d.TokenIDs, u.Logprobs)
	}
	if d.Finish != protocol.FinishNone && q.stops {
		q.stream.Finish(d.Finish)
	}
	return d, nil
}

// completed is a continuation that has ended.
type completed struct {
	text     string
	finish   protocol.FinishReason
	reason   protocol.StopReason
	logprobs any // of the endpoint's form; nil: not asked for
}

// collect reads a continuation to its end.
func (q *sequence) collect(ctx context.Context) (completed, error) {
	var text []byte
	var logprobs []outputs.TokenLogprob
	for {
		d, err := q.next(ctx)
		if err != nil {
			return completed{}, err
		}
		text = append(text, d.Text...)
		logprobs = append(logprobs, d.logprobs...)
		if d.Finish != protocol.FinishNone {
			if d.Finish == protocol.FinishAbort && q.out.NumTokens() == 0 {
				return completed{}, errAborted
			}
			return completed{string(text), d.Finish, d.Reason, q.logprobs.form(logprobs)}, nil
		}
	}
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
	var all sync.WaitGroup
	for _, q := range seqs {
		all.Go(func() {
			err := follow(ctx, q, func(q *sequence, d delta) error {
				mu.Lock()
				defer mu.Unlock()
				if err := context.Cause(ctx); err != nil {
					return err
				}
				return emit(q, d)
			})
			if err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
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

// totals sums what the sequences of a request cost.
func totals(seqs []*sequence) usage {
	var prompt, completion int
	for _, q := range seqs {
		if q.pays {
			prompt += q.promptLen
		}
		completion += q.out.NumTokens()
	}
	return newUsage(prompt, completion)
}

// respond streams a request's chunks. The first chunk goes out with the first
// token, so a failure before it is a plain error; a later one is an event, and
// [DONE] ends the stream all the same.
func (s *Server) respond(w http.ResponseWriter, r *http.Request, id string, seqs []*sequence, c *chunker, final bool) {
	sse := newSSE(w)
	err := merge(r.Context(), seqs, func(q *sequence, d delta) error {
		return sse.send(c.delta(q, d))
	})
	switch {
	case err == nil:
		if final {
			_ = sse.send(c.usage(totals(seqs)))
		}
		sse.done()
	case errors.Is(err, errClientGone):
	case !sse.started:
		s.fail(w, r, err, id)
	default:
		s.log.Error("stream failed", "request_id", id, "error", err)
		sse.fail(s.cfg.ErrorFormat, toAPIError(err, id))
	}
}
