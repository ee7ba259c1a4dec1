package modelrunner

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"govllm/enginecore/step"
	"govllm/kernels"
	"govllm/protocol"
)

func ptr[T any](v T) *T { return &v }

// takeLogprobs keeps what a step says about sequence i of it. Prompts are told
// once, with the first token; a token that was asked about is told each time.
func (s *sequence) takeLogprobs(t *testing.T, out *step.ModelRunnerOutput, i int) {
	t.Helper()
	var l, p *protocol.LogprobsLists
	if out.Logprobs != nil {
		l = out.Logprobs[i]
	}
	if out.PromptLogprobs != nil {
		p = out.PromptLogprobs[i]
	}
	sampled := out.Sampled[i] >= 0
	if want := sampled && (s.params.Logprobs != nil || len(s.params.LogprobTokenIDs) > 0); (l != nil) != want {
		t.Fatalf("%s: logprobs %v after %d tokens, want some: %v", s.id, l, len(s.tokens), want)
	}
	if want := sampled && s.params.PromptLogprobs != nil && len(s.tokens) == len(s.prompt); (p != nil) != want {
		t.Fatalf("%s: prompt logprobs %v after %d tokens, want some: %v", s.id, p, len(s.tokens), want)
	}
	if l != nil {
		if l.TokenIDs[0] != out.Sampled[i] || l.Ranks[0] < 1 {
			t.Fatalf("%s: token %d comes with log probabilities %+v", s.id, out.Sampled[i], l)
		}
		s.logprobs = append(s.logprobs, l)
	}
	if p != nil {
		s.promptLogprobs = p
	}
}

// changedSequences use every parameter there is, alone and together.
func changedSequences() []*sequence {
	rng := rand.New(rand.NewPCG(8, 8))
	type params = protocol.SamplingParams
	var seqs []*sequence
	numNew, numEach := 10, 2 // greedy, then sampled
	if raceEnabled {
		numNew, numEach = 3, 1
	}
	for i, set := range []func(*params){
		func(p *params) { p.RepetitionPenalty = 1.3 },
		func(p *params) { p.FrequencyPenalty, p.PresencePenalty, p.Logprobs = 0.4, 0.2, ptr(3) },
		func(p *params) { p.BadWordsTokenIDs, p.Logprobs = [][]int32{{5}, {7, 8}, {11, 12, 13}}, ptr(0) },
		func(p *params) { p.AllowedTokenIDs, p.PromptLogprobs = []int32{3, 9, 27, 81, 100}, ptr(2) },
		func(p *params) { p.LogitBias, p.LogprobTokenIDs = map[int32]float64{17: 4, 3: -4}, []int32{17, 3, 17} },
		func(p *params) { p.Logprobs, p.PromptLogprobs = ptr(-1), ptr(0) },
		func(p *params) {
			p.RepetitionPenalty, p.FrequencyPenalty, p.PresencePenalty, p.Logprobs, p.PromptLogprobs = 0.9, -0.5, -0.1, ptr(5), ptr(-1)
			p.MinTokens, p.AllStopTokenIDs, p.LogitBias = 4, []int32{1, 2, 3, 50, 60}, map[int32]float64{50: 5}
		},
		func(*params) {},
	} {
		for j := range numEach {
			s := &sequence{id: fmt.Sprint("seq", i, ".", j), maxNew: numNew, params: protocol.DefaultSamplingParams(), arrives: i / 2, seed: uint64(i)}
			for range 1 + (i*37+j*29)%100 {
				s.prompt = append(s.prompt, int32(rng.IntN(131)))
			}
			if s.params.TopP = 0.9; j == 0 {
				s.params.Temperature = 0
			}
			set(&s.params)
			seqs = append(seqs, s)
		}
	}
	return seqs
}

