package modelrunner

import (
	"slices"
	"testing"

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
