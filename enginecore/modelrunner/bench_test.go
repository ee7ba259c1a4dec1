package modelrunner

import (
	"fmt"
	"testing"

	"govllm/enginecore/step"
	"govllm/kernels"
	"govllm/protocol"
	"govllm/protocol/modelfile"
)

// BenchmarkDecode times a decode step of the builtin, from Start to Sample,
// with context tokens before it.
func BenchmarkDecode(b *testing.B) {
	for _, device := range devices() {
		for _, numSeqs := range []int{1, 16} {
			for _, context := range []int{128, 896} {
				b.Run(fmt.Sprintf("%s/seqs=%d/ctx=%d", device, numSeqs, context), func(b *testing.B) {
					benchmarkDecode(b, device, numSeqs, context)
				})
			}
		}
	}
}

func benchmarkDecode(b *testing.B, device string, numSeqs, context int) {
	const maxLen, blockSize = 1024, 32
	dev := openDevice(b, device)
	m := loadModel(b, dev, modelfile.Builtin, kernels.F32)
	r := newRunner(b, dev, m, Config{MaxNumSeqs: numSeqs, MaxNumBatchedTokens: 2048, MaxModelLen: maxLen,
		BlockSize: blockSize, NumBlocks: numSeqs*maxLen/blockSize + 1, KVDType: kernels.F32})
	params := protocol.DefaultSamplingParams()
	plan := &step.SchedulerOutput{NumTokens: numSeqs}
	for i := range numSeqs {
		row := step.Row(i)
		prompt, blocks := make([]int32, context), make([]int32, maxLen/blockSize)
		for j := range prompt {
			prompt[j] = int32(3 + (i*31+j*7)%2000)
		}
		for j := range blocks {
			blocks[j] = int32(1 + i*len(blocks) + j)
		}
		sample(b, r.Start(&step.SchedulerOutput{
			New:       []step.NewRequest{{Row: row, Params: &params, Seed: uint64(i), TokenIDs: prompt, Prompt: context, BlockIDs: blocks}},
			Scheduled: []step.Scheduled{{Row: row, NumTokens: context, Samples: true}},
			NumTokens: context,
		}))
		plan.Scheduled = append(plan.Scheduled, step.Scheduled{Row: row, NumTokens: 1, Samples: true})
	}
	b.ReportAllocs()
	computed := context
	for b.Loop() {
		if computed == maxLen-1 { // begin again behind the prompt
			computed = context
			for i := range numSeqs {
				r.rows[i].tokens = r.rows[i].tokens[:context+1]
			}
		}
		for i := range plan.Scheduled {
			plan.Scheduled[i].Computed = computed
		}
		sample(b, r.Start(plan))
		computed++
	}
	b.ReportMetric(float64(numSeqs)*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
}