// What a request is told does not depend on the schedule: neither tokens nor
// any bit of a log probability.
func TestChangesAndLogprobsDoNotDependOnTheSchedule(t *testing.T) {
	for _, device := range devices() {
		t.Run(device, func(t *testing.T) {
			dev := openDevice(t, device)
			m := tinyModel(t, dev)
			unit := dev.Caps().BlockSizeMultiple
			want := changedSequences()
			run(t, dev, m, kernels.F32, policy{blockSize: 32, budget: 512, maxSeqs: 1}, want)
			for _, p := range []policy{
				{blockSize: 32, budget: 512, maxSeqs: 16},
				{blockSize: unit, budget: 40, maxSeqs: 5, chunk: 7},
				{blockSize: 64, budget: 130, maxSeqs: 6, chunk: 90, preemptOne: 3, seed: 4},
			} {
				got := changedSequences()
				run(t, dev, m, kernels.F32, p, got)
				for i, g := range got {
					if !slices.Equal(g.tokens, want[i].tokens) {
						t.Errorf("%+v: %s: tokens = %v, want %v", p, g.id, g.tokens[len(g.prompt):], want[i].tokens[len(g.prompt):])
					}
					if !reflect.DeepEqual(g.logprobs, want[i].logprobs) || !reflect.DeepEqual(g.promptLogprobs, want[i].promptLogprobs) {
						t.Errorf("%+v: %s: the log probabilities differ in some bit", p, g.id)
					}
				}
			}
		})
	}
}

// Asking for log probabilities changes no text, and every backend draws ref's.
func TestTextIsTheSameWithLogprobs(t *testing.T) {
	var want []*sequence
	for _, device := range devices() {
		dev := openDevice(t, device)
		m := tinyModel(t, dev)
		for _, with := range []bool{false, true} {
			got := changedSequences()
			for _, s := range got {
				s.params.Logprobs, s.params.PromptLogprobs, s.params.LogprobTokenIDs = nil, nil, nil
				if with {
					s.params.Logprobs, s.params.PromptLogprobs = ptr(4), ptr(4)
				}
			}
			run(t, dev, m, kernels.F32, policy{blockSize: 32, budget: 200, maxSeqs: 8}, got)
			if want == nil {
				want = got
			}
			for i, g := range got {
				if !slices.Equal(g.tokens, want[i].tokens) {
					t.Errorf("%s, logprobs %v: %s: tokens = %v, want %v", device, with, g.id, g.tokens[len(g.prompt):], want[i].tokens[len(g.prompt):])
				}
			}
		}
	}
}

// Texts obey what was asked of them.
func TestChangesAreObeyed(t *testing.T) {
	type params = protocol.SamplingParams
	follows := func(out []int32, word ...int32) bool {
		for i := range out {
			if i+len(word) <= len(out) && slices.Equal(out[i:i+len(word)], word) {
				return true
			}
		}
		return false
	}
	free := generate(t, func(*params) {})
	for _, c := range []struct {
		name string
		set  func(*params)
		ok   func(out []int32) bool
	}{
		{"frequency_penalty 2 on a flat distribution never repeats", func(p *params) { p.FrequencyPenalty = 2 },
			func(out []int32) bool { return len(slices.Compact(slices.Sorted(slices.Values(out)))) == len(out) }},
		{"a bad word of one token", func(p *params) { p.BadWordsTokenIDs = [][]int32{{free[0]}} },
			func(out []int32) bool { return !slices.Contains(out, free[0]) }},
		{"a bad word of two tokens", func(p *params) { p.BadWordsTokenIDs = [][]int32{{free[0], free[1]}} },
			func(out []int32) bool { return out[0] == free[0] && !follows(out, free[0], free[1]) }},
		{"a bad word is not matched against the prompt", func(p *params) { p.BadWordsTokenIDs = [][]int32{{3, free[0]}} },
			func(out []int32) bool { return out[0] == free[0] }},
		{"allowed_token_ids", func(p *params) { p.AllowedTokenIDs = []int32{40, 50} },
			func(out []int32) bool {
				return !slices.ContainsFunc(out, func(id int32) bool { return id != 40 && id != 50 })
			}},
		{"logit_bias", func(p *params) { p.LogitBias = map[int32]float64{77: 100} },
			func(out []int32) bool { return out[0] == 77 && out[1] == 77 }},
		{"repetition_penalty takes the prompt's tokens off", func(p *params) {
			p.RepetitionPenalty, p.AllowedTokenIDs, p.LogitBias = 1e6, []int32{3, 4}, map[int32]float64{3: 60, 4: 50}
		}, func(out []int32) bool { return out[0] == 4 }},
		{"presence_penalty does not", func(p *params) {
			p.PresencePenalty, p.AllowedTokenIDs, p.LogitBias = 2, []int32{3, 4}, map[int32]float64{3: 60, 4: 30}
		}, func(out []int32) bool { return out[0] == 3 }},
	} {
		if out := generate(t, c.set); !c.ok(out) {
			t.Errorf("%s: output %v", c.name, out)
		}
	}
}

