package enginecore_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"govllm/enginecore"
	"govllm/enginecore/model"
	"govllm/enginecore/modelrunner"
	"govllm/enginecore/sched"
	"govllm/enginecore/step"
	"govllm/kernels"
	_ "govllm/kernels/cpu"
	_ "govllm/kernels/ref"
	"govllm/protocol"
	"govllm/protocol/modelfile"
	"govllm/protocol/modelfile/modelfiletest"
)

// realRunner joins modelrunner's concrete pass to our interface.
type realRunner struct{ *modelrunner.Runner }

func (r realRunner) Start(plan *step.SchedulerOutput) enginecore.Pass { return r.Runner.Start(plan) }

// textEngine is a core with a real, tiny model of random weights.
type textEngine struct {
	core   *enginecore.Core
	intake *enginecore.Intake
	sum    sched.Deltas
}

func newTextEngine(t *testing.T, dev kernels.Device, cfg sched.Config) *textEngine {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	shape := modelfiletest.Llama()
	dir := modelfiletest.WriteDir(t, shape, modelfiletest.RandomTensors(shape, "F32", 7)...)
	m, err := modelfile.Open(dir, modelfile.Options{})
	must(err)
	src, err := m.OpenWeights()
	must(err)
	defer src.Close()
	net, err := model.Load(dev, m.Config, src, model.Options{DType: kernels.F32, MaxModelLen: cfg.MaxModelLen})
	must(err)
	runner, err := modelrunner.New(dev, net, modelrunner.Config{
		MaxNumSeqs: cfg.MaxNumSeqs, MaxNumBatchedTokens: cfg.MaxNumBatchedTokens, MaxModelLen: cfg.MaxModelLen,
		BlockSize: cfg.BlockSize, NumBlocks: cfg.NumBlocks, KVDType: kernels.F32,
	})
	must(err)
	t.Cleanup(func() { must(runner.Close()) })
	core, err := enginecore.NewCore(enginecore.Config{
		Sched: cfg, VocabSize: m.Config.VocabSize, MaxLogprobs: -1, Log: slog.New(slog.DiscardHandler),
	}, realRunner{runner}, func() float64 { return 0 })
	must(err)
	return &textEngine{core: core, intake: core.NewIntake()}
}

// textRequest is one of a few prompts that share prefixes: greedy, or sampled
// with a seed of its own.
func textRequest(id string, i int) *protocol.EngineCoreRequest {
	p := protocol.DefaultSamplingParams()
	maxTokens := 20 + 7*(i%3)
	p.MaxTokens = &maxTokens
	p.Temperature = 0
	if i%2 == 1 {
		seed := int64(i)
		p.Temperature, p.Seed = 1, &seed
	}
	prompt := make([]int32, 40+9*i)
	for j := range prompt {
		prompt[j] = int32(j*31%90 + 1)
		if j >= 36 {
			prompt[j] = int32((j*31 + i*17) % 90)
		}
	}
	return &protocol.EngineCoreRequest{RequestID: id, PromptTokenIDs: prompt, SamplingParams: &p, Priority: -i}
}

const numTexts = 6

// run serves the requests and returns their texts.
func (e *textEngine) run(t *testing.T, which ...int) map[int][]int32 {
	t.Helper()
	index := map[string]int{}
	for _, i := range which {
		id := fmt.Sprint("r", i)
		index[id] = i
		r, err := e.intake.Prepare(textRequest(id, i))
		if err != nil {
			t.Fatal(err)
		}
		e.core.Add(r)
	}
	texts := map[int][]int32{}
	for e.core.HasWork() {
		messages, err := e.core.Step()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			for _, out := range m.Outputs.Outputs {
				if out.FinishReason == protocol.FinishError {
					t.Fatalf("%s failed", out.RequestID)
				}
				i := index[out.RequestID]
				texts[i] = append(texts[i], out.NewTokenIDs...)
			}
			if m.Outputs.SchedulerStats != nil {
				last := e.core.LastStats()
				e.sum.PrefixCache.Hits += last.PrefixCache.Hits
				e.sum.RecomputedTokens += last.RecomputedTokens
			}
		}
	}
	return texts
}

// TestTextIsInvariant: what a request is told depends on the request alone, not
// on token budget, block size, prefix caching (cold or warm), preemption, batch
// mates, policy or asynchronous scheduling. Bitwise, on every backend: a row of
// a batch computes what it would compute alone.
func TestTextIsInvariant(t *testing.T) {
	for _, device := range []string{"ref", "cpu"} {
		t.Run(device, func(t *testing.T) {
			if testing.Short() && device == "ref" {
				t.Skip("-short: ref takes a minute under the race detector")
			}
			dev, err := kernels.Open(device, kernels.Options{})
			if err != nil {
				t.Skipf("no device %q here: %v", device, err)
			}
			t.Cleanup(func() { dev.Close() })
			unit := max(1, dev.Caps().BlockSizeMultiple)
			base := sched.DefaultConfig()
			base.MaxModelLen, base.MaxNumSeqs, base.MaxNumBatchedTokens = 200, 8, 256
			base.BlockSize, base.NumBlocks, base.NoPrefixCaching = unit*max(1, 16/unit), 400, true
			alone := newTextEngine(t, dev, base)
			want := map[int][]int32{}
			for i := range numTexts {
				want[i] = alone.run(t, i)[i]
				if len(want[i]) != 20+7*(i%3) {
					t.Fatalf("request %d alone has %d tokens", i, len(want[i]))
				}
			}
			all := []int{0, 1, 2, 3, 4, 5}
			for _, tt := range []struct {
				name   string
				edit   func(*sched.Config)
				hits   bool // prefix hits must occur
				redone bool // preemptions must
			}{
				{"together", func(c *sched.Config) {}, false, false},
				{"small budget", func(c *sched.Config) { c.MaxNumBatchedTokens = 8 }, false, false},
				{"threshold", func(c *sched.Config) { c.LongPrefillTokenThreshold = 11 }, false, false},
				{"small blocks", func(c *sched.Config) { c.BlockSize = unit }, false, false},
				{"large blocks", func(c *sched.Config) { c.BlockSize = 64 }, false, false},
				{"prefix caching", func(c *sched.Config) { c.NoPrefixCaching, c.BlockSize = false, unit }, true, false},
				{"preemption", func(c *sched.Config) { c.NumBlocks = 1 + (300+c.BlockSize-1)/c.BlockSize }, false, true},
				{"preemption, caching, priority", func(c *sched.Config) {
					c.NumBlocks, c.NoPrefixCaching, c.Policy = 1+(300+c.BlockSize-1)/c.BlockSize, false, sched.Priority
				}, true, true},
				{"two at a time", func(c *sched.Config) { c.MaxNumSeqs, c.NoPrefixCaching = 2, false }, true, false},
			} {
				for _, async := range []bool{false, true} {
					cfg := base
					tt.edit(&cfg)
					cfg.Async = async
					e := newTextEngine(t, dev, cfg)
					for _, warmth := range []string{"cold", "warm"} {
						got := e.run(t, all...)
						for i := range numTexts {
							if !slices.Equal(got[i], want[i]) {
								t.Errorf("%s, async %v, %s: request %d = %v, want %v", tt.name, async, warmth, i, got[i], want[i])
							}
						}
					}
					if tt.hits && e.sum.PrefixCache.Hits == 0 || tt.redone && e.sum.RecomputedTokens == 0 {
						t.Errorf("%s, async %v: %d tokens hit, %d recomputed: the case shows nothing", tt.name, async, e.sum.PrefixCache.Hits, e.sum.RecomputedTokens)
					}
				}
			}
		})
	}
}
