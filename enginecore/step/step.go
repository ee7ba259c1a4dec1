// Package step holds what the scheduler and the model runner hand each other.
//
// The scheduler decides, the runner computes, and they never import each
// other: Core passes a SchedulerOutput one way and a ModelRunnerOutput back.
// A request travels whole when it enters a batch (NewRequests) and as a
// difference afterwards. The runner keeps the rest in a row of its own.
//
// Both values are reused. A plan stays as it is until its pass has been sampled,
// even if the next has been scheduled meanwhile; a result stays as it is until
// the next pass is sampled, even if that has been started. All slices grow once
// and then allocate nothing.
//
// Source: vllm/v1/core/sched/output.py.
package step

import "govllm/protocol"

// Row is a request's place in the runner's persistent batch: the scheduler
// hands out rows below --max-num-seqs, one for every running request, and the
// runner keeps that request's tokens, block table and sampling state there.
type Row int32

// SchedulerOutput is the plan of one step.
type SchedulerOutput struct {
	Number uint64 // of the step, from 1

	// Finished rows are free again before anything else of this plan applies:
	// finished, aborted or preempted since the previous plan. (Preemption is
	// finishing and adding again.)
	Freed []Row

	// New requests enter a row with this step: first admitted, or again after
	// a preemption.
	New []NewRequest

	// Scheduled lists the work, in batch order: running requests, then new.
	Scheduled []Scheduled

	// NumTokens is the sum of Scheduled[i].NumTokens, at most the budget.
	NumTokens int
}

// NewRequest carries all that the runner must know of a request.
type NewRequest struct {
	Row      Row
	ID       string // for messages only
	Params   *protocol.SamplingParams
	Seed     uint64  // of sampling: the request's own, or one that the core drew
	TokenIDs []int32 // prompt and, after a preemption, what was generated
	Prompt   int     // how many of TokenIDs are the prompt
	BlockIDs []int32 // every block the request holds, cached ones included
	Computed int     // tokens whose KV is already in those blocks
}

// Scheduled is one request's share of a step: tokens
// [Computed, Computed+NumTokens) of its row.
type Scheduled struct {
	Row         Row
	Computed    int
	NumTokens   int
	NewBlockIDs []int32 // appended to the row's table; nil for New ones
	// Samples says that the last of these tokens is the last the request has,
	// so that a token is sampled after it. A partial prefill samples nothing.
	Samples bool
}

// ModelRunnerOutput is what a step computed. Index i belongs to
// SchedulerOutput.Scheduled[i].
type ModelRunnerOutput struct {
	// Sampled[i] is the new token, or -1 where nothing was sampled. The runner
	// has already appended it to the row. -1 where Samples was set means that
	// the logits were not finite: the request ends in an error.
	Sampled []int32
	// NumNaNs[i] counts the NaNs in the logits of such a failed request; nil
	// in a step without one.
	NumNaNs []int
	// Logprobs[i] belongs to Sampled[i]; nil where none were asked. The lists
	// are the receiver's.
	Logprobs []*protocol.LogprobsLists
	// PromptLogprobs[i] comes once, with the chunk that completes the prompt.
	PromptLogprobs []*protocol.LogprobsLists
}

// NewLogprobs returns lists to be filled, [numTokens, width].
func NewLogprobs(numTokens, width int) *protocol.LogprobsLists {
	return &protocol.LogprobsLists{
		NumTokens: numTokens,
		Width:     width,
		TokenIDs:  make([]int32, numTokens*width),
		Logprobs:  make([]float32, numTokens*width),
		Ranks:     make([]int64, numTokens),
	}
}
