// Package sampler stands between a request's sampling parameters and the
// device's operations: it turns them into the row that each draw needs, and
// keeps what changes from draw to draw, so that a step costs a request what
// its lists are long.
//
// The draw itself is a kernels.Queue operation, so that logits never leave the
// device. Ranges are checked where a request enters the engine, by
// enginecore.Intake.
package sampler

import (
	"cmp"
	"math"
	"slices"

	"govllm/kernels"
	"govllm/protocol"
)

// minTemperature is what lower temperatures above 0 are raised to, because
// logits divided by less overflow.
// Source: vllm/sampling_params.py, _MAX_TEMP (0.01).
const minTemperature = 0.01

// Row is one request's sampling state. The zero Row is ready for Reset.
type Row struct {
	base      kernels.SamplingRow // what stays the same over the draws
	minTokens int
	stops     []int32
	badWords  [][]int32
	asked     kernels.LogprobRow
	asks      bool

	// The tokens so far, for penalties. Those of the prompt count only where
	// there is a repetition penalty.
	penalized bool
	seen      []kernels.TokenCount
	place     map[int32]int // of a token in seen

	banned []int32 // of the draw being made
}

// Reset makes r the state of a request of vocabSize tokens that has generated
// what comes after tokens[:prompt]. The ranges of p were checked. Buffers of
// the request before serve again.
func (r *Row) Reset(p *protocol.SamplingParams, seed uint64, vocabSize int, tokens []int32, prompt int) {
	clear(r.place)
	*r = Row{
		base:      baseOf(p, seed),
		minTokens: p.MinTokens,
		stops:     p.AllStopTokenIDs,
		badWords:  p.BadWordsTokenIDs,
		seen:      r.seen[:0],
		place:     r.place,
		banned:    r.banned[:0],
	}
	r.asked, r.asks = Asked(p, vocabSize)
	if b := &r.base; b.Repetition == 0 && b.Frequency == 0 && b.Presence == 0 {
		return
	}
	r.penalized = true
	if r.place == nil {
		r.place = map[int32]int{}
	}
	if r.base.Repetition != 0 {
		for _, t := range tokens[:prompt] {
			r.count(t, 0)
		}
	}
	for _, t := range tokens[prompt:] {
		r.count(t, 1)
	}
}

// baseOf is what all draws of a request have in common. At temperature 0 the
// filters are off, as they can't change the highest logit.
func baseOf(p *protocol.SamplingParams, seed uint64) kernels.SamplingRow {
	r := kernels.SamplingRow{
		TopP:      1,
		Seed:      seed,
		Allowed:   p.AllowedTokenIDs,
		Frequency: float32(p.FrequencyPenalty),
		Presence:  float32(p.PresencePenalty),
	}
	if p.RepetitionPenalty != 1 {
		r.Repetition = repetition(p.RepetitionPenalty)
	}
	for id, bias := range p.LogitBias {
		r.Bias = append(r.Bias, kernels.TokenBias{ID: id, Bias: float32(bias)})
	}
	slices.SortFunc(r.Bias, func(a, b kernels.TokenBias) int { return cmp.Compare(a.ID, b.ID) })
	if p.Temperature > 0 {
		r.Temperature = float32(max(p.Temperature, minTemperature))
		r.TopP = float32(p.TopP)
		r.MinP = float32(p.MinP)
		r.TopK = int32(min(max(p.TopK, 0), math.MaxInt32))
	}
	return r
}

// repetition keeps a penalty that float32 can't hold from becoming 0, which
// means none, or infinite, which makes NaNs of zeros.
func repetition(p float64) float32 {
	const smallest = 0x1p-126 // that is normal
	return float32(min(max(p, smallest), math.MaxFloat32))
}

// Asked says which log probabilities every token of a request comes with, false
// for none. Given IDs win over a number, as in vLLM.
func Asked(p *protocol.SamplingParams, vocabSize int) (kernels.LogprobRow, bool) {
	if len(p.LogprobTokenIDs) > 0 {
		return kernels.LogprobRow{IDs: p.LogprobTokenIDs}, true
	}
	return NumLogprobs(p.Logprobs, vocabSize)
}

// NumLogprobs reads logprobs or prompt_logprobs: how many alternatives, -1 for
// the whole vocabulary. It is false where none were asked.
func NumLogprobs(n *int, vocabSize int) (kernels.LogprobRow, bool) {
	switch {
	case n == nil:
		return kernels.LogprobRow{}, false
	case *n == -1:
		return kernels.LogprobRow{K: vocabSize}, true
	}
	return kernels.LogprobRow{K: *n}, true
}

func (r *Row) count(token int32, output int32) {
	i, ok := r.place[token]
	if !ok {
		i = len(r.seen)
		r.place[token] = i
		r.seen = append(r.seen, kernels.TokenCount{ID: token})
	}
	r.seen[i].Output += output
}

// Append counts a generated token.
func (r *Row) Append(token int32) {
	if r.penalized {
		r.count(token, 1)
	}
}

// Draw returns the device's row for a request that has generated output. Its
// lists live until the next Draw or Append. Below min_tokens the stop tokens
// can't be drawn, and never the token that would complete a bad word.
func (r *Row) Draw(output []int32) kernels.SamplingRow {
	row := r.base
	row.Position = uint64(len(output))
	row.Seen = r.seen
	if len(r.badWords) == 0 {
		if len(output) < r.minTokens {
			row.Banned = r.stops
		}
		return row
	}
	r.banned = r.banned[:0]
	for _, word := range r.badWords {
		head := word[:len(word)-1]
		if len(head) <= len(output) && slices.Equal(output[len(output)-len(head):], head) {
			r.banned = append(r.banned, word[len(head)])
		}
	}
	if len(output) < r.minTokens {
		r.banned = append(r.banned, r.stops...)
	}
	row.Banned = r.banned
	return row
}

// Logprobs says which log probabilities the drawn token comes with, false for
// none.
func (r *Row) Logprobs() (kernels.LogprobRow, bool) { return r.asked, r.asks }
