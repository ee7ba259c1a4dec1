package enginecore

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"govllm/enginecore/kvcache"
	"govllm/enginecore/request"
	"govllm/enginecore/sched"
	"govllm/protocol"
)

// ErrInvalidRequest reports an ADD that no engine state could make servable.
// The message names field, value and bound.
var ErrInvalidRequest = errors.New("invalid request")

// maxLogprobTokenIDs bounds logprob_token_ids, as in vLLM.
const maxLogprobTokenIDs = 128

// Intake prepares requests for a Core: it checks everything that a foreign
// frontend may have got wrong and hashes the prompt. It belongs to one
// goroutine, which need not be the Core's.
type Intake struct {
	sched       sched.Config
	vocabSize   int
	maxLogprobs int
	numClients  int
	hasher      *kvcache.Hasher // nil without prefix caching
}

// NewIntake returns an intake for this core's limits and hashes.
func (c *Core) NewIntake() *Intake {
	return &Intake{
		sched:       c.cfg.Sched,
		vocabSize:   c.cfg.VocabSize,
		maxLogprobs: c.cfg.MaxLogprobs,
		numClients:  c.cfg.NumClients,
		hasher:      c.sched.Hasher(),
	}
}

// Prepare checks an ADD and makes it a request, which keeps req's slices. It
// returns ErrInvalidRequest, sched.ErrPromptTooLong or sched.ErrNeverFits,
// wrapped.
func (in *Intake) Prepare(req *protocol.EngineCoreRequest) (*request.Request, error) {
	if err := in.check(req); err != nil {
		return nil, fmt.Errorf("add %q: %w", req.RequestID, err)
	}
	r := request.FromWire(req, in.sched.MaxModelLen)
	if in.hasher != nil {
		in.hasher.HashPrompt(r)
	}
	return r, nil
}

func (in *Intake) check(req *protocol.EngineCoreRequest) error {
	p := req.SamplingParams
	switch {
	case req.RequestID == "":
		return invalid("request_id is empty")
	case req.ClientIndex < 0 || req.ClientIndex >= in.numClients:
		return invalid("client_index is %d, there are %d clients", req.ClientIndex, in.numClients)
	case len(req.Unsupported) > 0:
		return invalid("not supported: %s", strings.Join(req.Unsupported, ", "))
	case p == nil:
		return invalid("sampling_params is missing")
	case len(p.Unsupported) > 0:
		return invalid("not supported: sampling_params.%s", strings.Join(p.Unsupported, ", sampling_params."))
	case len(req.PromptTokenIDs) == 0:
		return invalid("prompt_token_ids is empty")
	case math.IsNaN(req.ArrivalTime):
		return invalid("arrival_time is NaN")
	}
	if err := in.inVocab("prompt_token_ids", req.PromptTokenIDs); err != nil {
		return err
	}
	if err := in.checkParams(p); err != nil {
		return err
	}
	return in.sched.CheckFits(len(req.PromptTokenIDs))
}

