// Package sampler stands between a request's sampling parameters and the
// device's Sample operation: it turns them into the row that each draw needs,
// and says which of them no draw would heed.
//
// The draw itself is a kernels.Queue operation, so that logits never leave the
// device. Ranges are checked where a request enters the engine, by
// enginecore.Intake.
package sampler

import (
	"errors"
	"fmt"
	"math"

	"govllm/kernels"
	"govllm/protocol"
)

// ErrNotServed reports a sampling parameter that would change the draw and that
// nothing here reads yet.
var ErrNotServed = errors.New("not served")

// CheckServed names every parameter that Draw would ignore, with its value.
// Until they are served they must stay at their defaults.
func CheckServed(p *protocol.SamplingParams) error {
	var errs []error
	must := func(isDefault bool, param string, value any) {
		if !isDefault {
			errs = append(errs, fmt.Errorf("%s = %v is %w", param, value, ErrNotServed))
		}
	}
	must(p.PresencePenalty == 0, "presence_penalty", p.PresencePenalty)
	must(p.FrequencyPenalty == 0, "frequency_penalty", p.FrequencyPenalty)
	must(p.RepetitionPenalty == 1, "repetition_penalty", p.RepetitionPenalty)
	must(p.Logprobs == nil, "logprobs", deref(p.Logprobs))
	must(p.PromptLogprobs == nil, "prompt_logprobs", deref(p.PromptLogprobs))
	must(len(p.LogprobTokenIDs) == 0, "logprob_token_ids", p.LogprobTokenIDs)
	must(len(p.LogitBias) == 0, "logit_bias", p.LogitBias)
	must(p.AllowedTokenIDs == nil, "allowed_token_ids", p.AllowedTokenIDs)
	must(len(p.BadWordsTokenIDs) == 0, "bad_words", p.BadWordsTokenIDs)
	return errors.Join(errs...)
}

func deref(v *int) any {
	if v == nil {
		return nil
	}
	return *v
}

// minTemperature is what lower temperatures above 0 are raised to, because
// logits divided by less overflow.
// Source: vllm/sampling_params.py, _MAX_TEMP (0.01).
const minTemperature = 0.01

// Row is one request's sampling state: what stays the same over its draws.
type Row struct {
	base      kernels.SamplingRow
	minTokens int
	stops     []int32
}

// NewRow takes over parameters whose ranges were checked. At temperature 0 the
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
