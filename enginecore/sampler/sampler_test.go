package sampler_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"govllm/enginecore/sampler"
	"govllm/kernels"
	"govllm/protocol"
)

func ptr[T any](v T) *T { return &v }

func TestCheckServed(t *testing.T) {
	for _, c := range []struct {
		set  func(*protocol.SamplingParams)
		says string // "": accepted
	}{
		{func(*protocol.SamplingParams) {}, ""},
		{func(p *protocol.SamplingParams) {
			p.Temperature, p.TopP, p.TopK, p.MinP, p.MinTokens, p.Seed = 0.5, 0.5, 5, 0.5, 5, ptr(int64(5))
			p.StopTokenIDs, p.AllStopTokenIDs, p.EOSTokenID = []int32{1}, []int32{1, 2}, ptr(int32(2))
		}, ""},
		{func(p *protocol.SamplingParams) { p.PresencePenalty = 1 }, "presence_penalty = 1"},
		{func(p *protocol.SamplingParams) { p.FrequencyPenalty = -1 }, "frequency_penalty = -1"},
		{func(p *protocol.SamplingParams) { p.RepetitionPenalty = 1.1 }, "repetition_penalty = 1.1"},
		{func(p *protocol.SamplingParams) { p.Logprobs = ptr(0) }, "logprobs = 0"},
		{func(p *protocol.SamplingParams) { p.PromptLogprobs = ptr(2) }, "prompt_logprobs = 2"},
		{func(p *protocol.SamplingParams) { p.LogprobTokenIDs = []int32{1} }, "logprob_token_ids = [1]"},
		{func(p *protocol.SamplingParams) { p.LogitBias = map[int32]float64{1: 2} }, "logit_bias = map[1:2]"},
		{func(p *protocol.SamplingParams) { p.AllowedTokenIDs = []int32{3} }, "allowed_token_ids = [3]"},
		{func(p *protocol.SamplingParams) { p.BadWordsTokenIDs = [][]int32{{1}} }, "bad_words = [[1]]"},
	} {
		p := protocol.DefaultSamplingParams()
		c.set(&p)
		err := sampler.CheckServed(&p)
		if (err == nil) != (c.says == "") || err != nil && (!errors.Is(err, sampler.ErrNotServed) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("CheckServed = %v, want an error with %q", err, c.says)
		}
	}
}

func TestCheckServedReportsAll(t *testing.T) {
	p := protocol.DefaultSamplingParams()
	p.PresencePenalty, p.Logprobs = 1, ptr(5)
	err := sampler.CheckServed(&p)
	for _, says := range []string{"presence_penalty = 1", "logprobs = 5"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("CheckServed = %v, want also %q", err, says)
		}
	}
}

func TestDraw(t *testing.T) {
	with := func(set func(*protocol.SamplingParams)) *protocol.SamplingParams {
		p := protocol.DefaultSamplingParams()
		set(&p)
		return &p
	}
	stops := []int32{4, 5}
	for _, c := range []struct {
		name string
		p    *protocol.SamplingParams
		out  int
		want kernels.SamplingRow
	}{
		{"defaults", with(func(*protocol.SamplingParams) {}), 3,
			kernels.SamplingRow{Temperature: 1, TopP: 1, Seed: 77, Position: 3}},
		{"all filters", with(func(p *protocol.SamplingParams) { p.Temperature, p.TopP, p.TopK, p.MinP = 0.5, 0.75, 40, 0.125 }), 0,
			kernels.SamplingRow{Temperature: 0.5, TopP: 0.75, TopK: 40, MinP: 0.125, Seed: 77}},
		{"greedy switches filters off", with(func(p *protocol.SamplingParams) { p.Temperature, p.TopP, p.TopK, p.MinP = 0, 0.5, 3, 0.5 }), 1,
			kernels.SamplingRow{TopP: 1, Seed: 77, Position: 1}},
		{"tiny temperature is raised", with(func(p *protocol.SamplingParams) { p.Temperature = 1e-9 }), 0,
			kernels.SamplingRow{Temperature: 0.01, TopP: 1, Seed: 77}},
		{"top_k -1 is off", with(func(p *protocol.SamplingParams) { p.TopK = -1 }), 0,
			kernels.SamplingRow{Temperature: 1, TopP: 1, Seed: 77}},
		{"huge top_k", with(func(p *protocol.SamplingParams) { p.TopK = 1 << 40 }), 0,
			kernels.SamplingRow{Temperature: 1, TopP: 1, TopK: math.MaxInt32, Seed: 77}},
		{"below min_tokens", with(func(p *protocol.SamplingParams) { p.MinTokens, p.AllStopTokenIDs = 2, stops }), 1,
			kernels.SamplingRow{Temperature: 1, TopP: 1, Seed: 77, Position: 1, Banned: stops}},
		{"at min_tokens", with(func(p *protocol.SamplingParams) { p.MinTokens, p.AllStopTokenIDs = 2, stops }), 2,
			kernels.SamplingRow{Temperature: 1, TopP: 1, Seed: 77, Position: 2}},
	} {
		r := sampler.NewRow(c.p, 77)
		got := r.Draw(c.out)
		banned := got.Banned
		got.Banned = nil
		want := c.want
		want.Banned = nil
		if got.Temperature != want.Temperature || got.TopP != want.TopP || got.TopK != want.TopK || got.MinP != want.MinP ||
			got.Seed != want.Seed || got.Position != want.Position || !slices.Equal(banned, c.want.Banned) {
			t.Errorf("%s: Draw(%d) = %+v banning %v, want %+v", c.name, c.out, got, banned, c.want)
		}
	}
}
