package kerneltest

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"govllm/kernels"
)

// sampleAll draws one token for each row of logits.
func (b *bench) sampleAll(logits matrix, rows []kernels.SamplingRow) []int32 {
	b.t.Helper()
	out := must(b.dev.NewInts(len(rows)))(b.t)
	got := make([]int32, len(rows))
	b.q.Sample(out, b.load(logits), rows)
	b.q.Download(got, out)
	b.sync()
	return got
}

// randomRow returns sampling parameters with every filter on or off by chance.
func randomRow(rng *rand.Rand) kernels.SamplingRow {
	r := kernels.SamplingRow{TopP: 1, Seed: rng.Uint64(), Position: rng.Uint64N(5000)}
	pick := func(values ...float64) float32 { return float32(values[rng.IntN(len(values))]) }
	r.Temperature = pick(0, 0.3, 0.7, 1, 1, 1.5, 5, 1e-3, 1e4)
	r.TopP = pick(1, 1, 0.01, 0.5, 0.9, 0.95, 0.999, 0)
	r.MinP = pick(0, 0, 0, 0.001, 0.05, 0.5, 1)
	r.TopK = int32(pick(0, 0, 1, 2, 5, 40, 64, 1000, 1e6))
	return r
}

// testSample wants the reference's own tokens, for every filter, vocabulary
// size and shape of distribution: peaked, flat, with ties, with −Inf.
func testSample(t *testing.T, s suite) {
	for _, vocab := range []int{1, 2, 7, 64, 100, 1023, 2049, 50257} {
		rng := newRand(uint64(vocab))
		n := 90
		if vocab > 10_000 {
			n = 18
		}
		if raceEnabled {
			n = 12
		}
		logits := newMatrix(n, vocab)
		rows := make([]kernels.SamplingRow, n)
		for i := range n {
			row := logits.row(i)
			for j := range row {
				x := rng.NormFloat64()
				switch i % 6 {
				case 1:
					x *= 8
				case 2:
					x = math.Round(x * 2) // many ties
				case 3:
					x = 0.25
				case 4:
					if j%3 != 0 {
						x = math.Inf(-1)
					}
				case 5:
					x = x*1e-3 - 100
				}
				row[j] = float32(x)
			}
			rows[i] = randomRow(rng)
			if i%4 == 0 && vocab > 7 {
				rows[i].Banned = []int32{0, int32(vocab - 1), int32(rng.IntN(vocab))}
			}
		}
		logits.row(n - 1)[rng.IntN(vocab)] = float32(math.NaN())
		got, want := s.device(t, 2).sampleAll(logits, rows), reference(t).sampleAll(logits, rows)
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("Sample(vocab %d, %+v) = %d, want %d", vocab, rows[i], got[i], want[i])
			}
		}
	}
}

func testSampleEdges(t *testing.T, s suite) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	warm := kernels.SamplingRow{Temperature: 1, TopP: 1, Seed: 7}
	with := func(change func(*kernels.SamplingRow)) kernels.SamplingRow {
		r := warm
		change(&r)
		return r
	}
	greedy := kernels.SamplingRow{TopP: 1}
	banning := func(r kernels.SamplingRow, ids ...int32) kernels.SamplingRow {
		r.Banned = ids
		return r
	}
	for _, c := range []struct {
		name   string
		logits []float32
		row    kernels.SamplingRow
		want   int32
	}{
		{"greedy tie goes to the lowest ID", []float32{1, 3, 2, 3}, greedy, 1},
		{"greedy, −0 equals 0", []float32{-1, float32(math.Copysign(0, -1)), 0}, greedy, 1},
		{"greedy, −Inf and all", []float32{-inf, -5, -inf, -6}, greedy, 1},
		{"greedy, a NaN", []float32{2, -5, nan, -6}, greedy, -1},
		{"greedy, +Inf", []float32{2, inf, 1}, greedy, -1},
		{"greedy, all −Inf", []float32{-inf, -inf}, greedy, -1},
		{"greedy, banned", []float32{5, 9, 9, 7}, banning(greedy, 1, 2, -1, 4, 1<<30), 3},
		{"a banned NaN", []float32{5, nan, 9, 7}, banning(greedy, 1, 2), -1},
		{"+Inf is banned", []float32{-1, inf, -2, -inf}, banning(greedy, 1), 0},
		{"all banned", []float32{1, 2}, banning(warm, 0, 1), -1},
		{"all but one banned", []float32{1, 2, 3, 4, 5}, banning(warm, 0, 1, 3, 4), 2},
		{"all −Inf but one", []float32{-inf, -inf, -1000, -inf}, warm, 2},
		{"all −Inf", []float32{-inf, -inf, -inf}, warm, -1},
		{"a NaN", []float32{1, 2, nan, 4, 3}, warm, -1},
		{"+Inf", []float32{1e30, inf, 5}, warm, -1},
		{"huge logits", []float32{3e38, -3e38, 1e38}, warm, 0},
		{"tiny temperature", []float32{1, 1.0001, 1}, with(func(r *kernels.SamplingRow) { r.Temperature = 1e-30 }), 1},
		{"NaN temperature is greedy", []float32{1, 2, 1}, with(func(r *kernels.SamplingRow) { r.Temperature = nan }), 1},
		{"top-k 1, tie", []float32{0, 2, 2, 2}, with(func(r *kernels.SamplingRow) { r.TopK = 1 }), 1},
		{"top-p 0 keeps one", []float32{0, 1, 1}, with(func(r *kernels.SamplingRow) { r.TopP = 0 }), 1},
		{"negative top-p keeps one", []float32{0, 1, 1}, with(func(r *kernels.SamplingRow) { r.TopP = -1 }), 1},
		{"min-p 1 keeps the highest", []float32{0, 1, 0.999}, with(func(r *kernels.SamplingRow) { r.MinP = 1 }), 1},
		{"min-p above 1 too", []float32{0, 1, 0.999}, with(func(r *kernels.SamplingRow) { r.MinP = 3 }), 1},
	} {
		got := s.device(t, 1).sampleAll(matrix{1, len(c.logits), c.logits}, []kernels.SamplingRow{c.row})
		if got[0] != c.want {
			t.Errorf("%s: Sample(%v, %+v) = %d, want %d", c.name, c.logits, c.row, got[0], c.want)
		}
	}
	testBannedIsCopied(t, s)
	// The draw depends on seed and position, not on the row or its mates.
	logits := newMatrix(64, 500)
	rows := make([]kernels.SamplingRow, 64)
	for i := range rows {
		copy(logits.row(i), normal(newRand(30), 1, 500, 1).values)
		rows[i] = warm
	}
	b := s.device(t, 3)
	got := b.sampleAll(logits, rows)
	for i := range got {
		if got[i] != got[0] {
			t.Errorf("row %d of equal rows draws %d, row 0 draws %d", i, got[i], got[0])
		}
		rows[i].Position = uint64(i)
	}
	distinct := map[int32]bool{}
	for _, id := range b.sampleAll(logits, rows) {
		distinct[id] = true
	}
	if len(distinct) < 30 {
		t.Errorf("64 positions drew %d distinct tokens of 500", len(distinct))
	}
}

