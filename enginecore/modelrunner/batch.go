package modelrunner

import (
	"fmt"

	"govllm/enginecore/internal/invariants"
	"govllm/enginecore/model"
	"govllm/enginecore/sampler"
	"govllm/enginecore/step"
	"govllm/kernels"
)

// row is the persistent state of one running request.
type row struct {
	used     bool
	id       string
	tokens   []int32 // prompt and output
	prompt   int     // how many are the prompt
	blocks   []int32 // block table
	sampling sampler.Row

	promptLogprobs promptLogprobs
}

// admit fills a row. The slices keep their capacity from request to request.
func (r *row) admit(n *step.NewRequest, vocabSize int) {
	r.used = true
	r.id = n.ID
	r.tokens = append(r.tokens[:0], n.TokenIDs...)
	r.prompt = n.Prompt
	r.blocks = append(r.blocks[:0], n.BlockIDs...)
	r.sampling.Reset(n.Params, n.Seed, vocabSize, n.TokenIDs, n.Prompt)
	r.promptLogprobs.admit(n, vocabSize)
}

func (r *row) release() {
	*r = row{tokens: r.tokens[:0], blocks: r.blocks[:0], sampling: r.sampling}
}

// apply brings the rows to the plan's state.
func (r *Runner) apply(plan *step.SchedulerOutput) {
	for _, i := range plan.Freed {
		if !r.rows[i].used {
			invariants.Fail("row %d was freed while empty", i)
		}
		r.rows[i].release()
	}
	for i := range plan.New {
		n := &plan.New[i]
		if w := &r.rows[n.Row]; w.used {
			invariants.Fail("row %d given to request %q holds request %q", n.Row, n.ID, w.id)
		}
		r.rows[n.Row].admit(n, r.model.Config().VocabSize)
	}
	for i := range plan.Scheduled {
		s := &plan.Scheduled[i]
		w := &r.rows[s.Row]
		w.blocks = append(w.blocks, s.NewBlockIDs...)
		r.check(s, w)
	}
}

// check holds a request's share of the step against its row.
func (r *Runner) check(s *step.Scheduled, w *row) {
	end := s.Computed + s.NumTokens
	switch {
	case !w.used:
		invariants.Fail("row %d is scheduled and empty", s.Row)
	case s.Computed < 0 || s.NumTokens < 1 || end > len(w.tokens):
		invariants.Fail("request %q: tokens [%d, %d) of %d are scheduled", w.id, s.Computed, end, len(w.tokens))
	case end > r.cfg.MaxModelLen:
		invariants.Fail("request %q: token %d is beyond max_model_len %d", w.id, end, r.cfg.MaxModelLen)
	case s.Samples != (end == len(w.tokens)):
		invariants.Fail("request %q: Samples is %v after token %d of %d", w.id, s.Samples, end, len(w.tokens))
	case end > len(w.blocks)*r.cfg.BlockSize:
		invariants.Fail("request %q: %d tokens in %d blocks of %d", w.id, end, len(w.blocks), r.cfg.BlockSize)
	case len(w.blocks) > r.cfg.maxBlocks():
		invariants.Fail("request %q: %d blocks, max_model_len needs %d", w.id, len(w.blocks), r.cfg.maxBlocks())
	}
}

// batch holds a step's arrays on the host; see model.Inputs and kernels.Batch.
type batch struct {
	tokenIDs, positions, slots []int32 // [numTokens]
	queryStart                 []int32 // [numSeqs+1]
	seqLens                    []int32 // [numSeqs]
	blockTable                 []int32 // [numSeqs, maxBlocks]
	maxBlocks                  int     // the longest table of this step
	logitRows                  []int32 // [numLogits]
	draws                      []kernels.SamplingRow
	asked                      question // about the draws

	// Rows that describe the next token of their prompt, and that token.
	promptRows, promptNext []int32
	promptAsked            question
	hasPrompts             bool // a prompt with log probabilities is in the step
}

// build lays out the plan's tokens in batch order.
func (b *batch) build(plan *step.SchedulerOutput, rows []row, blockSize int) {
	b.tokenIDs, b.positions, b.slots = b.tokenIDs[:0], b.positions[:0], b.slots[:0]
	b.queryStart = append(b.queryStart[:0], 0)
	b.seqLens, b.blockTable = b.seqLens[:0], b.blockTable[:0]
	b.logitRows, b.draws = b.logitRows[:0], b.draws[:0]
	b.promptRows, b.promptNext = b.promptRows[:0], b.promptNext[:0]
	b.asked.reset()
	b.promptAsked.reset()
	b.maxBlocks, b.hasPrompts = 0, false
	for i := range plan.Scheduled {
		s := &plan.Scheduled[i]
		b.maxBlocks = max(b.maxBlocks, ceilDiv(s.Computed+s.NumTokens, blockSize))
	}
	for i := range plan.Scheduled {
		b.add(&plan.Scheduled[i], &rows[plan.Scheduled[i].Row], blockSize)
	}
}