// generate continues a prompt that ends in token 3 greedily by 12 tokens.
func generate(t *testing.T, set func(*protocol.SamplingParams)) []int32 {
	t.Helper()
	dev := openDevice(t, "ref")
	s := &sequence{id: "r", prompt: []int32{9, 8, 3}, params: *greedy(), maxNew: 12}
	set(&s.params)
	run(t, dev, tinyModel(t, dev), kernels.F32, policy{blockSize: 32, budget: 64, maxSeqs: 1}, []*sequence{s})
	return s.tokens[len(s.prompt):]
}

// The log probabilities of golden models are log-softmax of transformers'
// logits: of every prompt token, and of the first one sampled.
func TestGoldenLogprobs(t *testing.T) {
	for _, name := range []string{"tiny-llama-f32", "tiny-llama-bf16", "tiny-qwen2-f16", "tiny-qwen2-sharded"} {
		for _, device := range devices() {
			t.Run(device+"/"+name, func(t *testing.T) { testGoldenLogprobs(t, device, name) })
		}
	}
}

func testGoldenLogprobs(t *testing.T, device, name string) {
	dir := filepath.Join("../../test/golden", name)
	data, err := os.ReadFile(filepath.Join(dir, "golden.json"))
	must(t, err)
	var golden struct {
		Cases []struct {
			Name      string
			Prompt    []int32
			Positions []int
			Logits    []byte
			Greedy    []int32
		}
	}
	must(t, json.Unmarshal(data, &golden))
	dev := openDevice(t, device)
	m := loadModel(t, dev, dir, kernels.F32)
	vocab := m.Config().VocabSize
	const k = 6
	for _, c := range golden.Cases {
		if len(c.Prompt)+1 > 256 {
			continue
		}
		s := &sequence{id: c.Name, prompt: c.Prompt, params: *greedy(), maxNew: 1}
		s.params.Logprobs, s.params.PromptLogprobs = ptr(k), ptr(k)
		run(t, dev, m, kernels.F32, policy{blockSize: 32, budget: 64, maxSeqs: 2, chunk: 5}, []*sequence{s})
		logits := make([]float32, len(c.Logits)/4)
		kernels.F32.Float32s(logits, c.Logits)
		for i, position := range c.Positions {
			row := logits[i*vocab : (i+1)*vocab]
			if position == len(c.Prompt)-1 {
				checkRow(t, c.Name, s.logprobs[0], 0, row, c.Greedy[0])
			} else {
				checkRow(t, c.Name, s.promptLogprobs, position, row, c.Prompt[position+1])
			}
		}
		if p := s.promptLogprobs; p.NumTokens != len(c.Prompt)-1 || p.Width != k+1 {
			t.Errorf("%s: prompt log probabilities [%d, %d], want [%d, %d]", c.Name, p.NumTokens, p.Width, len(c.Prompt)-1, k+1)
		}
	}
}

// checkRow holds row i of l against a row of transformers' logits.
func checkRow(t *testing.T, name string, l *protocol.LogprobsLists, i int, logits []float32, token int32) {
	t.Helper()
	const tolerance = 5e-4
	top, sum := float64(slices.Max(logits)), 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x) - top)
	}
	exact := func(id int32) float64 { return float64(logits[id]) - top - math.Log(sum) }
	ids, values := l.TokenIDs[i*l.Width:(i+1)*l.Width], l.Logprobs[i*l.Width:(i+1)*l.Width]
	if ids[0] != token {
		t.Errorf("%s: row %d describes token %d, want %d", name, i, ids[0], token)
	}
	for j, id := range ids {
		if want := exact(id); math.Abs(float64(values[j])-want) > tolerance {
			t.Errorf("%s: row %d: log probability of %d = %v, want %v", name, i, id, values[j], want)
		}
	}
	sorted := slices.Sorted(slices.Values(logits))
	for j := 1; j < l.Width; j++ { // near ties may come either way round
		if want := sorted[len(sorted)-j]; math.Abs(float64(logits[ids[j]]-want)) > tolerance {
			t.Errorf("%s: row %d: place %d goes to a logit of %v, want %v", name, i, j, logits[ids[j]], want)
		}
	}
	atLeast, close := int64(0), int64(0)
	for _, x := range logits {
		if d := float64(x - logits[token]); d > tolerance {
			atLeast++
		} else if d >= -tolerance {
			close++
		}
	}
	if rank := l.Ranks[i]; rank < atLeast+1 || rank > atLeast+close {
		t.Errorf("%s: row %d: rank %d of token %d, want %d to %d", name, i, rank, token, atLeast+1, atLeast+close)
	}
}

