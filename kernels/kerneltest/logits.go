package kerneltest

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"govllm/kernels"
)

// processed returns the logits that each row draws from.
func (b *bench) processed(logits matrix, rows []kernels.SamplingRow) matrix {
	b.t.Helper()
	a := b.load(logits)
	b.q.Process(a, rows)
	out := b.rows(a)
	b.sync()
	return out
}

// addChanges gives a row changes of every kind, each on or off by chance.
func addChanges(r *kernels.SamplingRow, rng *rand.Rand, vocab int) {
	id := func() int32 { return int32(rng.IntN(vocab+2) - 1) } // beyond the row too
	ids := func(n int) (list []int32) {
		for range n {
			list = append(list, id())
		}
		return list
	}
	if rng.IntN(4) == 0 {
		r.Allowed = append(ids(rng.IntN(2*vocab)), int32(rng.IntN(vocab)))
	}
	if rng.IntN(2) == 0 {
		r.Banned = ids(rng.IntN(5))
	}
	for range rng.IntN(4) {
		r.Bias = append(r.Bias, kernels.TokenBias{ID: id(), Bias: float32(rng.NormFloat64() * 3)})
	}
	if rng.IntN(3) > 0 {
		pick := func(values ...float32) float32 { return values[rng.IntN(len(values))] }
		r.Repetition, r.Frequency, r.Presence = pick(0, 1, 1.1, 0.7, 3), pick(0, 0.3, -0.7, 2), pick(0, 0.1, -1.3)
		for _, t := range rng.Perm(vocab)[:rng.IntN(min(vocab, 300)+1)] {
			r.Seen = append(r.Seen, kernels.TokenCount{ID: int32(t), Output: int32(rng.IntN(4))})
		}
		r.Seen = append(r.Seen, kernels.TokenCount{ID: int32(vocab)}, kernels.TokenCount{ID: -5, Output: 1})
	}
}

// changedRows are random logits, many of them ties, with random parameters.
func changedRows(vocab, n int) (matrix, []kernels.SamplingRow) {
	rng := newRand(uint64(vocab) + 99)
	logits, rows := normal(rng, n, vocab, 3), make([]kernels.SamplingRow, n)
	for i := range rows {
		row := logits.row(i)
		for j := range row {
			switch {
			case i%3 == 1:
				row[j] = float32(math.Round(float64(row[j])))
			case i%7 == 2 && j%5 == 0:
				row[j] = float32(math.Inf(-1))
			}
		}
		rows[i] = randomRow(rng)
		addChanges(&rows[i], rng, vocab)
	}
	logits.row(n - 1)[rng.IntN(vocab)] = float32(math.NaN())
	return logits, rows
}

// Changed rows draw the reference's tokens, and Process shows the reference's
// distribution, number by number.
func testChanges(t *testing.T, s suite) {
	for _, vocab := range []int{1, 3, 17, 64, 100, 1023, 2049} {
		logits, rows := changedRows(vocab, 120)
		dev, def := s.device(t, 2), reference(t)
		got, want := dev.sampleAll(logits, rows), def.sampleAll(logits, rows)
		processed, wantProcessed := dev.processed(logits, rows), def.processed(logits, rows)
		for i := range rows {
			if got[i] != want[i] {
				t.Errorf("Sample(vocab %d, %+v) = %d, want %d", vocab, rows[i], got[i], want[i])
			}
			for j, w := range wantProcessed.row(i) {
				if g := processed.row(i)[j]; g != w && (g == g || w == w) {
					t.Fatalf("Process(vocab %d, %+v)[%d] = %v, want %v", vocab, rows[i], j, g, w)
				}
			}
		}
	}
}

// biases and seen make lists of pairs.
func biases(pairs ...float32) (list []kernels.TokenBias) {
	for p := range slices.Chunk(pairs, 2) {
		list = append(list, kernels.TokenBias{ID: int32(p[0]), Bias: p[1]})
	}
	return list
}

func seen(pairs ...int32) (list []kernels.TokenCount) {
	for p := range slices.Chunk(pairs, 2) {
		list = append(list, kernels.TokenCount{ID: p[0], Output: p[1]})
	}
	return list
}