// checkParams checks ranges, which are vLLM's: sampling_params.py, _verify_args.
func (in *Intake) checkParams(p *protocol.SamplingParams) error {
	if p.N != 1 {
		return invalid("n is %d, must be 1: a frontend sends every continuation apart", p.N)
	}
	for _, f := range []struct {
		name   string
		v      float64
		lo, hi float64
	}{
		{"temperature", p.Temperature, 0, math.MaxFloat64},
		{"top_p", p.TopP, math.SmallestNonzeroFloat64, 1},
		{"min_p", p.MinP, 0, 1},
		{"presence_penalty", p.PresencePenalty, -2, 2},
		{"frequency_penalty", p.FrequencyPenalty, -2, 2},
		{"repetition_penalty", p.RepetitionPenalty, math.SmallestNonzeroFloat64, math.MaxFloat64},
	} {
		if !(f.v >= f.lo && f.v <= f.hi) { // NaN fails too
			return invalid("%s is %v, must be %s", f.name, f.v, bounds(f.lo, f.hi))
		}
	}
	switch {
	case p.TopK < -1:
		return invalid("top_k is %d, must be -1, 0 (both: all) or more", p.TopK)
	case p.MaxTokens != nil && *p.MaxTokens < 1:
		return invalid("max_tokens is %d, must be at least 1", *p.MaxTokens)
	case p.MinTokens < 0:
		return invalid("min_tokens is %d, must be at least 0", p.MinTokens)
	case p.MaxTokens != nil && p.MinTokens > *p.MaxTokens:
		return invalid("min_tokens is %d, must be at most max_tokens %d", p.MinTokens, *p.MaxTokens)
	case len(p.LogprobTokenIDs) > maxLogprobTokenIDs:
		return invalid("logprob_token_ids has %d IDs, at most %d are allowed", len(p.LogprobTokenIDs), maxLogprobTokenIDs)
	case p.PromptLogprobs != nil && p.SkipReadingPrefixCache != nil && !*p.SkipReadingPrefixCache:
		return invalid("skip_reading_prefix_cache is false, but prompt_logprobs need the whole prompt computed; leave it out")
	case p.AllowedTokenIDs != nil && len(p.AllowedTokenIDs) == 0:
		return invalid("allowed_token_ids is empty, which allows nothing; leave it out to allow all")
	}
	return errors.Join(
		in.checkLogprobs("logprobs", p.Logprobs),
		in.checkLogprobs("prompt_logprobs", p.PromptLogprobs),
		in.checkTokenIDs(p),
	)
}

func (in *Intake) checkLogprobs(name string, k *int) error {
	if k == nil {
		return nil
	}
	n := *k
	if n < -1 {
		return invalid("%s is %d, must be -1 (all) or more", name, n)
	}
	if n == -1 {
		n = in.vocabSize
	}
	most := in.maxLogprobs
	if most == -1 {
		most = in.vocabSize
	}
	switch {
	case n > in.vocabSize:
		return invalid("%s is %d, the vocabulary has %d tokens; -1 means all", name, *k, in.vocabSize)
	case n > most:
		return invalid("%s is %d, must be at most %d (--max-logprobs)", name, *k, most)
	}
	return nil
}

// checkTokenIDs finds IDs outside the vocabulary anywhere in the parameters.
func (in *Intake) checkTokenIDs(p *protocol.SamplingParams) error {
	errs := []error{
		in.inVocab("stop_token_ids", p.StopTokenIDs),
		in.inVocab("_all_stop_token_ids", p.AllStopTokenIDs),
		in.inVocab("allowed_token_ids", p.AllowedTokenIDs),
		in.inVocab("logprob_token_ids", p.LogprobTokenIDs),
	}
	if p.EOSTokenID != nil {
		errs = append(errs, in.inVocab("_eos_token_id", []int32{*p.EOSTokenID}))
	}
	for i, words := range p.BadWordsTokenIDs {
		if len(words) == 0 {
			errs = append(errs, invalid("_bad_words_token_ids has no tokens at position %d", i))
		}
		errs = append(errs, in.inVocab("_bad_words_token_ids", words))
	}
	for id, bias := range p.LogitBias {
		errs = append(errs, in.inVocab("logit_bias", []int32{id}))
		if !(math.Abs(bias) <= math.MaxFloat32) { // NaN too
			errs = append(errs, invalid("logit_bias of token %d is %v, must be a finite float32", id, bias))
		}
	}
	return errors.Join(errs...)
}

func (in *Intake) inVocab(field string, ids []int32) error {
	for i, id := range ids {
		if id < 0 || int(id) >= in.vocabSize {
			return invalid("%s has token ID %d at position %d, the vocabulary has IDs 0 to %d", field, id, i, in.vocabSize-1)
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalidRequest}, args...)...)
}

// bounds words a range for people: the extreme floats stand for open ends.
func bounds(lo, hi float64) string {
	low := fmt.Sprintf("at least %v", lo)
	if lo == math.SmallestNonzeroFloat64 {
		low = "above 0"
	}
	if hi == math.MaxFloat64 {
		return low + " and finite"
	}
	return fmt.Sprintf("%s and at most %v", low, hi)
}
