package coretest

import (
	"fmt"

	"govllm/enginecore"
	"govllm/enginecore/kvcache"
	"govllm/enginecore/step"
)

// Runner stands in for model and device. It panics when a plan breaks the
// contract of package step.
type Runner struct {
	BlockSize int
	VocabSize int
	Seed      uint64

	// Force makes the next token of a request this one, once; -1 makes its
	// logits not finite.
	Force map[string]int32
	// OnPlan sees every plan, and then who holds which row.
	OnPlan func(plan *step.SchedulerOutput, rows map[step.Row]*Row)
	// DuringPass runs while a pass is under way.
	DuringPass func()
	// Err fails the next Sample.
	Err error

	kv     []uint64 // by slot
	rows   map[step.Row]*Row
	passes [2]pass // results live until the plan after next
	n      int
}

// Row is the runner's copy of a request.
type Row struct {
	ID       string
	Tokens   []int32
	Prompt   int
	BlockIDs []int32
	Computed int
}

type pass struct {
	r      *Runner
	plan   *step.SchedulerOutput
	rows   []*Row
	result step.ModelRunnerOutput
}

// NewRunner returns a runner for numBlocks blocks of blockSize tokens.
func NewRunner(numBlocks, blockSize, vocabSize int) *Runner {
	return &Runner{
		BlockSize: blockSize,
		VocabSize: vocabSize,
		Force:     make(map[string]int32),
		kv:        make([]uint64, numBlocks*blockSize),
		rows:      make(map[step.Row]*Row),
	}
}

// Start applies the plan and computes it at once.
func (r *Runner) Start(plan *step.SchedulerOutput) enginecore.Pass {
	for _, row := range plan.Freed {
		if r.rows[row] == nil {
			panic(fmt.Sprintf("coretest: step %d frees row %d, which is free", plan.Number, row))
		}
		delete(r.rows, row)
	}
	for i := range plan.New {
		r.enter(&plan.New[i])
	}
	p := &r.passes[r.n%2]
	r.n++
	p.r, p.plan, p.rows, p.result.Sampled = r, plan, p.rows[:0], p.result.Sampled[:0]
	sum := 0
	for i := range plan.Scheduled {
		s := &plan.Scheduled[i]
		row := r.rows[s.Row]
		if row == nil {
			panic(fmt.Sprintf("coretest: step %d schedules row %d, which is free", plan.Number, s.Row))
		}
		sum += s.NumTokens
		p.rows = append(p.rows, row)
		p.result.Sampled = append(p.result.Sampled, r.compute(row, s))
	}
	if sum != plan.NumTokens || sum == 0 {
		panic(fmt.Sprintf("coretest: step %d has %d tokens, says %d", plan.Number, sum, plan.NumTokens))
	}
	if r.OnPlan != nil {
		r.OnPlan(plan, r.rows)
	}
	return p
}

func (r *Runner) enter(n *step.NewRequest) {
	if other := r.rows[n.Row]; other != nil {
		panic(fmt.Sprintf("coretest: %q enters row %d of %q", n.ID, n.Row, other.ID))
	}
	r.rows[n.Row] = &Row{
		ID:       n.ID,
		Tokens:   append([]int32(nil), n.TokenIDs...),
		Prompt:   n.Prompt,
		BlockIDs: append([]int32(nil), n.BlockIDs...),
		Computed: n.Computed,
	}
}

// compute writes the slots of the share and returns the token that follows, or
// -1 for a partial prefill.
func (r *Runner) compute(row *Row, s *step.Scheduled) int32 {
	row.BlockIDs = append(row.BlockIDs, s.NewBlockIDs...)
	end := s.Computed + s.NumTokens
	if s.Computed != row.Computed || s.NumTokens < 1 || end > len(row.Tokens) || s.Samples != (end == len(row.Tokens)) {
		panic(fmt.Sprintf("coretest: %q has %d tokens, %d computed; scheduled %+v", row.ID, len(row.Tokens), row.Computed, *s))
	}
	if have := len(row.BlockIDs) * r.BlockSize; end > have {
		panic(fmt.Sprintf("coretest: %q computes %d tokens in %d slots", row.ID, end, have))
	}
	for pos := s.Computed; pos < end; pos++ {
		before := r.Seed
		if pos > 0 {
			before = r.kv[r.slot(row, pos-1)]
		}
		r.kv[r.slot(row, pos)] = mix(before, uint64(row.Tokens[pos])+1)
	}
	row.Computed = end
	if !s.Samples {
		return -1
	}
	return r.sample(row)
}

func (r *Runner) slot(row *Row, pos int) int {
	id := row.BlockIDs[pos/r.BlockSize]
	if id == kvcache.NullBlock {
		panic(fmt.Sprintf("coretest: %q has the null block at position %d", row.ID, pos))
	}
	return int(id)*r.BlockSize + pos%r.BlockSize
}

func (r *Runner) sample(row *Row) int32 {
	if forced, ok := r.Force[row.ID]; ok {
		delete(r.Force, row.ID)
		return forced
	}
	return int32(r.kv[r.slot(row, row.Computed-1)] % uint64(r.VocabSize))
}

// Sample ends the pass: sampled tokens are in their rows.
func (p *pass) Sample() (*step.ModelRunnerOutput, error) {
	if p.r.DuringPass != nil {
		p.r.DuringPass()
	}
	if p.r.Err != nil {
		return nil, p.r.Err
	}
	for i := range p.plan.Scheduled {
		if p.plan.Scheduled[i].Samples { // a failed request may be planned once more: any token serves
			p.rows[i].Tokens = append(p.rows[i].Tokens, max(p.result.Sampled[i], 0))
		}
	}
	return &p.result, nil
}

// mix is a step of splitmix64 over both words.
func mix(a, b uint64) uint64 {
	z := a*0x9e3779b97f4a7c15 ^ b
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