// Each change by itself and their order, with numbers a person can follow.
func testChangeTable(t *testing.T, s suite) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	logits := []float32{2, -2, 0, 4, 1}
	for _, c := range []struct {
		name   string
		logits []float32 // nil: the above
		row    kernels.SamplingRow
		want   []float32
	}{
		{"nothing", nil, kernels.SamplingRow{}, logits},
		{"allowed", nil, kernels.SamplingRow{Allowed: []int32{4, 1, 1, 9, -1}}, []float32{-inf, -2, -inf, -inf, 1}},
		{"none allowed", nil, kernels.SamplingRow{Allowed: []int32{}}, []float32{-inf, -inf, -inf, -inf, -inf}},
		{"banned", nil, kernels.SamplingRow{Banned: []int32{3, 5, -1}}, []float32{2, -2, 0, -inf, 1}},
		{"bias", nil, kernels.SamplingRow{Bias: biases(0, 3, 1, -1, 7, 1)}, []float32{5, -3, 0, 4, 1}},
		{"repetition divides what is above 0 and multiplies the rest; prompt tokens count", nil,
			kernels.SamplingRow{Repetition: 2, Seen: seen(0, 0, 1, 0, 2, 1, 3, 5)}, []float32{1, -4, 0, 2, 1}},
		{"frequency counts the output", nil,
			kernels.SamplingRow{Frequency: 0.5, Seen: seen(0, 0, 1, 1, 3, 4)}, []float32{2, -2.5, 0, 2, 1}},
		{"presence does not count", nil,
			kernels.SamplingRow{Presence: 0.5, Seen: seen(0, 0, 1, 1, 3, 4)}, []float32{2, -2.5, 0, 3.5, 1}},
		{"all penalties: repetition, then frequency, then presence", nil,
			kernels.SamplingRow{Repetition: 2, Frequency: 1, Presence: 0.25, Seen: seen(3, 2)}, []float32{2, -2, 0, -0.25, 1}},
		{"penalties see the bias", nil,
			kernels.SamplingRow{Bias: biases(1, 6), Repetition: 2, Seen: seen(1, 0)}, []float32{2, 2, 0, 4, 1}},
		{"no bias brings a banned token back", nil,
			kernels.SamplingRow{Allowed: []int32{0, 1}, Banned: []int32{1}, Bias: biases(1, 100, 2, 100),
				Repetition: 0.5, Seen: seen(1, 1)}, []float32{2, -inf, -inf, -inf, -inf}},
		{"rewards", nil,
			kernels.SamplingRow{Repetition: 0.5, Frequency: -1, Presence: -2, Seen: seen(1, 3)}, []float32{2, 4, 0, 4, 1}},
		{"a NaN stays", []float32{1, nan, 2}, kernels.SamplingRow{Allowed: []int32{0}, Banned: []int32{1}}, []float32{1, nan, -inf}},
		{"temperature comes last", nil,
			kernels.SamplingRow{Temperature: 0.5, TopP: 1, Bias: biases(0, 1)}, []float32{6, -4, 0, 8, 2}},
		{"top-k of the changed", nil,
			kernels.SamplingRow{Temperature: 1, TopP: 1, TopK: 2, Banned: []int32{3}}, []float32{2, -inf, -inf, -inf, 1}},
		{"min-p", nil, kernels.SamplingRow{Temperature: 1, TopP: 1, MinP: 0.1}, []float32{2, -inf, -inf, 4, -inf}},
		{"top-p", nil, kernels.SamplingRow{Temperature: 2, TopP: 0.5}, []float32{-inf, -inf, -inf, 2, -inf}},
		{"greedy is only changed", nil, kernels.SamplingRow{TopP: 0.1, TopK: 1, MinP: 1, Banned: []int32{3}}, []float32{2, -2, 0, -inf, 1}},
	} {
		if c.logits == nil {
			c.logits = logits
		}
		got := s.device(t, 1).processed(matrix{1, len(c.logits), c.logits}, []kernels.SamplingRow{c.row})
		for i, w := range c.want {
			if g := got.values[i]; g != w && (g == g || w == w) {
				t.Errorf("%s: Process(%v, %+v) = %v, want %v", c.name, c.logits, c.row, got.values, c.want)
				break
			}
		}
	}
	testChangesAreCopied(t, s)
}