// In processed mode the sampled tokens' log probabilities are those of the
// distribution that was drawn from; the prompt's stay the model's.
func TestProcessedLogprobs(t *testing.T) {
	dev := openDevice(t, "ref")
	m := tinyModel(t, dev)
	cfg := smallConfig
	plan := func(row step.Row) *step.SchedulerOutput {
		p := protocol.DefaultSamplingParams()
		p.Temperature, p.TopK, p.Logprobs, p.PromptLogprobs = 0.5, 2, ptr(3), ptr(1)
		p.LogitBias = map[int32]float64{20: 1000, 21: 1000.5}
		return admit(row, &p, 5, 6, 7)
	}
	raw := sample(t, newRunner(t, dev, m, cfg).Start(plan(0)))
	rawLogprobs, rawPrompt := raw.Logprobs[0], raw.PromptLogprobs[0]
	cfg.ProcessedLogprobs = true
	out := sample(t, newRunner(t, dev, m, cfg).Start(plan(0)))
	if out.Sampled[0] != raw.Sampled[0] || !reflect.DeepEqual(out.PromptLogprobs[0], rawPrompt) {
		t.Errorf("sampled %d, prompt %+v; want %d, %+v", out.Sampled[0], out.PromptLogprobs[0], raw.Sampled[0], rawPrompt)
	}
	got := out.Logprobs[0]
	ids := slices.Sorted(slices.Values(got.TokenIDs[1:3]))
	sum := math.Exp(float64(got.Logprobs[1])) + math.Exp(float64(got.Logprobs[2]))
	if !slices.Equal(ids, []int32{20, 21}) || math.Abs(sum-1) > 1e-5 || !math.IsInf(float64(got.Logprobs[3]), -1) {
		t.Errorf("processed log probabilities %v of %v, want 20 and 21 to share all", got.Logprobs, got.TokenIDs)
	}
	if rawLogprobs.Logprobs[0] > -2 {
		t.Errorf("raw log probability of the token that a bias forces = %v, want that of 1 in about 131", rawLogprobs.Logprobs[0])
	}
}

// A prompt of one token describes nothing, which is not the same as not asked.
func TestPromptLogprobsOfOneToken(t *testing.T) {
	dev := openDevice(t, "ref")
	r := newRunner(t, dev, tinyModel(t, dev), smallConfig)
	p := greedy()
	p.PromptLogprobs = ptr(2)
	out := sample(t, r.Start(admit(0, p, 5)))
	if l := out.PromptLogprobs[0]; l == nil || l.NumTokens != 0 || l.Width != 3 {
		t.Errorf("prompt log probabilities = %+v, want none of width 3", l)
	}
	if out := sample(t, r.Start(decode(1, 0))); out.PromptLogprobs != nil || out.Logprobs != nil {
		t.Errorf("one step later: %v, %v, want nil", out.PromptLogprobs, out.Logprobs)
	}
}

// A request that fails is told nothing; its mates are.
func TestLogprobsBesideAFailure(t *testing.T) {
	dev := openDevice(t, "ref")
	r := newRunner(t, dev, tinyModel(t, dev), smallConfig)
	bad, good := greedy(), greedy()
	bad.Logprobs, good.Logprobs = ptr(1), ptr(1)
	bad.AllowedTokenIDs, bad.MinTokens, bad.AllStopTokenIDs = []int32{4}, 2, []int32{4} // nothing is left
	plan, other := admit(1, bad, 1, 2), admit(2, good, 1, 2)
	plan.New = append(plan.New, other.New...)
	plan.Scheduled = append(plan.Scheduled, other.Scheduled...)
	plan.NumTokens = 4
	out := sample(t, r.Start(plan))
	if out.Sampled[0] != -1 || out.Logprobs[0] != nil || out.Sampled[1] < 0 || out.Logprobs[1] == nil || out.Logprobs[1].TokenIDs[0] != out.Sampled[1] {
		t.Errorf("Sampled %v, Logprobs %v; want -1 and nil, then a token and its own", out.Sampled, out.Logprobs)
	}
}
