package sampler_test

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"govllm/enginecore/sampler"
	"govllm/kernels"
	"govllm/protocol"
)

const vocab = 100

func with(set func(*protocol.SamplingParams)) *protocol.SamplingParams {
	p := protocol.DefaultSamplingParams()
	set(&p)
	return &p
}

func ptr[T any](v T) *T { return &v }

func TestDraw(t *testing.T) {
	type params = protocol.SamplingParams
	type row = kernels.SamplingRow
	prompt := []int32{7, 8, 7}
	stops, words := []int32{4, 5}, [][]int32{{9}, {1, 2}, {1, 2, 3}, {7, 1}}
	for _, c := range []struct {
		name   string
		set    func(*params)
		output []int32
		want   row
	}{
		{"defaults", func(*params) {}, []int32{1, 1, 1},
			row{Temperature: 1, TopP: 1, Seed: 77, Position: 3}},
		{"all filters", func(p *params) { p.Temperature, p.TopP, p.TopK, p.MinP = 0.5, 0.75, 40, 0.125 }, nil,
			row{Temperature: 0.5, TopP: 0.75, TopK: 40, MinP: 0.125, Seed: 77}},
		{"greedy switches filters off", func(p *params) { p.Temperature, p.TopP, p.TopK, p.MinP = 0, 0.5, 3, 0.5 }, []int32{1},
			row{TopP: 1, Seed: 77, Position: 1}},
		{"tiny temperature is raised", func(p *params) { p.Temperature = 1e-9 }, nil,
			row{Temperature: 0.01, TopP: 1, Seed: 77}},
		{"top_k -1 is off", func(p *params) { p.TopK = -1 }, nil, row{Temperature: 1, TopP: 1, Seed: 77}},
		{"huge top_k", func(p *params) { p.TopK = 1 << 40 }, nil,
			row{Temperature: 1, TopP: 1, TopK: math.MaxInt32, Seed: 77}},
		{"below min_tokens", func(p *params) { p.MinTokens, p.AllStopTokenIDs = 2, stops }, []int32{1},
			row{Temperature: 1, TopP: 1, Seed: 77, Position: 1, Banned: stops}},
		{"at min_tokens", func(p *params) { p.MinTokens, p.AllStopTokenIDs = 2, stops }, []int32{1, 1},
			row{Temperature: 1, TopP: 1, Seed: 77, Position: 2}},
		{"bad words: single ones always", func(p *params) { p.BadWordsTokenIDs = words }, nil,
			row{Temperature: 1, TopP: 1, Seed: 77, Banned: []int32{9}}},
		{"bad words: only the output's tail counts", func(p *params) { p.BadWordsTokenIDs = words }, []int32{1},
			row{Temperature: 1, TopP: 1, Seed: 77, Position: 1, Banned: []int32{9, 2}}},
		{"bad words: longer ones", func(p *params) { p.BadWordsTokenIDs = words }, []int32{7, 1, 2},
			row{Temperature: 1, TopP: 1, Seed: 77, Position: 3, Banned: []int32{9, 3}}},
		{"bad words and min_tokens", func(p *params) { p.BadWordsTokenIDs, p.MinTokens, p.AllStopTokenIDs = words, 1, stops }, nil,
			row{Temperature: 1, TopP: 1, Seed: 77, Banned: []int32{9, 4, 5}}},
		{"allowed and bias", func(p *params) { p.AllowedTokenIDs, p.LogitBias = []int32{6, 3}, map[int32]float64{9: -1.5, 2: 100} }, nil,
			row{Temperature: 1, TopP: 1, Seed: 77, Allowed: []int32{6, 3}, Bias: []kernels.TokenBias{{ID: 2, Bias: 100}, {ID: 9, Bias: -1.5}}}},
		{"repetition penalty sees the prompt", func(p *params) { p.RepetitionPenalty = 1.5 }, []int32{8, 3},
			row{Temperature: 1, TopP: 1, Seed: 77, Position: 2, Repetition: 1.5,
				Seen: []kernels.TokenCount{{ID: 7}, {ID: 8, Output: 1}, {ID: 3, Output: 1}}}},
		{"the others do not", func(p *params) { p.FrequencyPenalty, p.PresencePenalty = 0.5, -2 }, []int32{8, 3, 8},
			row{Temperature: 1, TopP: 1, Seed: 77, Position: 3, Frequency: 0.5, Presence: -2,
				Seen: []kernels.TokenCount{{ID: 8, Output: 2}, {ID: 3, Output: 1}}}},
		{"a repetition penalty below float32", func(p *params) { p.RepetitionPenalty = 1e-300 }, nil,
			row{Temperature: 1, TopP: 1, Seed: 77, Repetition: 0x1p-126, Seen: []kernels.TokenCount{{ID: 7}, {ID: 8}}}},
		{"a repetition penalty above float32", func(p *params) { p.RepetitionPenalty = 1e300 }, nil,
			row{Temperature: 1, TopP: 1, Seed: 77, Repetition: math.MaxFloat32, Seen: []kernels.TokenCount{{ID: 7}, {ID: 8}}}},
	} {
		p := with(c.set)
		// Token by token, all at once as after a preemption, and in a row that
		// another request has left.
		var grown, resumed, reused sampler.Row
		reused.Reset(with(func(p *params) { p.RepetitionPenalty, p.BadWordsTokenIDs = 2, words }), 1, vocab, []int32{3, 8, 50}, 1)
		reused.Draw([]int32{8, 50})
		tokens := slices.Concat(prompt, c.output)
		grown.Reset(p, 77, vocab, prompt, len(prompt))
		for i, token := range c.output {
			grown.Draw(c.output[:i])
			grown.Append(token)
		}
		resumed.Reset(p, 77, vocab, tokens, len(prompt))
		reused.Reset(p, 77, vocab, tokens, len(prompt))
		for how, r := range map[string]*sampler.Row{"grown": &grown, "resumed": &resumed, "reused": &reused} {
			if got := r.Draw(c.output); !sameRow(got, c.want) {
				t.Errorf("%s, %s: Draw(%v) = %+v, want %+v", c.name, how, c.output, got, c.want)
			}
		}
	}
}