// testChangesAreCopied changes every list after recording. The row itself must
// keep its logits.
func testChangesAreCopied(t *testing.T, s suite) {
	b := s.device(t, 1)
	out, got := must(b.dev.NewInts(1))(t), make([]int32, 1)
	row := kernels.SamplingRow{Allowed: []int32{0, 1, 2}, Bias: biases(0, 9), Frequency: 1, Seen: seen(0, 8)}
	logits := b.load(matrix{1, 4, []float32{1, 3, 2, 9}})
	b.q.Sample(out, logits, []kernels.SamplingRow{row})
	row.Allowed[1], row.Bias[0].ID, row.Seen[0].ID = 0, 2, 1
	b.q.Download(got, out)
	after := b.rows(logits)
	b.sync()
	if got[0] != 1 {
		t.Errorf("Sample = %d with lists changed after recording, want 1", got[0])
	}
	same(t, "logits after Sample", after.values, []float32{1, 3, 2, 9})
}

// Frequencies with changes and filters together follow the distribution that
// the formulas of vLLM give in float64.
func testChangedDistribution(t *testing.T, s suite) {
	const vocab = 30
	logits := normal(newRand(77), 1, vocab, 1.5).values
	changes := kernels.SamplingRow{
		Allowed: counting(25), Banned: []int32{3, 4}, Bias: biases(5, 2, 6, -1), Repetition: 1.5, Frequency: 0.25, Presence: 0.5,
		Seen: seen(0, 2, 5, 1, 7, 0, 8, 4, 9, 0, 10, 1),
	}
	for _, filters := range []kernels.SamplingRow{
		{Temperature: 1, TopP: 1},
		{Temperature: 0.7, TopP: 0.85},
		{Temperature: 1.5, TopP: 0.95, TopK: 12, MinP: 0.03},
	} {
		row := changes
		row.Temperature, row.TopP, row.TopK, row.MinP = filters.Temperature, filters.TopP, filters.TopK, filters.MinP
		checkFrequencies(t, s, logits, row, exactDistribution(exactChanges(logits, row), row))
	}
}

// exactChanges is apply_logits_processors of vLLM, in its order, in float64.
func exactChanges(logits []float32, r kernels.SamplingRow) []float64 {
	x := make([]float64, len(logits))
	for i, v := range logits {
		x[i] = float64(v)
		if r.Allowed != nil && !slices.Contains(r.Allowed, int32(i)) || slices.Contains(r.Banned, int32(i)) {
			x[i] = math.Inf(-1)
		}
	}
	for _, b := range r.Bias {
		x[b.ID] += float64(b.Bias)
	}
	for _, c := range r.Seen {
		scaling := float64(cmp.Or(r.Repetition, 1))
		if x[c.ID] > 0 {
			scaling = 1 / scaling
		}
		x[c.ID] *= scaling
		x[c.ID] -= float64(r.Frequency) * float64(c.Output)
		x[c.ID] -= float64(r.Presence) * float64(min(c.Output, 1))
	}
	return x
}

// askAll asks for the log probabilities of what chosen holds for each row.
func (b *bench) askAll(logits matrix, chosen []int32, rows []kernels.LogprobRow) kernels.Logprobs {
	b.t.Helper()
	width := 0
	for i := range rows {
		width += rows[i].Width()
	}
	out := kernels.Logprobs{TokenIDs: make([]int32, width), Values: make([]float32, width), Ranks: make([]int32, len(rows))}
	b.q.Logprobs(out, b.load(logits), b.ints(chosen...), rows)
	b.sync()
	return out
}

func testLogprobs(t *testing.T, s suite) {
	for _, vocab := range []int{1, 5, 64, 100, 1023, 2049, 50257} {
		rng := newRand(uint64(vocab) + 7)
		n := min(60, 200_000/vocab)
		logits, _ := changedRows(vocab, n)
		chosen, rows := make([]int32, n), []kernels.LogprobRow{}
		for i := range n {
			chosen[i] = int32(rng.IntN(vocab))
			row := kernels.LogprobRow{Row: rng.IntN(n), K: min(vocab, []int{0, 1, 2, 5, 20, 300, vocab}[i%7])}
			if i%5 == 4 {
				row.IDs = []int32{int32(rng.IntN(vocab)), int32(vocab - 1), int32(vocab), -1, 0, 0}
			}
			rows = append(rows, row)
		}
		chosen[0] = -1
		got, want := s.device(t, 2).askAll(logits, chosen, rows), reference(t).askAll(logits, chosen, rows)
		if !slices.Equal(got.TokenIDs, want.TokenIDs) || !slices.Equal(got.Ranks, want.Ranks) {
			t.Errorf("Logprobs(vocab %d): IDs %v ranks %v, want %v, %v", vocab, got.TokenIDs[:min(40, len(got.TokenIDs))], got.Ranks, want.TokenIDs[:min(40, len(want.TokenIDs))], want.Ranks)
		}
		at := 0
		for _, r := range rows {
			end := at + r.Width()
			checkLogprobs(t, logits.row(r.Row), got.TokenIDs[at:end], got.Values[at:end])
			at = end
		}
	}
}

