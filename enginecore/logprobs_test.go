package enginecore_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"govllm/enginecore/sched"
	"govllm/kernels"
	"govllm/protocol"
)

// told is all that one request was told.
type told struct {
	Tokens         []int32
	Logprobs       []float32
	LogprobTokens  []int32
	Ranks          []int64
	PromptLogprobs *protocol.LogprobsLists
}

// changedRequest is textRequest with penalties and lists, and log probabilities
// of everything.
func changedRequest(id string, i int) *protocol.EngineCoreRequest {
	r := textRequest(id, i)
	p := r.SamplingParams
	two, all := 2, -1
	p.Logprobs, p.PromptLogprobs = &two, &two
	switch i % 3 {
	case 0:
		p.RepetitionPenalty, p.FrequencyPenalty = 1.2, 0.3
	case 1:
		p.PresencePenalty, p.Logprobs, p.PromptLogprobs = 0.5, &all, nil
		p.BadWordsTokenIDs = [][]int32{{5}, {6, 7}}
	case 2:
		p.LogitBias, p.LogprobTokenIDs = map[int32]float64{3: 2}, []int32{3, 4}
	}
	return r
}

// runChanged serves changed requests and returns what each was told. Log
// probabilities come with the tokens they describe, those of the prompt with
// the first.
func (e *textEngine) runChanged(t *testing.T, which ...int) map[int]*told {
	t.Helper()
	all := map[int]*told{}
	for _, i := range which {
		r, err := e.intake.Prepare(changedRequest(fmt.Sprint(i), i))
		if err != nil {
			t.Fatal(err)
		}
		all[i] = &told{}
		e.core.Add(r)
	}
	for e.core.HasWork() {
		messages, err := e.core.Step()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			for _, out := range m.Outputs.Outputs {
				i := int(out.RequestID[0] - '0')
				w, l := all[i], out.NewLogprobs
				if l == nil || l.NumTokens != len(out.NewTokenIDs) || l.TokenIDs[0] != out.NewTokenIDs[0] {
					t.Fatalf("request %d: tokens %v come with %+v", i, out.NewTokenIDs, l)
				}
				first := len(w.Tokens) == 0
				if want := first && i%3 != 1; (out.NewPromptLogprobs != nil) != want {
					t.Fatalf("request %d: prompt log probabilities after %d tokens: %v, want %v", i, len(w.Tokens), out.NewPromptLogprobs != nil, want)
				}
				if out.NewPromptLogprobs != nil {
					w.PromptLogprobs = out.NewPromptLogprobs
				}
				w.Tokens = append(w.Tokens, out.NewTokenIDs...)
				w.Logprobs = append(w.Logprobs, l.Logprobs...)
				w.LogprobTokens = append(w.LogprobTokens, l.TokenIDs...)
				w.Ranks = append(w.Ranks, l.Ranks...)
			}
			if m.Outputs.SchedulerStats != nil {
				e.sum.RecomputedTokens += e.core.LastStats().RecomputedTokens
				e.sum.PrefixCache.Hits += e.core.LastStats().PrefixCache.Hits
			}
		}
	}
	return all
}

// TestLogprobsAreInvariant: penalties and log probabilities, of prompts too,
// depend on the request alone, whatever the scheduler does.
func TestLogprobsAreInvariant(t *testing.T) {
	dev, err := kernels.Open("cpu", kernels.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	unit := max(1, dev.Caps().BlockSizeMultiple)
	base := sched.DefaultConfig()
	base.MaxModelLen, base.MaxNumSeqs, base.MaxNumBatchedTokens = 200, 8, 256
	base.BlockSize, base.NumBlocks, base.NoPrefixCaching = unit*max(1, 16/unit), 400, true
	want := map[int]*told{}
	for i := range numTexts {
		want[i] = newTextEngine(t, dev, base).runChanged(t, i)[i]
	}
	for _, tt := range []struct {
		name   string
		edit   func(*sched.Config)
		redone bool // preemptions must occur
	}{
		{"together", func(*sched.Config) {}, false},
		{"small budget", func(c *sched.Config) { c.MaxNumBatchedTokens = 8 }, false},
		{"prefix caching", func(c *sched.Config) { c.NoPrefixCaching, c.BlockSize = false, unit }, false},
		{"preemption", func(c *sched.Config) { c.NumBlocks, c.MaxNumBatchedTokens = 1+(300+c.BlockSize-1)/c.BlockSize, 100 }, true},
	} {
		for _, async := range []bool{false, true} {
			cfg := base
			tt.edit(&cfg)
			cfg.Async = async
			e := newTextEngine(t, dev, cfg)
			for _, warmth := range []string{"cold", "warm"} {
				got := e.runChanged(t, 0, 1, 2, 3, 4, 5)
				for i := range numTexts {
					if !slices.Equal(got[i].Tokens, want[i].Tokens) {
						t.Errorf("%s, async %v, %s: request %d = %v, want %v", tt.name, async, warmth, i, got[i].Tokens, want[i].Tokens)
					}
					if !reflect.DeepEqual(got[i], want[i]) {
						t.Errorf("%s, async %v, %s: request %d: log probabilities differ", tt.name, async, warmth, i)
					}
				}
			}
			if tt.redone && e.sum.RecomputedTokens == 0 || !cfg.NoPrefixCaching && e.sum.PrefixCache.Hits == 0 {
				t.Errorf("%s, async %v: %d tokens recomputed, %d hit: the case shows nothing", tt.name, async, e.sum.RecomputedTokens, e.sum.PrefixCache.Hits)
			}
		}
	}
}
