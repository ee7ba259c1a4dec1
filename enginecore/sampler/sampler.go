// Package sampler stands between a request's sampling parameters and the
// device's Sample operation: it checks them where they enter the engine, and
// turns them into the row that each draw needs.
//
// The draw itself is a kernels.Queue operation, so that logits never leave the
// device. What is not served yet (penalties, logit bias, log probabilities, …)
// is refused here by the parameter's name.
package sampler

import (
	"errors"
	"fmt"
	"math"

	"govllm/kernels"
	"govllm/protocol"
)

// ParamError reports a sampling parameter that can't be served.
type ParamError struct {
	Param string // the API's name of it
	Value any
	Want  string // the bound, as the end of "must be …"
}

func (e *ParamError) Error() string {
	return fmt.Sprintf("%s = %v must be %s", e.Param, e.Value, e.Want)
}

// minTemperature is what lower temperatures above 0 are raised to, because
// logits divided by less overflow.
// Source: vllm/sampling_params.py, _MAX_TEMP (0.01).
const minTemperature = 0.01

// Check reports every parameter that is out of range or not served, each as a
// ParamError. vocab is the number of token IDs.
func Check(p *protocol.SamplingParams, vocab int) error {
	c := checker{}
	c.ranges(p)
	c.counts(p)
	c.tokenIDs("stop_token_ids", p.StopTokenIDs, vocab)
	c.tokenIDs("_all_stop_token_ids", p.AllStopTokenIDs, vocab)
	if p.EOSTokenID != nil {
		c.tokenIDs("_eos_token_id", []int32{*p.EOSTokenID}, vocab)
	}
	c.unserved(p)
	return errors.Join(c.errs...)
}

type checker struct{ errs []error }

// must records a failure unless ok.
func (c *checker) must(ok bool, param string, value any, want string) {
	if !ok {
		c.errs = append(c.errs, &ParamError{param, value, want})
	}
}

func (c *checker) ranges(p *protocol.SamplingParams) {
	c.must(p.Temperature >= 0 && !math.IsInf(p.Temperature, 0), "temperature", p.Temperature, "a number of at least 0")
	c.must(p.TopP > 0 && p.TopP <= 1, "top_p", p.TopP, "above 0 and at most 1")
	c.must(p.MinP >= 0 && p.MinP <= 1, "min_p", p.MinP, "between 0 and 1")
	c.must(p.TopK >= -1, "top_k", p.TopK, "-1 or more; 0 and -1 switch it off")
}

func (c *checker) counts(p *protocol.SamplingParams) {
	c.must(p.N == 1, "n", p.N, "1 in the engine; the frontend sends each continuation by itself")
	c.must(p.MinTokens >= 0, "min_tokens", p.MinTokens, "at least 0")
	if p.MaxTokens != nil {
		c.must(*p.MaxTokens >= 1, "max_tokens", *p.MaxTokens, "at least 1")
		c.must(p.MinTokens <= *p.MaxTokens, "min_tokens", p.MinTokens, fmt.Sprintf("at most max_tokens = %d", *p.MaxTokens))
	}
}

// tokenIDs names the first ID outside the vocabulary.
func (c *checker) tokenIDs(param string, ids []int32, vocab int) {
	for _, id := range ids {
		if id < 0 || int(id) >= vocab {
			c.must(false, param, id, fmt.Sprintf("token IDs below the vocabulary's size %d", vocab))
			return
		}
	}
}

func (c *checker) unserved(p *protocol.SamplingParams) {
	const later = "left at its default, as it is not served"
	c.must(p.PresencePenalty == 0, "presence_penalty", p.PresencePenalty, later)
	c.must(p.FrequencyPenalty == 0, "frequency_penalty", p.FrequencyPenalty, later)
	c.must(p.RepetitionPenalty == 1, "repetition_penalty", p.RepetitionPenalty, later)
	c.must(p.Logprobs == nil, "logprobs", deref(p.Logprobs), later)
	c.must(p.PromptLogprobs == nil, "prompt_logprobs", deref(p.PromptLogprobs), later)
	c.must(len(p.LogprobTokenIDs) == 0, "logprob_token_ids", p.LogprobTokenIDs, later)
	c.must(len(p.LogitBias) == 0, "logit_bias", p.LogitBias, later)
	c.must(p.AllowedTokenIDs == nil, "allowed_token_ids", p.AllowedTokenIDs, later)
	c.must(len(p.BadWordsTokenIDs) == 0, "bad_words", p.BadWordsTokenIDs, later)
	for _, name := range p.Unsupported {
		c.must(false, name, "(set)", later)
	}
}

func deref(v *int) any {
	if v == nil {
		return nil
	}
	return *v
}

// Row is one request's sampling state: what stays the same over its draws.
type Row struct {
	base      kernels.SamplingRow
	minTokens int
	stops     []int32
}

// NewRow takes over parameters that Check accepted. At temperature 0 the
// filters are off, as they can't change the highest logit.
func NewRow(p *protocol.SamplingParams, seed uint64) Row {
	r := Row{
		base:      kernels.SamplingRow{TopP: 1, Seed: seed},
		minTokens: p.MinTokens,
		stops:     p.AllStopTokenIDs,
	}
	if p.Temperature > 0 {
		r.base.Temperature = float32(max(p.Temperature, minTemperature))
		r.base.TopP = float32(p.TopP)
		r.base.MinP = float32(p.MinP)
		r.base.TopK = int32(min(max(p.TopK, 0), math.MaxInt32))
	}
	return r
}

// Draw returns the device's row for a request that has generated numOutput
// tokens so far. Below min_tokens its stop tokens can't be drawn.
func (r *Row) Draw(numOutput int) kernels.SamplingRow {
	row := r.base
	row.Position = uint64(numOutput)
	if numOutput < r.minTokens {
		row.Banned = r.stops
	}
	return row
}
