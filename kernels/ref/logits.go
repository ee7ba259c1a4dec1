package ref

import (
	"cmp"
	"math"
	"slices"

	"govllm/kernels"
)

var negInf = float32(math.Inf(-1))

// adjust returns logits as the request wants them changed, in vLLM's order:
//
//  1. all but the allowed tokens, and the banned ones, become −Inf
//  2. x += bias, pair by pair
//  3. x of a seen token is divided by the repetition penalty if above 0, else
//     multiplied by it
//  4. x −= frequency·count, then x −= presence, of a token in the output
//
// Each operation is rounded to float32 by itself. A NaN stays a NaN, so that
// its request fails instead of drawing from what is left.
//
// Source: vllm/v1/sample/sampler.py, apply_logits_processors.
func adjust(logits []float32, p kernels.SamplingRow) []float32 {
	x := slices.Clone(logits)
	at := func(id int32) *float32 {
		if id < 0 || int(id) >= len(x) {
			return new(float32)
		}
		return &x[id]
	}
	if p.Allowed != nil {
		for i := range x {
			if x[i] == x[i] {
				x[i] = negInf
			}
		}
		for _, id := range p.Allowed {
			if id >= 0 && int(id) < len(x) {
				x[id] = logits[id]
			}
		}
	}
	for _, id := range p.Banned {
		if v := at(id); *v == *v {
			*v = negInf
		}
	}
	for _, b := range p.Bias {
		*at(b.ID) += b.Bias
	}
	for _, c := range p.Seen {
		v := at(c.ID)
		if r := p.Repetition; r != 0 {
			if *v > 0 {
				*v /= r
			} else {
				*v *= r
			}
		}
		*v -= float32(p.Frequency * float32(c.Output))
		if c.Output > 0 {
			*v -= p.Presence
		}
	}
	return x
}

// process returns the logits of the distribution that sample draws from.
//
// Where top-k or top-p filters, a token below 2⁻⁴⁰ of the most likely one counts
// as filtered too.
func process(logits []float32, p kernels.SamplingRow) []float32 {
	x := adjust(logits, p)
	if !hasDistribution(x) || !(p.Temperature > 0) {
		return x
	}
	out := make([]float32, len(x))
	top, minP := x[argmax(x)], min(p.MinP, 1)
	filters := p.TopK > 0 && int(p.TopK) < len(x) || p.TopP < 1
	for i, v := range x {
		out[i] = v / p.Temperature
		if filters || Exp((v-top)/p.Temperature) < minP {
			out[i] = negInf
		}
	}
	if filters {
		for _, c := range filter(candidates(x, top, p), p) {
			out[c.id] = c.logit / p.Temperature
		}
	}
	return out
}

// logprobs fills ids and values, the row's width each, and returns the rank.
//
// The sum of exponentials is the sampler's: masses that are integers, so that
// it is the same in any order. log and what follows are float64, rounded once.
func logprobs(logits []float32, chosen int32, r kernels.LogprobRow, ids []int32, values []float32) (rank int32) {
	ids[0] = chosen
	if len(r.IDs) > 0 {
		copy(ids[1:], r.IDs)
	} else {
		copy(ids[1:], mostLikely(logits, r.K))
	}
	rank = 1
	known := func(id int32) bool { return id >= 0 && int(id) < len(logits) }
	ok := hasDistribution(logits)
	if ok && known(chosen) {
		rank = 0
		for _, x := range logits {
			if x >= logits[chosen] {
				rank++
			}
		}
	}
	top := float64(logits[argmax(logits)])
	logSum := math.Log(float64(total(candidates(logits, float32(top), kernels.SamplingRow{Temperature: 1}))) / massScale)
	for i, id := range ids {
		values[i] = float32(math.NaN())
		if ok && known(id) {
			values[i] = float32(float64(logits[id]) - top - logSum)
		}
	}
	return rank
}

// mostLikely returns the IDs of the k highest logits, equal ones by ID.
func mostLikely(logits []float32, k int) []int32 {
	order := make([]int32, len(logits))
	for i := range order {
		order[i] = int32(i)
	}
	if hasDistribution(logits) {
		slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(logits[b], logits[a]) })
	}
	return order[:k]
}
