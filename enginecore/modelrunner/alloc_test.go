package modelrunner

import (
	"testing"

	"govllm/enginecore/step"
	"govllm/kernels"
	"govllm/protocol"
)

// idleDevice computes nothing: what remains is the runner's own work.
type idleDevice struct{ kernels.Device }

func (d *idleDevice) NewQueue(int) (kernels.Queue, error) { return idleQueue{}, nil }

type idleQueue struct{ kernels.Queue }

func (idleQueue) Upload(kernels.Ints, []int32)                                                      {}
func (idleQueue) Download([]int32, kernels.Ints)                                                    {}
func (idleQueue) Embed(kernels.Activation, kernels.Weight, kernels.Ints, float32, int)              {}
func (idleQueue) RMSNorm(_, _ kernels.Activation, _ kernels.Vector, _ float32, _ int)               {}
func (idleQueue) Linear(_, _ kernels.Activation, _ kernels.Weight, _ kernels.Vector, _ bool, _ int) {}
func (idleQueue) GateMul(_, _ kernels.Activation, _ kernels.GateKind, _ int)                        {}
func (idleQueue) RopeKVWrite(_ kernels.Activation, _ kernels.KVCache, _ int, _, _ kernels.Ints, _ kernels.Rope,
	_ kernels.AttnShape, _, _ kernels.Vector, _ float32, _ int) {
}
func (idleQueue) PagedAttention(_, _ kernels.Activation, _ kernels.KVCache, _ int, _ kernels.Batch, _ kernels.AttnShape, _ int) {
}
func (idleQueue) GatherRows(_, _ kernels.Activation, _ kernels.Ints, _ int)      {}
func (idleQueue) Sample(kernels.Ints, kernels.Activation, []kernels.SamplingRow) {}
func (idleQueue) Sync() error                                                    { return nil }

// decodeSteps admits numSeqs requests and returns a function that decodes one
// token of each, over and over.
func decodeSteps(t testing.TB, dev kernels.Device, numSeqs int, params *protocol.SamplingParams) func() {
	t.Helper()
	const maxLen = 4096
	r := newRunner(t, dev, tinyModel(t, dev), Config{MaxNumSeqs: numSeqs, MaxNumBatchedTokens: 4 * numSeqs, MaxModelLen: maxLen,
		BlockSize: 256, NumBlocks: 4, KVDType: kernels.F32})
	plan := &step.SchedulerOutput{}
	for i := range numSeqs {
		row := step.Row(i)
		n := step.NewRequest{Row: row, Params: params, TokenIDs: []int32{1, 2, 3, 4}, Prompt: 4, BlockIDs: make([]int32, maxLen/256)}
		sample(t, r.Start(&step.SchedulerOutput{New: []step.NewRequest{n}, Scheduled: []step.Scheduled{{Row: row, NumTokens: 4, Samples: true}}}))
		plan.Scheduled = append(plan.Scheduled, step.Scheduled{Row: row, NumTokens: 1, Samples: true})
	}
	computed := 3
	return func() {
		if computed++; computed == maxLen-1 {
			computed = 4
			for i := range r.rows {
				r.rows[i].tokens = r.rows[i].tokens[:5]
			}
		}
		for i := range plan.Scheduled {
			plan.Scheduled[i].Computed = computed
		}
		sample(t, r.Start(plan))
	}
}

func TestDecodeAllocatesNothing(t *testing.T) {
	changed := greedy()
	changed.RepetitionPenalty, changed.FrequencyPenalty, changed.PresencePenalty = 1.2, 0.5, 0.5
	changed.BadWordsTokenIDs, changed.LogitBias, changed.AllowedTokenIDs = [][]int32{{1}, {0, 0, 3}}, map[int32]float64{1: 1}, []int32{0, 1, 2}
	for name, params := range map[string]*protocol.SamplingParams{"plain": greedy(), "changed logits": changed} {
		decode := decodeSteps(t, &idleDevice{openDevice(t, "ref")}, 16, params)
		for range 5000 { // past the first growth of the rows
			decode()
		}
		if got := testing.AllocsPerRun(500, decode); got != 0 {
			t.Errorf("%s: a decode step makes %v allocations, want 0", name, got)
		}
	}
}

// BenchmarkHost times what a step costs beside the device's work.
func BenchmarkHost(b *testing.B) {
	decode := decodeSteps(b, &idleDevice{openDevice(b, "ref")}, 16, greedy())
	b.ReportAllocs()
	for b.Loop() {
		decode()
	}
}