// sameRow takes no list and an empty one for equal, but not for Allowed.
func sameRow(a, b kernels.SamplingRow) bool {
	if !slices.Equal(a.Banned, b.Banned) || !slices.Equal(a.Seen, b.Seen) {
		return false
	}
	a.Banned, b.Banned, a.Seen, b.Seen = nil, nil, nil, nil
	return reflect.DeepEqual(a, b)
}

func TestLogprobs(t *testing.T) {
	type params = protocol.SamplingParams
	for _, c := range []struct {
		set  func(*params)
		want kernels.LogprobRow
		ok   bool
	}{
		{func(*params) {}, kernels.LogprobRow{}, false},
		{func(p *params) { p.Logprobs = ptr(0) }, kernels.LogprobRow{}, true},
		{func(p *params) { p.Logprobs = ptr(5) }, kernels.LogprobRow{K: 5}, true},
		{func(p *params) { p.Logprobs = ptr(-1) }, kernels.LogprobRow{K: vocab}, true},
		{func(p *params) { p.LogprobTokenIDs = []int32{3, 1} }, kernels.LogprobRow{IDs: []int32{3, 1}}, true},
		{func(p *params) { p.Logprobs, p.LogprobTokenIDs = ptr(5), []int32{3} }, kernels.LogprobRow{IDs: []int32{3}}, true},
		{func(p *params) { p.PromptLogprobs, p.LogprobTokenIDs = ptr(5), []int32{} }, kernels.LogprobRow{}, false},
	} {
		var r sampler.Row
		p := with(c.set)
		r.Reset(p, 1, vocab, []int32{1}, 1)
		if got, ok := r.Logprobs(); ok != c.ok || !reflect.DeepEqual(got, c.want) {
			t.Errorf("Logprobs() for logprobs %v, logprob_token_ids %v = %+v, %v, want %+v, %v", p.Logprobs, p.LogprobTokenIDs, got, ok, c.want, c.ok)
		}
	}
}

// A steady draw with everything on allocates nothing.
func TestDrawAllocatesNothing(t *testing.T) {
	p := with(func(p *protocol.SamplingParams) {
		p.RepetitionPenalty, p.FrequencyPenalty, p.PresencePenalty = 1.1, 0.5, 0.5
		p.BadWordsTokenIDs, p.MinTokens, p.AllStopTokenIDs = [][]int32{{1}, {2, 3}}, 1<<30, []int32{4}
		p.AllowedTokenIDs, p.LogitBias = []int32{1, 2, 3}, map[int32]float64{1: 1}
	})
	var r sampler.Row
	r.Reset(p, 1, vocab, []int32{1}, 1)
	output, n := make([]int32, 64), int32(0)
	for range vocab {
		r.Append(n % vocab)
		n++
	}
	if got := testing.AllocsPerRun(100, func() { r.Draw(output); r.Append(n % vocab); n++ }); got != 0 {
		t.Errorf("a draw makes %v allocations, want 0", got)
	}
}
