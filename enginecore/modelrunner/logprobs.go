package modelrunner

import (
	"slices"

	"govllm/enginecore/internal/invariants"
	"govllm/enginecore/model"
	"govllm/enginecore/sampler"
	"govllm/enginecore/step"
	"govllm/kernels"
	"govllm/protocol"
)

// Log probabilities of a step: of what is sampled, and of prompt tokens.
//
// A prompt's rows all need logits, more than the buffer holds. So in a step
// with such a prompt every row goes through all layers, and the head is applied
// to one piece of rows after the other; the rows that sample come last. What a
// row computes is the same either way.

// promptLogprobs is a prompt whose tokens' log probabilities were asked. Row i
// describes prompt token i+1, given tokens 0 to i.
type promptLogprobs struct {
	asked kernels.LogprobRow
	lists *protocol.LogprobsLists // nil: not asked, or given already
}

// admit begins the lists of a new request. One that comes back with output
// after a preemption has been given its own.
func (p *promptLogprobs) admit(n *step.NewRequest, vocabSize int) {
	*p = promptLogprobs{}
	asked, ok := sampler.NumLogprobs(n.Params.PromptLogprobs, vocabSize)
	if !ok || len(n.TokenIDs) > n.Prompt {
		return
	}
	if n.Computed > 0 {
		invariants.Fail("request %q asks for prompt_logprobs and has %d tokens cached", n.ID, n.Computed)
	}
	p.asked, p.lists = asked, step.NewLogprobs(n.Prompt-1, asked.Width())
}

// describes says how many of tokens [computed, end) describe a prompt token.
func (p *promptLogprobs) describes(computed, end int) int {
	if p.lists == nil {
		return 0
	}
	return max(0, min(end, p.lists.NumTokens)-computed)
}

// fill sets rows [at, at+n) of l from the front of out, and returns the rest.
func fill(l *protocol.LogprobsLists, at, n int, out kernels.Logprobs) kernels.Logprobs {
	w := n * l.Width
	copy(l.TokenIDs[at*l.Width:], out.TokenIDs[:w])
	copy(l.Logprobs[at*l.Width:], out.Values[:w])
	for i, rank := range out.Ranks[:n] {
		l.Ranks[at+i] = int64(rank)
	}
	return kernels.Logprobs{TokenIDs: out.TokenIDs[w:], Values: out.Values[w:], Ranks: out.Ranks[n:]}
}

// question is what a step asks about rows of logits, in batch order, and where
// the answers go.
type question struct {
	rows   []kernels.LogprobRow
	width  int // of all rows
	answer kernels.Logprobs
}

func (q *question) reset() { q.rows, q.width = q.rows[:0], 0 }

func (q *question) add(r kernels.LogprobRow) {
	q.rows = append(q.rows, r)
	q.width += r.Width()
}

// makeRoom makes room for the answers; it grows once.
func (q *question) makeRoom() {
	a := &q.answer
	a.TokenIDs = slices.Grow(a.TokenIDs[:0], q.width)[:q.width]
	a.Values = slices.Grow(a.Values[:0], q.width)[:q.width]
	a.Ranks = slices.Grow(a.Ranks[:0], len(q.rows))[:len(q.rows)]
}

// recordPrompts records logits and log probabilities of the batch's prompt
// rows, piece by piece.
func (r *Runner) recordPrompts() {
	b, most := &r.batch, r.cfg.MaxLogits()
	q := &b.promptAsked
	q.makeRoom()
	rest := q.answer
	for lo := 0; lo < len(q.rows); lo += most {
		hi := min(lo+most, len(q.rows))
		r.queue.Upload(r.buffers.promptRows, b.promptRows[lo:hi])
		r.queue.Upload(r.buffers.promptNext, b.promptNext[lo:hi])
		logits := r.model.Logits(r.queue, r.work, r.buffers.promptRows, hi-lo)
		w := 0
		for i := lo; i < hi; i++ {
			q.rows[i].Row = i - lo
			w += q.rows[i].Width()
		}
		out := kernels.Logprobs{TokenIDs: rest.TokenIDs[:w], Values: rest.Values[:w], Ranks: rest.Ranks[:hi-lo]}
		rest = kernels.Logprobs{TokenIDs: rest.TokenIDs[w:], Values: rest.Values[w:], Ranks: rest.Ranks[hi-lo:]}
		r.queue.Logprobs(out, logits, r.buffers.promptNext, q.rows[lo:hi])
	}
}

// numPromptOps bounds the operations of recordPrompts in one step.
func (c *Config) numPromptOps() int {
	const numUploads, numAnswers = 2, 1
	return ceilDiv(c.MaxNumBatchedTokens, c.MaxLogits()) * (numUploads + model.NumLogitsOps + numAnswers)
}

// recordLogprobs asks about what was sampled from logits.
func (r *Runner) recordLogprobs(logits kernels.Activation) {
	q := &r.batch.asked
	if len(q.rows) == 0 {
		return
	}
	if r.cfg.ProcessedLogprobs {
		r.queue.Process(logits, r.batch.draws)
	}
	q.makeRoom()
	r.queue.Logprobs(q.answer, logits, r.buffers.sampled, q.rows)
}

// collectLogprobs gives each request of the plan what it asked for. The lists
// are its own.
func (r *Runner) collectLogprobs(plan *step.SchedulerOutput) {
	b := &r.batch
	sampled, prompt := b.asked.answer, b.promptAsked.answer
	r.out.Logprobs, r.out.PromptLogprobs = nil, nil
	if len(plan.Scheduled) == 0 || len(b.asked.rows) == 0 && !b.hasPrompts {
		return
	}
	if len(b.asked.rows) > 0 {
		r.out.Logprobs = make([]*protocol.LogprobsLists, len(plan.Scheduled))
	}
	if b.hasPrompts {
		r.out.PromptLogprobs = make([]*protocol.LogprobsLists, len(plan.Scheduled))
	}
	for i := range plan.Scheduled {
		s := &plan.Scheduled[i]
		w, end := &r.rows[s.Row], s.Computed+s.NumTokens
		if asked, ok := w.sampling.Logprobs(); ok && s.Samples {
			l := step.NewLogprobs(1, asked.Width())
			sampled = fill(l, 0, 1, sampled)
			if r.out.Sampled[i] >= 0 {
				r.out.Logprobs[i] = l
			}
		}
		if l := w.promptLogprobs.lists; l != nil {
			prompt = fill(l, s.Computed, w.promptLogprobs.describes(s.Computed, end), prompt)
			if end > l.NumTokens { // the whole prompt
				r.out.PromptLogprobs[i], w.promptLogprobs.lists = l, nil
			}
		}
	}
}
