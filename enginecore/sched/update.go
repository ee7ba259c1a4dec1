package sched

import (
	"slices"

	"govllm/enginecore/internal/invariants"
	"govllm/enginecore/request"
	"govllm/enginecore/step"
	"govllm/protocol"
)

// Update takes in what the device sampled for a plan: tokens are appended,
// requests that stop give up their blocks, and the outbox gets the outputs. A
// request that ended while the step ran gets none.
func (s *Scheduler) Update(p *Plan, result *step.ModelRunnerOutput) {
	s.changed = true
	for i, r := range p.requests {
		if !p.Scheduled[i].Samples {
			continue
		}
		r.InFlight--
		if r.Status == request.Finished {
			continue
		}
		token := result.Sampled[i]
		if token < 0 {
			s.fail(r, ErrNotFinite).NumNaNsInLogits = numNaNs(result, i)
			continue
		}
		s.accept(r, token)
		out := s.output(r, 1)
		if result.Logprobs != nil {
			out.NewLogprobs = result.Logprobs[i]
		}
		if result.PromptLogprobs != nil {
			out.NewPromptLogprobs = result.PromptLogprobs[i]
		}
	}
	clear(p.requests)
	p.requests = p.requests[:0]
	if invariants.Enabled {
		s.check()
	}
}

// accept appends a sampled token and ends the request if it must stop. With
// asynchronous scheduling the request may have been preempted meanwhile: then
// it waits with one token more.
func (s *Scheduler) accept(r *request.Request, token int32) {
	queued := r.Status.IsQueued()
	if queued {
		s.cache.Dequeue(r)
	} else {
		s.pendingTokens -= r.Backlog()
	}
	r.Append(token)
	why, stop := s.checkStop(r)
	if why == protocol.FinishNone {
		s.cache.Extend(r)
	}
	if queued {
		s.cache.Enqueue(r)
	} else {
		s.pendingTokens += r.Backlog()
	}
	if why != protocol.FinishNone {
		r.StopReason = stop
		s.finish(r, why)
		s.out.Finished(r.Client, r.ID)
	}
}

// output writes the request's last n tokens, with what else there is to tell.
func (s *Scheduler) output(r *request.Request, n int) *protocol.EngineCoreOutput {
	out := s.out.next(r.Client, r.ID)
	out.NewTokenIDs = r.LastTokens(n)
	out.FinishReason = r.FinishReason
	out.StopReason = r.StopReason
	out.Events = r.TakeEvents()
	out.TraceHeaders = r.TraceHeaders
	out.PrefillStats = r.TakePrefillStats(s.cfg.BlockSize, s.cache.Caching())
	return out
}

// checkStop says whether the last token ends the request. The order decides
// what the client is told, and is vLLM's (v1/core/sched/utils.py, check_stop).
func (s *Scheduler) checkStop(r *request.Request) (protocol.FinishReason, protocol.StopReason) {
	p, n := r.Params, r.NumOutput()
	token := r.LastTokens(1)[0]
	if n < min(p.MinTokens, r.MaxTokens) { // a larger minimum must not outrun the limit
		return protocol.FinishNone, protocol.StopReason{}
	}
	if p.EOSTokenID != nil && token == *p.EOSTokenID {
		return protocol.FinishStop, protocol.StopReason{}
	}
	if slices.Contains(p.StopTokenIDs, token) {
		return protocol.FinishStop, protocol.StopReason{Kind: protocol.StopReasonToken, TokenID: token}
	}
	if r.NumTokens() >= s.cfg.MaxModelLen || n >= r.MaxTokens {
		return protocol.FinishLength, protocol.StopReason{}
	}
	return protocol.FinishNone, protocol.StopReason{}
}

func numNaNs(result *step.ModelRunnerOutput, i int) int {
	if result.NumNaNs == nil {
		return 0
	}
	return result.NumNaNs[i]
}
