package modelrunner

import (
	"slices"
	"testing"

	"govllm/enginecore/step"
	"govllm/kernels"
	"govllm/protocol/modelfile/modelfiletest"
)

func TestMinTokensBansStopTokens(t *testing.T) {
	dev := openDevice(t, "ref")
	r := newRunner(t, dev, tinyModel(t, dev), smallConfig)
	best := sample(t, r.Start(admit(0, greedy(), 9, 8))).Sampled[0]
	p := greedy()
	p.MinTokens, p.AllStopTokenIDs = 1, []int32{best}
	if got := sample(t, r.Start(admit(1, p, 9, 8))).Sampled[0]; got == best {
		t.Errorf("first token = %d, a stop token below min_tokens", got)
	}
	p.MinTokens = 0
	if got := sample(t, r.Start(admit(2, p, 9, 8))).Sampled[0]; got != best {
		t.Errorf("first token = %d without min_tokens, want %d", got, best)
	}
}

// The embedding of token 5 is NaN: who uses it fails, and only he.
func TestNaNLogitsFailOneRequest(t *testing.T) {
	cfg := modelfiletest.Llama()
	tensors := modelfiletest.RandomTensors(cfg, "F32", 7)
	for i := range 4 {
		tensors[0].Data[5*64*4+i] = 0xff
	}
	dev := openDevice(t, "ref")
	r := newRunner(t, dev, loadModel(t, dev, modelfiletest.WriteDir(t, cfg, tensors...), kernels.F32), smallConfig)
	want := sample(t, r.Start(admit(0, greedy(), 1, 2))).Sampled[0]
	plan, other := admit(1, greedy(), 4, 5), admit(2, greedy(), 1, 2)
	plan.New = append(plan.New, other.New...)
	plan.Scheduled = append(plan.Scheduled, other.Scheduled...)
	plan.NumTokens = 4
	out := sample(t, r.Start(plan))
	if !slices.Equal(out.Sampled, []int32{-1, want}) || !slices.Equal(out.NumNaNs, []int{131, 0}) {
		t.Errorf("Sampled = %v, NumNaNs = %v; want [-1 %d], [131 0]", out.Sampled, out.NumNaNs, want)
	}
	if out := sample(t, r.Start(decode(2, 2))); out.NumNaNs != nil {
		t.Errorf("NumNaNs = %v one step later, want nil", out.NumNaNs)
	}
	// An asynchronous scheduler may have planned the failed request's next token.
	if out := sample(t, r.Start(decode(2, 1))); out.Sampled[0] != -1 {
		t.Errorf("Sampled = %v after a failure, want [-1]", out.Sampled)
	}
}

// The random number of a draw is that of its output position, also for a
// request that comes back after a preemption.
func TestDrawPositionCountsOutput(t *testing.T) {
	dev := openDevice(t, "ref")
	r := newRunner(t, dev, tinyModel(t, dev), smallConfig)
	positions := func(plan *step.SchedulerOutput) uint64 {
		sample(t, r.Start(plan))
		return r.batch.draws[0].Position
	}
	back := admit(1, greedy(), 1, 2, 3, 4, 5)
	back.New[0].Prompt = 2
	for i, c := range []struct {
		plan *step.SchedulerOutput
		want uint64
	}{
		{admit(0, greedy(), 1, 2), 0},
		{decode(2, 0), 1},
		{decode(3, 0), 2},
		{back, 3},
		{decode(5, 1), 4},
	} {
		if got := positions(c.plan); got != c.want {
			t.Errorf("step %d draws position %d, want %d", i, got, c.want)
		}
	}
}
