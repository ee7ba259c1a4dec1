package perf

import (
	"testing"

	"govllm/enginecore/step"
	"govllm/protocol"
)

var model = Model{NumLayers: 3, NumLocalLayers: 1, SlidingWindow: 4, HiddenSize: 8, IntermediateSize: 16, NumHeads: 4, NumKVHeads: 2,
	HeadDim: 2, VocabSize: 32, WeightBytes: 2, ActivationBytes: 2, CacheBytes: 1}

// The expected numbers are those of vLLM 0.32's perf.py for this model and
// batch, worked out by hand from its terms:
//
//	flops  qkv 2·6·8·8·2·3 = 4608, out 2·6·8·8·3 = 2304
//	       qk and av, each: 2·4·(5·5 + 1·10)·2·2 = 1120 and 2·4·(5·4 + 1·4)·2·1 = 384
//	       MLP 2·8·3·16·6·3 = 13824, LM head 2·2·8·32 = 1024
//	read   qkv 6·8·2·3 + 8·16·2·3 = 1056, out 6·8·2·3 + 8·8·2·3 = 672
//	       attention, two full layers: ((5·4 + 2·5·2)·2·2 + 1·4·2·2 + 2·10·2·2·1)·2 = 512
//	       and a local one: (5·4 + 2·4·2)·2·2 + 1·4·2·2 + 2·4·2·2·1 = 192
//	       MLP 6·8·2·3 + 2·8·16·2·3 + 2·6·16·2·3 + 6·16·2·3 + 8·16·2·3 = 4320, LM head 2·8·2 + 8·32·2 = 544
//	write  qkv 6·16·2·3 = 576, cache 2·6·2·2·1·3 = 144, out 6·8·2·3 = 288
//	       MLP 2·6·16·2·3 + 6·16·2·3 + 6·8·2·3 = 2016, LM head 2·32·2 = 128
func TestEstimate(t *testing.T) {
	plan := &step.SchedulerOutput{
		New:       []step.NewRequest{{Row: 1}},
		Scheduled: []step.Scheduled{{Row: 0, Computed: 9, NumTokens: 1}, {Row: 1, NumTokens: 5}},
		NumTokens: 6,
	}
	want := protocol.PerfStats{
		NumFlops:      4608 + 2304 + 2*(1120+384) + 13824 + 1024,
		NumReadBytes:  1056 + 672 + 512 + 192 + 4320 + 544,
		NumWriteBytes: 576 + 144 + 288 + 2016 + 128,
	}
	e := New(model)
	e.Add(plan)
	if got := e.Take(); got != want {
		t.Errorf("estimate = %+v, want %+v", got, want)
	}
	e.Add(plan)
	e.Add(plan)
	want = protocol.PerfStats{NumFlops: 2 * want.NumFlops, NumReadBytes: 2 * want.NumReadBytes, NumWriteBytes: 2 * want.NumWriteBytes}
	if got := e.Take(); got != want {
		t.Errorf("estimate of two steps = %+v, want %+v", got, want)
	}
	e.Add(&step.SchedulerOutput{})
	if got := e.Take(); got != (protocol.PerfStats{}) {
		t.Errorf("estimate of a step without tokens = %+v, want 0", got)
	}
}

// A prompt that goes on after its first chunk is prefill, the last known token
// of a request is decode.
func TestChunks(t *testing.T) {
	w := model.workOf(&step.SchedulerOutput{NumTokens: 9,
		Scheduled: []step.Scheduled{{Computed: 16, NumTokens: 8}, {Computed: 20, NumTokens: 1}}})
	want := work{tokens: 9, logitsRows: 2, tokenContext: [2]int{8*24 + 21, 9 * 4},
		prefillContext: [2]int{24, 4}, decodeContext: [2]int{21, 4}}
	if w != want {
		t.Errorf("work = %+v, want %+v", w, want)
	}
}

// The MLPs' parts of a mixture with two of four experts a token, in
// FfnMetrics' order; the rest is as in TestEstimate.
func TestMixture(t *testing.T) {
	mixture := model
	mixture.NumExperts, mixture.ExpertsPerToken = 4, 2
	plan := &step.SchedulerOutput{
		New:       []step.NewRequest{{Row: 1}},
		Scheduled: []step.Scheduled{{Row: 0, Computed: 9, NumTokens: 1}, {Row: 1, NumTokens: 5}},
		NumTokens: 6,
	}
	dense, e := New(model), New(mixture)
	dense.Add(plan)
	e.Add(plan)
	want := dense.Take()
	want.NumFlops += 27648 - 13824
	want.NumReadBytes += 4032 + 9216 - 4320
	want.NumWriteBytes += 4032 - 2016
	if got := e.Take(); got != want {
		t.Errorf("estimate of a mixture = %+v, want %+v", got, want)
	}
}