// testBannedIsCopied changes the list after recording.
func testBannedIsCopied(t *testing.T, s suite) {
	b := s.device(t, 1)
	out, got, banned := must(b.dev.NewInts(1))(t), make([]int32, 1), []int32{1}
	b.q.Sample(out, b.load(matrix{1, 3, []float32{1, 3, 2}}), []kernels.SamplingRow{{Banned: banned}})
	banned[0] = 2
	b.q.Download(got, out)
	b.sync()
	if got[0] != 2 {
		t.Errorf("Sample with token 1 banned while recording = %d, want 2", got[0])
	}
}

// testSampleDistribution compares frequencies over many positions of one seed
// with the exact probabilities, computed here from the words of vLLM's
// documentation in float64, by Pearson's χ².
func testSampleDistribution(t *testing.T, s suite) {
	logits := normal(newRand(31), 1, 40, 1.5).values
	logits[7] = logits[3] // a tie
	wide := make([]float64, len(logits))
	for i, x := range logits {
		wide[i] = float64(x)
	}
	for _, row := range []kernels.SamplingRow{
		{Temperature: 1, TopP: 1},
		{Temperature: 0.6, TopP: 1},
		{Temperature: 1, TopP: 0.8},
		{Temperature: 1.3, TopP: 1, TopK: 9},
		{Temperature: 1, TopP: 1, MinP: 0.1},
		{Temperature: 2, TopP: 0.7, TopK: 25, MinP: 0.05},
	} {
		checkFrequencies(t, s, logits, row, exactDistribution(wide, row))
	}
}

// checkFrequencies draws from one row of logits at many positions and holds how
// often each token came against its probability.
func checkFrequencies(t *testing.T, s suite, logits []float32, row kernels.SamplingRow, exact []float64) {
	t.Helper()
	const perStep, steps = 2000, 10
	vocab := len(logits)
	b := s.device(t, 2)
	x := b.activation(perStep, vocab)
	b.q.Embed(x, b.weight(kernels.F32, matrix{1, vocab, logits}), b.ints(make([]int32, perStep)...), 1, perStep)
	out := must(b.dev.NewInts(perStep))(t)
	counts := make([]float64, vocab)
	for step := range steps {
		rows := make([]kernels.SamplingRow, perStep)
		for i := range rows {
			rows[i] = row
			rows[i].Seed, rows[i].Position = 1234, uint64(step*perStep+i)
		}
		got := make([]int32, perStep)
		b.q.Sample(out, x, rows)
		b.q.Download(got, out)
		b.sync()
		for _, id := range got {
			counts[id]++
		}
	}
	chi2, kept := 0.0, 0
	for id, p := range exact {
		if p == 0 {
			if counts[id] > 0 {
				t.Errorf("%+v: token %d was filtered, but drawn %v times", row, id, counts[id])
			}
			continue
		}
		kept++
		want := p * perStep * steps
		chi2 += (counts[id] - want) * (counts[id] - want) / want
	}
	// Mean df, variance 2·df: six deviations are one in millions.
	df := float64(kept - 1)
	if limit := df + 6*math.Sqrt(2*df); chi2 > limit {
		t.Errorf("%+v: χ² of %d kept tokens is %.1f, want at most %.1f", row, kept, chi2, limit)
	}
}

// exactDistribution filters and renormalizes softmax(logits/temperature).
func exactDistribution(logits []float64, r kernels.SamplingRow) []float64 {
	p := make([]float64, len(logits))
	order := make([]int, len(logits))
	sum, top := 0.0, 0.0
	for i, x := range logits {
		p[i] = math.Exp(x / float64(r.Temperature))
		order[i] = i
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
		top = max(top, p[i])
	}
	normalize := func() {
		sum := 0.0
		for _, v := range p {
			sum += v
		}
		for i := range p {
			p[i] /= sum
		}
	}
	for i := range p {
		if p[i] < float64(r.MinP)*top {
			p[i] = 0
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(logits[b], logits[a]), cmp.Compare(a, b)) })
	for rank, i := range order {
		if r.TopK > 0 && rank >= int(r.TopK) {
			p[i] = 0
		}
	}
	normalize()
	before := 0.0
	for _, i := range order {
		mass := p[i]
		if before >= float64(r.TopP) {
			p[i] = 0
		}
		before += mass
	}
	normalize()
	return p
}