func (b *batch) add(s *step.Scheduled, w *row, blockSize int) {
	end := s.Computed + s.NumTokens
	b.tokenIDs = append(b.tokenIDs, w.tokens[s.Computed:end]...)
	for p := s.Computed; p < end; p++ {
		b.positions = append(b.positions, int32(p))
		b.slots = append(b.slots, w.blocks[p/blockSize]*int32(blockSize)+int32(p%blockSize))
	}
	b.queryStart = append(b.queryStart, int32(len(b.tokenIDs)))
	b.seqLens = append(b.seqLens, int32(end))
	used := ceilDiv(end, blockSize)
	b.blockTable = append(b.blockTable, w.blocks[:used]...)
	for range b.maxBlocks - used {
		b.blockTable = append(b.blockTable, 0) // not read
	}
	b.askPrompt(s, w)
	if s.Samples {
		if asked, ok := w.sampling.Logprobs(); ok {
			asked.Row = len(b.draws)
			b.asked.add(asked)
		}
		b.logitRows = append(b.logitRows, int32(len(b.tokenIDs)-1))
		b.draws = append(b.draws, w.sampling.Draw(w.tokens[w.prompt:]))
	}
}

// askPrompt asks about the prompt tokens that the rows just added describe.
func (b *batch) askPrompt(s *step.Scheduled, w *row) {
	b.hasPrompts = b.hasPrompts || w.promptLogprobs.lists != nil
	first := len(b.tokenIDs) - s.NumTokens
	for i := range w.promptLogprobs.describes(s.Computed, s.Computed+s.NumTokens) {
		b.promptRows = append(b.promptRows, int32(first+i))
		b.promptNext = append(b.promptNext, w.tokens[s.Computed+i+1])
		b.promptAsked.add(w.promptLogprobs.asked)
	}
}

// buffers are the batch's arrays on the device, each as large as any step
// needs.
type buffers struct {
	tokenIDs, positions, slots, queryStart, seqLens, blockTable, logitRows, sampled, promptRows, promptNext kernels.Ints
}

func newBuffers(dev kernels.Device, cfg *Config) (*buffers, error) {
	b := &buffers{}
	for _, a := range []struct {
		dst *kernels.Ints
		n   int
	}{
		{&b.tokenIDs, cfg.MaxNumBatchedTokens},
		{&b.positions, cfg.MaxNumBatchedTokens},
		{&b.slots, cfg.MaxNumBatchedTokens},
		{&b.queryStart, cfg.MaxNumSeqs + 1},
		{&b.seqLens, cfg.MaxNumSeqs},
		{&b.blockTable, cfg.MaxNumSeqs * cfg.maxBlocks()},
		{&b.logitRows, cfg.MaxNumSeqs},
		{&b.sampled, cfg.MaxNumSeqs},
		{&b.promptRows, cfg.MaxLogits()},
		{&b.promptNext, cfg.MaxLogits()},
	} {
		var err error
		if *a.dst, err = dev.NewInts(a.n); err != nil {
			return nil, fmt.Errorf("modelrunner: array of %d: %w", a.n, err)
		}
	}
	return b, nil
}

// numUploads and numDownloads of one step, for the queue's size.
const numUploads, numDownloads = 7, 1

// upload records the copies of h and returns what the model needs.
func (b *buffers) upload(q kernels.Queue, h *batch) model.Inputs {
	for _, a := range [numUploads]struct {
		dst kernels.Ints
		src []int32
	}{
		{b.tokenIDs, h.tokenIDs},
		{b.positions, h.positions},
		{b.slots, h.slots},
		{b.queryStart, h.queryStart},
		{b.seqLens, h.seqLens},
		{b.blockTable, h.blockTable},
		{b.logitRows, h.logitRows},
	} {
		q.Upload(a.dst, a.src)
	}
	return model.Inputs{
		NumTokens: len(h.tokenIDs),
		NumLogits: len(h.logitRows),
		TokenIDs:  b.tokenIDs,
		Positions: b.positions,
		Slots:     b.slots,
		LogitRows: b.logitRows,
		Batch: kernels.Batch{
			NumSeqs:    len(h.seqLens),
			MaxBlocks:  h.maxBlocks,
			QueryStart: b.queryStart,
			SeqLens:    b.seqLens,
			BlockTable: b.blockTable,
		},
	}
}
