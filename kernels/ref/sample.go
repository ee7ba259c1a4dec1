package ref

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"govllm/kernels"
)

// The sampler is defined so that every backend draws the same token from the
// same logits, whatever the order in which it sums:
//
//  1. The logits are changed as adjust says. A row that then holds a NaN, or
//     whose highest logit is not finite, draws −1. −0 counts as 0.
//  2. w = Exp((x − max)/Temperature): the probability over the largest one,
//     in float32, each operation rounded by itself (no fused multiply-add).
//  3. mass = w·2⁴⁰ rounded to an integer. Sums of integers are exact in any
//     order, and a token below 2⁻⁴⁰ of the most likely one is never drawn.
//  4. Candidates have w ≥ MinP and mass > 0. In order of logit, highest first,
//     equal ones by ID, lowest first: the first TopK stay; then those before
//     which less than TopP of what then remains has been counted.
//  5. u = Random(Seed, Position) picks the point ⌊u·M/2⁶⁴⌋ of the total mass
//     M; the token is the one that holds this point in ascending ID order.
//
// Not Temperature > 0: the highest logit, the lowest ID among equals.

// massScale is the mass of the most likely token. 2²³ tokens fit 63 bits.
const massScale = 1 << 40

// noToken is the draw of a row that has no distribution.
const noToken = -1

type candidate struct {
	id    int
	logit float32
	mass  uint64
}

func sample(logits []float32, p kernels.SamplingRow) int {
	logits = adjust(logits, p)
	best := argmax(logits)
	if !hasDistribution(logits) {
		return noToken
	}
	if !(p.Temperature > 0) {
		return best
	}
	kept := filter(candidates(logits, logits[best], p), p)
	slices.SortFunc(kept, func(a, b candidate) int { return cmp.Compare(a.id, b.id) })
	point, _ := bits.Mul64(Random(p.Seed, p.Position), total(kept))
	for _, c := range kept {
		if point < c.mass {
			return c.id
		}
		point -= c.mass
	}
	panic("ref: point beyond the total mass")
}

// hasDistribution says whether there is something to draw.
func hasDistribution(logits []float32) bool {
	return !slices.ContainsFunc(logits, func(x float32) bool { return x != x }) &&
		!math.IsInf(float64(logits[argmax(logits)]), 0)
}

// filter applies top-k and top-p. The candidates come back in order of logit.
func filter(kept []candidate, p kernels.SamplingRow) []candidate {
	slices.SortFunc(kept, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.logit, a.logit), cmp.Compare(a.id, b.id))
	})
	if k := int(p.TopK); k > 0 && k < len(kept) {
		kept = kept[:k]
	}
	if p.TopP < 1 {
		kept = topP(kept, p.TopP)
	}
	return kept
}

func argmax(logits []float32) int {
	best := 0
	for i, x := range logits {
		if x > logits[best] {
			best = i
		}
	}
	return best
}

func candidates(logits []float32, top float32, p kernels.SamplingRow) (kept []candidate) {
	minP := min(p.MinP, 1)
	for id, x := range logits {
		w := Exp((x - top) / p.Temperature)
		mass := uint64(math.RoundToEven(float64(w) * massScale))
		if mass == 0 || w < minP {
			continue
		}
		kept = append(kept, candidate{id, x, mass})
	}
	return kept
}

// topP returns the shortest prefix with at least p of the mass, never none.
func topP(sorted []candidate, p float32) []candidate {
	limit := uint64(max(0, float64(p)*float64(total(sorted))))
	before := sorted[0].mass
	for i, c := range sorted[1:] {
		if before >= limit {
			return sorted[:i+1]
		}
		before += c.mass
	}
	return sorted
}

func total(cs []candidate) (sum uint64) {
	for _, c := range cs {
		sum += c.mass
	}
	return sum
}

// Exp is e^x in float32 for x in [−87, 88], and 0 below and for NaN. It is made
// of single multiplications and additions, so that every backend can repeat it
// bit for bit; its error is below 1.2e-7 of the value, and it never falls as x
// rises (over every float32 in [−87, 0]).
// Source: the coefficients of Moshier's Cephes, expf.
func Exp(x float32) float32 {
	if !(x >= -87) {
		return 0
	}
	const magic = 3 << 22 // adding it rounds to an integer, ties to even
	t := float32(x*0x1.715476p+0) + magic
	n := t - magic
	r := x - float32(n*0x1.63p-1)
	r -= float32(n * -0x1.bd0106p-13)
	y := float32(1.9875691500e-4)
	for _, c := range [...]float32{1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1} {
		y = float32(y*r) + c
	}
	y = float32(y*float32(r*r)) + r
	y++
	return y * math.Float32frombits(uint32(int32(n)+127)<<23)
}
