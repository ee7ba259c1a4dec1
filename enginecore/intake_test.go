package enginecore_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"govllm/enginecore"
	"govllm/enginecore/coretest"
	"govllm/enginecore/sched"
	"govllm/protocol"
)

// TestPrepareRefuses: everything that a foreign frontend may get wrong, each
// refused in a sentence with the field, the value and the bound.
func TestPrepareRefuses(t *testing.T) {
	cfg := enginecore.Config{Sched: sched.DefaultConfig(), VocabSize: 100, MaxLogprobs: 20, NumClients: 2}
	cfg.Sched.NumBlocks, cfg.Sched.MaxModelLen = 5, 200
	core, err := enginecore.NewCore(cfg, coretest.NewRunner(5, 16, 100), func() float64 { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	intake := core.NewIntake()
	ptr := func(n int) *int { return &n }
	eos := int32(100)
	type req = protocol.EngineCoreRequest
	type par = protocol.SamplingParams
	for _, tt := range []struct {
		want string
		edit func(*req, *par)
	}{
		{"request_id is empty", func(r *req, p *par) { r.RequestID = "" }},
		{"client_index is 2, there are 2", func(r *req, p *par) { r.ClientIndex = 2 }},
		{"client_index is -1", func(r *req, p *par) { r.ClientIndex = -1 }},
		{"not supported: mm_features, lora_request", func(r *req, p *par) { r.Unsupported = []string{"mm_features", "lora_request"} }},
		{"sampling_params is missing", func(r *req, p *par) { r.SamplingParams = nil }},
		{"not supported: sampling_params.structured_outputs", func(r *req, p *par) { p.Unsupported = []string{"structured_outputs"} }},
		{"prompt_token_ids is empty", func(r *req, p *par) { r.PromptTokenIDs = nil }},
		{"arrival_time is NaN", func(r *req, p *par) { r.ArrivalTime = math.NaN() }},
		{"token ID 100 at position 1", func(r *req, p *par) { r.PromptTokenIDs = []int32{99, 100} }},
		{"token ID -1 at position 0", func(r *req, p *par) { r.PromptTokenIDs = []int32{-1} }},
		{"200 tokens leave no room for output under max-model-len 200", func(r *req, p *par) { r.PromptTokenIDs = make([]int32, 200) }},
		{"65 tokens need 5 blocks of 16 tokens, there are 4", func(r *req, p *par) { r.PromptTokenIDs = make([]int32, 65) }},
		{"n is 2", func(r *req, p *par) { p.N = 2 }},
		{"temperature is NaN", func(r *req, p *par) { p.Temperature = math.NaN() }},
		{"temperature is -1, must be at least 0", func(r *req, p *par) { p.Temperature = -1 }},
		{"temperature is +Inf", func(r *req, p *par) { p.Temperature = math.Inf(1) }},
		{"top_p is 0, must be above 0 and at most 1", func(r *req, p *par) { p.TopP = 0 }},
		{"min_p is 1.5", func(r *req, p *par) { p.MinP = 1.5 }},
		{"presence_penalty is 3", func(r *req, p *par) { p.PresencePenalty = 3 }},
		{"frequency_penalty is -3", func(r *req, p *par) { p.FrequencyPenalty = -3 }},
		{"repetition_penalty is 0, must be above 0 and finite", func(r *req, p *par) { p.RepetitionPenalty = 0 }},
		{"top_k is -2", func(r *req, p *par) { p.TopK = -2 }},
		{"max_tokens is 0, must be at least 1", func(r *req, p *par) { p.MaxTokens = ptr(0) }},
		{"min_tokens is -1", func(r *req, p *par) { p.MinTokens = -1 }},
		{"min_tokens is 9, must be at most max_tokens 8", func(r *req, p *par) { p.MinTokens, p.MaxTokens = 9, ptr(8) }},
		{"logprobs is 21, must be at most 20", func(r *req, p *par) { p.Logprobs = ptr(21) }},
		{"logprobs is -1, must be at most 20", func(r *req, p *par) { p.Logprobs = ptr(-1) }},
		{"logprobs is 101, the vocabulary has 100", func(r *req, p *par) { p.Logprobs = ptr(101) }},
		{"skip_reading_prefix_cache is false, but prompt_logprobs", func(r *req, p *par) { p.PromptLogprobs, p.SkipReadingPrefixCache = ptr(1), new(bool) }},
		{"_bad_words_token_ids has no tokens at position 1", func(r *req, p *par) { p.BadWordsTokenIDs = [][]int32{{1}, {}} }},
		{"logit_bias of token 5 is 1e+39", func(r *req, p *par) { p.LogitBias = map[int32]float64{5: 1e39} }},
		{"prompt_logprobs is -2", func(r *req, p *par) { p.PromptLogprobs = ptr(-2) }},
		{"logprob_token_ids has 129", func(r *req, p *par) { p.LogprobTokenIDs = make([]int32, 129) }},
		{"allowed_token_ids is empty", func(r *req, p *par) { p.AllowedTokenIDs = []int32{} }},
		{"stop_token_ids has token ID 100", func(r *req, p *par) { p.StopTokenIDs = []int32{1, 100} }},
		{"_all_stop_token_ids has token ID 100", func(r *req, p *par) { p.AllStopTokenIDs = []int32{100} }},
		{"_eos_token_id has token ID 100", func(r *req, p *par) { p.EOSTokenID = &eos }},
		{"_bad_words_token_ids has token ID -7", func(r *req, p *par) { p.BadWordsTokenIDs = [][]int32{{1}, {2, -7}} }},
		{"logit_bias has token ID 100", func(r *req, p *par) { p.LogitBias = map[int32]float64{100: 1} }},
		{"logit_bias of token 5 is NaN", func(r *req, p *par) { p.LogitBias = map[int32]float64{5: math.NaN()} }},
	} {
		p := protocol.DefaultSamplingParams()
		r := &req{RequestID: "r", PromptTokenIDs: []int32{1, 2, 3}, SamplingParams: &p}
		tt.edit(r, &p)
		_, err := intake.Prepare(r)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Prepare() = %v, want an error with %q", err, tt.want)
			continue
		}
		if !errors.Is(err, enginecore.ErrInvalidRequest) && !errors.Is(err, sched.ErrPromptTooLong) && !errors.Is(err, sched.ErrNeverFits) {
			t.Errorf("Prepare() = %v, which is none of its errors", err)
		}
	}
}

// TestPrepareResolves: what the wire leaves open.
func TestPrepareResolves(t *testing.T) {
	cfg := enginecore.Config{Sched: sched.DefaultConfig(), VocabSize: 100, MaxLogprobs: -1}
	cfg.Sched.NumBlocks, cfg.Sched.MaxModelLen = 50, 200
	core, err := enginecore.NewCore(cfg, coretest.NewRunner(50, 16, 100), func() float64 { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	intake := core.NewIntake()
	number := func(n int) *int { return &n }
	yes, no := true, false
	for _, tt := range []struct {
		name          string
		edit          func(p *protocol.SamplingParams)
		wantMaxTokens int
		wantReads     bool
	}{
		{"defaults", func(p *protocol.SamplingParams) {}, 16, true},
		{"no max_tokens", func(p *protocol.SamplingParams) { p.MaxTokens = nil }, 150, true},
		{"max_tokens beyond the model", func(p *protocol.SamplingParams) { p.MaxTokens = number(1000) }, 150, true},
		{"prompt logprobs", func(p *protocol.SamplingParams) { p.PromptLogprobs = number(1) }, 16, false},
		{"cache wanted", func(p *protocol.SamplingParams) { p.SkipReadingPrefixCache = &no }, 16, true},
		{"all logprobs", func(p *protocol.SamplingParams) { p.Logprobs, p.PromptLogprobs = number(-1), number(100) }, 16, false},
		{"cache not wanted", func(p *protocol.SamplingParams) { p.SkipReadingPrefixCache = &yes }, 16, false},
	} {
		p := protocol.DefaultSamplingParams()
		tt.edit(&p)
		r, err := intake.Prepare(&protocol.EngineCoreRequest{RequestID: "r", PromptTokenIDs: make([]int32, 50), SamplingParams: &p})
		if err != nil {
			t.Errorf("%s: Prepare() = %v", tt.name, err)
			continue
		}
		if r.MaxTokens != tt.wantMaxTokens || r.ReadsCache != tt.wantReads || len(r.Hashes) != 3 {
			t.Errorf("%s: Prepare() = max %d, reads cache %v, %d hashes, want %d, %v, 3", tt.name, r.MaxTokens, r.ReadsCache, len(r.Hashes), tt.wantMaxTokens, tt.wantReads)
		}
	}
}

func TestNewCoreRefuses(t *testing.T) {
	cfg := sched.DefaultConfig()
	cfg.MaxNumSeqs, cfg.BlockSize, cfg.Policy, cfg.HashAlgo = 0, 0, "lifo", "md5"
	_, err := enginecore.NewCore(enginecore.Config{Sched: cfg, VocabSize: 1}, nil, nil)
	if err == nil {
		t.Fatal("NewCore() = nil error")
	}
	for _, want := range []string{
		"max-num-seqs is 0, must be at least 1", "block-size is 0", "max-model-len is 0",
		"number of KV blocks (one of them is reserved) is 0", `"lifo" is not one of`, `"md5" is not one of`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("NewCore() = %v, want all problems, %q too", err, want)
		}
	}
}
