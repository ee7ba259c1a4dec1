// Package mockrunner computes nothing: every step answers at once, or after a
// time that a device might have taken, with tokens
// drawn from the request's seed. It is what measures everything around the
// model, --device mock.
//
// A request's tokens depend on its seed and the position alone, as a model's
// do, so text does not change with batch mates, chunks or preemption. EOS is
// drawn like any other token: measurements ask for ignore_eos. Log probabilities
// are those of tokens that are all equally likely.
package mockrunner

import (
	"fmt"
	"math"
	"slices"
	"time"

	"govllm/enginecore"
	"govllm/enginecore/sampler"
	"govllm/enginecore/step"
	"govllm/kernels"
	"govllm/protocol"
)

// Runner implements enginecore.Runner. The engine loop owns it.
type Runner struct {
	// StepTime is how long each step takes.
	StepTime time.Duration

	vocabSize uint64
	rows      []row // by step.Row
	passes    [2]pass
	n         int
}

// row is what a request's next token is drawn from.
type row struct {
	seed   uint64
	tokens int // prompt and output so far

	asked       kernels.LogprobRow
	asks        bool
	prompt      []int32 // until its log probabilities have been told; nil: none asked
	promptAsked kernels.LogprobRow
}

// New returns a runner of up to maxNumSeqs rows and a vocabulary of vocabSize.
func New(maxNumSeqs, vocabSize int) (*Runner, error) {
	if maxNumSeqs < 1 || vocabSize < 1 {
		return nil, fmt.Errorf("mock runner: %d rows and a vocabulary of %d, both must be at least 1", maxNumSeqs, vocabSize)
	}
	return &Runner{vocabSize: uint64(vocabSize), rows: make([]row, maxNumSeqs)}, nil
}

// pass is a step whose result is there already. Results of one pass live until
// the one after next, as asynchronous scheduling needs.
type pass struct {
	result step.ModelRunnerOutput
	done   time.Time // when a device would be
}

func (p *pass) Sample() (*step.ModelRunnerOutput, error) {
	if !p.done.IsZero() {
		time.Sleep(time.Until(p.done))
	}
	return &p.result, nil
}

// Start answers a plan.
func (r *Runner) Start(plan *step.SchedulerOutput) enginecore.Pass {
	for i := range plan.New {
		n := &plan.New[i]
		r.rows[n.Row] = r.newRow(n)
	}
	p := &r.passes[r.n%2]
	r.n++
	if r.StepTime > 0 {
		p.done = time.Now().Add(r.StepTime)
	}
	p.result.Sampled, p.result.Logprobs, p.result.PromptLogprobs = p.result.Sampled[:0], nil, nil
	for i := range plan.Scheduled {
		s := &plan.Scheduled[i]
		token := int32(-1)
		if s.Samples {
			q := &r.rows[s.Row]
			token = int32(mix(q.seed^uint64(q.tokens)<<32) % r.vocabSize)
			q.tokens++
			r.tellLogprobs(p, len(plan.Scheduled), i, q, token)
		}
		p.result.Sampled = append(p.result.Sampled, token)
	}
	return p
}

func (r *Runner) newRow(n *step.NewRequest) row {
	w := row{seed: n.Seed, tokens: len(n.TokenIDs)}
	w.asked, w.asks = sampler.Asked(n.Params, int(r.vocabSize))
	var ok bool
	if w.promptAsked, ok = sampler.NumLogprobs(n.Params.PromptLogprobs, int(r.vocabSize)); ok && len(n.TokenIDs) == n.Prompt {
		w.prompt = slices.Clone(n.TokenIDs)
	}
	return w
}

// tellLogprobs tells request i of n what it has asked for, beside its token.
func (r *Runner) tellLogprobs(p *pass, n, i int, w *row, token int32) {
	if w.asks {
		if p.result.Logprobs == nil {
			p.result.Logprobs = make([]*protocol.LogprobsLists, n)
		}
		p.result.Logprobs[i] = r.logprobs([]int32{token}, w.asked)
	}
	if w.prompt != nil {
		if p.result.PromptLogprobs == nil {
			p.result.PromptLogprobs = make([]*protocol.LogprobsLists, n)
		}
		p.result.PromptLogprobs[i] = r.logprobs(w.prompt[1:], w.promptAsked)
		w.prompt = nil
	}
}

// logprobs describes tokens as if all were equally likely.
func (r *Runner) logprobs(tokens []int32, asked kernels.LogprobRow) *protocol.LogprobsLists {
	l := step.NewLogprobs(len(tokens), asked.Width())
	for i := range l.Logprobs {
		l.Logprobs[i] = float32(-math.Log(float64(r.vocabSize)))
	}
	for i, token := range tokens {
		ids := l.TokenIDs[i*l.Width : (i+1)*l.Width]
		for j := range ids[1:] {
			ids[1+j] = int32(j)
		}
		copy(ids[1:], asked.IDs)
		ids[0], l.Ranks[i] = token, int64(r.vocabSize) // none is less likely
	}
	return l
}

// mix is the finalizer of SplitMix64: every bit of x moves every bit of the
// result. Source: Steele, Lea and Flood 2014.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
