package enginecore_test

import (
	"fmt"

	"govllm/enginecore"
	"govllm/enginecore/coretest"
	"govllm/enginecore/sched"
	"govllm/protocol"
)

// A Core is driven by plain calls: add requests, step until there is no work.
func Example() {
	cfg := sched.DefaultConfig()
	cfg.NumBlocks, cfg.MaxModelLen = 100, 1000
	runner := coretest.NewRunner(cfg.NumBlocks, cfg.BlockSize, 32_000)
	clock := 0.0
	core, err := enginecore.NewCore(enginecore.Config{Sched: cfg, VocabSize: 32_000}, runner, func() float64 { return clock })
	if err != nil {
		fmt.Println(err)
		return
	}
	maxTokens := 3
	params := protocol.DefaultSamplingParams()
	params.MaxTokens = &maxTokens
	request, err := core.NewIntake().Prepare(&protocol.EngineCoreRequest{
		RequestID: "story", PromptTokenIDs: []int32{1, 2, 3}, SamplingParams: &params,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	core.Add(request)
	for core.HasWork() {
		messages, err := core.Step()
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, m := range messages {
			for _, out := range m.Outputs.Outputs {
				fmt.Printf("%s: %d token %q\n", out.RequestID, len(out.NewTokenIDs), out.FinishReason)
			}
		}
	}
	// Output:
	// story: 1 token ""
	// story: 1 token ""
	// story: 1 token "length"
}
