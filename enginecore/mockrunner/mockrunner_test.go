package mockrunner

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"govllm/enginecore/step"
	"govllm/protocol"
)

// generate plays one request of the given seed through a runner, beside idle
// rows, and returns its tokens.
func generate(t *testing.T, r *Runner, at step.Row, seed uint64, chunk int) []int32 {
	t.Helper()
	prompt, params := make([]int32, 5), protocol.DefaultSamplingParams()
	plan := step.SchedulerOutput{New: []step.NewRequest{{Row: at, Params: &params, Seed: seed, TokenIDs: prompt, Prompt: len(prompt)}}}
	var got []int32
	for computed := 0; len(got) < 8; {
		total := len(prompt) + len(got)
		n := min(chunk, total-computed)
		plan.Scheduled = []step.Scheduled{{Row: at, Computed: computed, NumTokens: n, Samples: computed+n == total}}
		computed += n
		out, err := r.Start(&plan).Sample()
		if err != nil {
			t.Fatal(err)
		}
		if token := out.Sampled[0]; plan.Scheduled[0].Samples {
			got = append(got, token)
		} else if token != -1 {
			t.Errorf("a partial prefill samples %d, want -1", token)
		}
		plan.New = nil
	}
	return got
}

func TestTokensDependOnSeedAndPositionAlone(t *testing.T) {
	r, err := New(4, 1000)
	if err != nil {
		t.Fatal(err)
	}
	want := generate(t, r, 0, 7, 100)
	for _, tc := range []struct {
		row   step.Row
		chunk int
	}{{3, 100}, {1, 1}, {2, 2}} {
		if got := generate(t, r, tc.row, 7, tc.chunk); !slices.Equal(got, want) {
			t.Errorf("row %d, chunks of %d: %v, want %v", tc.row, tc.chunk, got, want)
		}
	}
	if other := generate(t, r, 0, 8, 100); slices.Equal(other, want) {
		t.Errorf("seeds 7 and 8 both give %v", want)
	}
	for _, token := range want {
		if token < 0 || token >= 1000 {
			t.Errorf("token %d is out of the vocabulary", token)
		}
	}
}

// Who asks for log probabilities gets some, of the shape that was asked for.
func TestLogprobs(t *testing.T) {
	const vocab = 10
	r, err := New(2, vocab)
	if err != nil {
		t.Fatal(err)
	}
	params, two, none := protocol.DefaultSamplingParams(), 2, 0
	params.Logprobs, params.PromptLogprobs = &two, &none
	plan := &step.SchedulerOutput{
		New:       []step.NewRequest{{Row: 1, Params: &params, TokenIDs: []int32{4, 5, 6}, Prompt: 3}},
		Scheduled: []step.Scheduled{{Row: 1, NumTokens: 3, Samples: true}},
	}
	out, err := r.Start(plan).Sample()
	if err != nil {
		t.Fatal(err)
	}
	each := float32(-math.Log(vocab))
	want := protocol.LogprobsLists{NumTokens: 1, Width: 3, TokenIDs: []int32{out.Sampled[0], 0, 1}, Logprobs: []float32{each, each, each}, Ranks: []int64{vocab}}
	wantPrompt := protocol.LogprobsLists{NumTokens: 2, Width: 1, TokenIDs: []int32{5, 6}, Logprobs: []float32{each, each}, Ranks: []int64{vocab, vocab}}
	if !reflect.DeepEqual(*out.Logprobs[0], want) || !reflect.DeepEqual(*out.PromptLogprobs[0], wantPrompt) {
		t.Errorf("Logprobs %+v and %+v, want %+v and %+v", *out.Logprobs[0], *out.PromptLogprobs[0], want, wantPrompt)
	}
	plan.New, plan.Scheduled[0] = nil, step.Scheduled{Row: 1, Computed: 3, NumTokens: 1, Samples: true}
	if out, _ = r.Start(plan).Sample(); out.PromptLogprobs != nil {
		t.Errorf("prompt log probabilities came twice: %v", out.PromptLogprobs[0])
	}
}

func TestNewRefuses(t *testing.T) {
	for _, size := range [][2]int{{0, 1}, {1, 0}} {
		if _, err := New(size[0], size[1]); err == nil {
			t.Errorf("New(%d, %d) = nil error", size[0], size[1])
		}
	}
}

func TestStartAllocatesNothing(t *testing.T) {
	r, err := New(1, 10)
	if err != nil {
		t.Fatal(err)
	}
	plan := step.SchedulerOutput{Scheduled: []step.Scheduled{{NumTokens: 1, Samples: true}}}
	if n := testing.AllocsPerRun(100, func() { r.Start(&plan) }); n != 0 {
		t.Errorf("Start allocates %v times", n)
	}
}