// checkLogprobs holds values against log-softmax in float64.
func checkLogprobs(t *testing.T, logits []float32, ids []int32, values []float32) {
	t.Helper()
	exact := logSoftmax(logits)
	for i, id := range ids {
		want := math.NaN()
		if id >= 0 && int(id) < len(logits) {
			want = exact[id]
		}
		g := float64(values[i])
		if g != want && !(math.Abs(g-want) <= 1e-6*(1+math.Abs(want))) && (g == g || want == want) {
			t.Fatalf("log probability of token %d of %d = %v, want %v", id, len(logits), g, want)
		}
	}
}

func logSoftmax(logits []float32) []float64 {
	top, sum := math.Inf(-1), 0.0
	for _, x := range logits {
		top = math.Max(top, float64(x))
	}
	for _, x := range logits {
		sum += math.Exp(float64(x) - top)
	}
	out := make([]float64, len(logits))
	for i, x := range logits {
		out[i] = float64(x) - top - math.Log(sum)
	}
	return out
}

// Order, ties, rank and rows without a distribution, by hand.
func testLogprobTable(t *testing.T, s suite) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		name   string
		logits []float32
		chosen int32
		row    kernels.LogprobRow
		ids    []int32
		rank   int32
		values []float32 // nil: as log-softmax says
	}{
		{"chosen only", []float32{1, 3, 2}, 2, kernels.LogprobRow{}, []int32{2}, 2, nil},
		{"best first", []float32{1, 3, 2}, 1, kernels.LogprobRow{K: 2}, []int32{1, 1, 2}, 1, nil},
		{"ties go to the lowest ID; the rank counts all of them", []float32{2, 1, 2, 2, 0}, 2, kernels.LogprobRow{K: 3}, []int32{2, 0, 2, 3}, 3, nil},
		{"all", []float32{-1, 0, 5, 0}, 0, kernels.LogprobRow{K: 4}, []int32{0, 2, 1, 3, 0}, 4, nil},
		{"−0 equals 0", []float32{-1, float32(math.Copysign(0, -1)), 0}, 2, kernels.LogprobRow{K: 2}, []int32{2, 1, 2}, 2, nil},
		{"given IDs, in their order", []float32{1, 3, 2}, 0, kernels.LogprobRow{K: 2, IDs: []int32{2, 0, 2, 1}}, []int32{0, 2, 0, 2, 1}, 3, nil},
		{"−Inf", []float32{1, -inf, -inf}, 0, kernels.LogprobRow{K: 3}, []int32{0, 0, 1, 2}, 1, []float32{0, 0, -inf, -inf}},
		{"far apart", []float32{500, 0, -500}, 0, kernels.LogprobRow{K: 3}, []int32{0, 0, 1, 2}, 1, []float32{0, 0, -500, -1000}},
		{"a NaN", []float32{1, nan, 3}, 0, kernels.LogprobRow{K: 2}, []int32{0, 0, 1}, 1, []float32{nan, nan, nan}},
		{"+Inf", []float32{1, inf, 3}, 0, kernels.LogprobRow{K: 1}, []int32{0, 0}, 1, []float32{nan, nan}},
		{"nothing chosen", []float32{0, 0}, -1, kernels.LogprobRow{K: 1}, []int32{-1, 0}, 1, nil},
	} {
		got := s.device(t, 1).askAll(matrix{1, len(c.logits), c.logits}, []int32{c.chosen}, []kernels.LogprobRow{c.row})
		if !slices.Equal(got.TokenIDs, c.ids) || got.Ranks[0] != c.rank {
			t.Errorf("%s: Logprobs(%v, %d, %+v) = %v, rank %d; want %v, %d", c.name, c.logits, c.chosen, c.row, got.TokenIDs, got.Ranks[0], c.ids, c.rank)
			continue
		}
		if c.values == nil {
			checkLogprobs(t, c.logits, got.TokenIDs, got.Values)
			continue
		}
		for i, w := range c.values {
			if g := got.Values[i]; g != w && (g == g || w == w) {
				t.Errorf("%s: Logprobs(%v) = %v, want %v", c.name, c.logits, got.Values, c.values)
				break
			}
		}
	}
}
