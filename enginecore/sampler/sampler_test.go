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

func TestCheck(t *testing.T) {
	const vocab = 100
	for _, c := range []struct {
		name  string
		set   func(*protocol.SamplingParams)
		param string // of the error; "": accepted
		says  string
	}{
		{name: "defaults", set: func(p *protocol.SamplingParams) {}},
		{name: "greedy", set: func(p *protocol.SamplingParams) { p.Temperature = 0 }},
		{name: "everything at its edge", set: func(p *protocol.SamplingParams) {
			p.TopP, p.TopK, p.MinP, p.MinTokens, p.MaxTokens = 1, -1, 1, 3, ptr(3)
			p.StopTokenIDs, p.AllStopTokenIDs, p.EOSTokenID = []int32{0, 99}, []int32{0, 99}, ptr(int32(99))
		}},
		{name: "no max_tokens", set: func(p *protocol.SamplingParams) { p.MaxTokens, p.MinTokens = nil, 50 }},

		{"temperature", func(p *protocol.SamplingParams) { p.Temperature = -0.1 }, "temperature", "-0.1"},
		{"NaN temperature", func(p *protocol.SamplingParams) { p.Temperature = math.NaN() }, "temperature", "NaN"},
		{"infinite temperature", func(p *protocol.SamplingParams) { p.Temperature = math.Inf(1) }, "temperature", "Inf"},
		{"top_p 0", func(p *protocol.SamplingParams) { p.TopP = 0 }, "top_p", "0"},
		{"top_p above 1", func(p *protocol.SamplingParams) { p.TopP = 1.01 }, "top_p", "1.01"},
		{"NaN top_p", func(p *protocol.SamplingParams) { p.TopP = math.NaN() }, "top_p", "NaN"},
		{"min_p", func(p *protocol.SamplingParams) { p.MinP = 1.5 }, "min_p", "1.5"},
		{"top_k", func(p *protocol.SamplingParams) { p.TopK = -2 }, "top_k", "-2"},
		{"n", func(p *protocol.SamplingParams) { p.N = 2 }, "n", "2"},
		{"max_tokens", func(p *protocol.SamplingParams) { p.MaxTokens = ptr(0) }, "max_tokens", "0"},
		{"min_tokens", func(p *protocol.SamplingParams) { p.MinTokens = -1 }, "min_tokens", "-1"},
		{"min_tokens above max_tokens", func(p *protocol.SamplingParams) { p.MinTokens, p.MaxTokens = 5, ptr(4) }, "min_tokens", "at most max_tokens = 4"},
		{"stop token outside", func(p *protocol.SamplingParams) { p.StopTokenIDs = []int32{3, 100} }, "stop_token_ids", "100"},
		{"negative stop token", func(p *protocol.SamplingParams) { p.StopTokenIDs = []int32{-1} }, "stop_token_ids", "-1"},
		{"EOS outside", func(p *protocol.SamplingParams) { p.EOSTokenID = ptr(int32(100)) }, "_eos_token_id", "100"},
		{"all stop tokens outside", func(p *protocol.SamplingParams) { p.AllStopTokenIDs = []int32{1 << 30} }, "_all_stop_token_ids", "1073741824"},

		{"presence_penalty", func(p *protocol.SamplingParams) { p.PresencePenalty = 1 }, "presence_penalty", "not served"},
		{"frequency_penalty", func(p *protocol.SamplingParams) { p.FrequencyPenalty = 1 }, "frequency_penalty", "not served"},
		{"repetition_penalty", func(p *protocol.SamplingParams) { p.RepetitionPenalty = 1.1 }, "repetition_penalty", "1.1"},
		{"logprobs", func(p *protocol.SamplingParams) { p.Logprobs = ptr(0) }, "logprobs", "0"},
		{"prompt_logprobs", func(p *protocol.SamplingParams) { p.PromptLogprobs = ptr(2) }, "prompt_logprobs", "2"},
		{"logprob_token_ids", func(p *protocol.SamplingParams) { p.LogprobTokenIDs = []int32{1} }, "logprob_token_ids", "[1]"},
		{"logit_bias", func(p *protocol.SamplingParams) { p.LogitBias = map[int32]float64{1: 2} }, "logit_bias", "map[1:2]"},
		{"allowed_token_ids", func(p *protocol.SamplingParams) { p.AllowedTokenIDs = []int32{} }, "allowed_token_ids", "[]"},
		{"bad_words", func(p *protocol.SamplingParams) { p.BadWordsTokenIDs = [][]int32{{1}} }, "bad_words", "[[1]]"},
		{"a field of a later issue", func(p *protocol.SamplingParams) { p.Unsupported = []string{"thinking_token_budget"} }, "thinking_token_budget", "not served"},
	} {
		p := protocol.DefaultSamplingParams()
		c.set(&p)
		err := sampler.Check(&p, vocab)
		param := ""
		if e := (*sampler.ParamError)(nil); errors.As(err, &e) {
			param = e.Param
		}
		if param != c.param || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: Check = %v; want an error about %q that says %q", c.name, err, c.param, c.says)
		}
	}
}

func TestCheckReportsAll(t *testing.T) {
	p := protocol.DefaultSamplingParams()
	p.TopP, p.MinP, p.N = 2, 2, 2
	err := sampler.Check(&p, 10)
	for _, says := range []string{"top_p = 2", "min_p = 2", "n = 2"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Check = %v, want also %q", err, says)
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
