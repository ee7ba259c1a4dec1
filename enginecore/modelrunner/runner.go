package modelrunner

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"

	"govllm/enginecore/internal/invariants"
	"govllm/enginecore/model"
	"govllm/enginecore/step"
	"govllm/kernels"
)

// Runner computes steps on one device.
type Runner struct {
	model *model.Model
	cfg   Config

	queue   kernels.Queue
	work    *model.Workspace
	kv      kernels.KVCache
	buffers *buffers

	rows    []row
	batch   batch
	sampled []int32 // [numLogits] of the running pass
	pass    Pass
	out     step.ModelRunnerOutput

	jobs chan struct{} // one place: a pass is handed over without waiting
	done chan error    // one place: the device never waits for Sample
}

// Pass is one step under way. It belongs to the Runner and lives until the
// next Start.
type Pass struct {
	runner *Runner
	plan   *step.SchedulerOutput
	open   bool
}

// New allocates the KV cache and all buffers, and starts the device goroutine,
// which Close ends.
func New(dev kernels.Device, m *model.Model, cfg Config) (*Runner, error) {
	if err := cfg.Validate(dev.Caps()); err != nil {
		return nil, fmt.Errorf("modelrunner: %w", err)
	}
	r := &Runner{
		model:   m,
		cfg:     cfg,
		rows:    make([]row, cfg.MaxNumSeqs),
		sampled: make([]int32, cfg.MaxNumSeqs),
		jobs:    make(chan struct{}, 1),
		done:    make(chan error, 1),
	}
	r.pass.runner = r
	if err := r.allocate(dev); err != nil {
		return nil, fmt.Errorf("modelrunner: %w", err)
	}
	go r.device()
	return r, nil
}

func (r *Runner) allocate(dev kernels.Device) (err error) {
	if r.kv, err = dev.NewKVCache(model.KVShape(r.model.Config(), r.cfg.NumBlocks, r.cfg.BlockSize, r.cfg.KVDType)); err != nil {
		return err
	}
	if r.work, err = r.model.NewWorkspace(dev, r.cfg.MaxNumBatchedTokens, r.cfg.MaxLogits()); err != nil {
		return err
	}
	if r.buffers, err = newBuffers(dev, &r.cfg); err != nil {
		return err
	}
	const numSamples, numLogprobs = 1, 2
	r.queue, err = dev.NewQueue(numUploads + r.model.NumOps() + r.cfg.numPromptOps() + model.NumLogitsOps + numSamples + numLogprobs + numDownloads)
	return err
}

// device runs what was recorded, one pass after the other.
func (r *Runner) device() {
	defer close(r.done)
	for range r.jobs {
		r.done <- r.sync()
	}
}

// sync turns a panic of the backend into an error, so that the engine can
// still tell its frontends that it dies.
func (r *Runner) sync() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic on the device: %v\n%s", v, debug.Stack())
		}
	}()
	return r.queue.Sync()
}

// Start applies the plan to the rows, records the step and lets the device
// work. The plan must stay as it is until Sample has returned.
func (r *Runner) Start(plan *step.SchedulerOutput) *Pass {
	if r.pass.open {
		invariants.Fail("step %d starts before the last was sampled", plan.Number)
	}
	r.apply(plan)
	r.pass.plan, r.pass.open = plan, true
	if len(plan.Scheduled) > 0 {
		r.record(plan)
		r.jobs <- struct{}{}
	}
	return &r.pass
}

func (r *Runner) record(plan *step.SchedulerOutput) {
	r.batch.build(plan, r.rows, r.cfg.BlockSize)
	in := r.buffers.upload(r.queue, &r.batch)
	in.KV = r.kv
	logits := r.forward(in)
	if in.NumLogits > 0 {
		r.queue.Sample(r.buffers.sampled, logits, r.batch.draws)
		r.queue.Download(r.sampled[:in.NumLogits], r.buffers.sampled)
		r.recordLogprobs(logits)
	}
}

// forward records the pass and returns the logits of the rows that sample.
func (r *Runner) forward(in model.Inputs) kernels.Activation {
	if len(r.batch.promptRows) == 0 {
		return r.model.Forward(r.queue, r.work, in)
	}
	r.model.ForwardAll(r.queue, r.work, in)
	r.recordPrompts()
	if in.NumLogits == 0 {
		return nil
	}
	return r.model.Logits(r.queue, r.work, in.LogitRows, in.NumLogits)
}

// Sample waits for the device, appends the sampled tokens to their rows and
// returns them. An error is the device's: it can't be used any more.
func (p *Pass) Sample() (*step.ModelRunnerOutput, error) {
	r := p.runner
	if !p.open {
		invariants.Fail("a pass is sampled twice")
	}
	p.open = false
	if len(p.plan.Scheduled) > 0 {
		if err := <-r.done; err != nil {
			return nil, fmt.Errorf("modelrunner: %w", err)
		}
	}
	return r.collect(p.plan)
}

func (r *Runner) collect(plan *step.SchedulerOutput) (*step.ModelRunnerOutput, error) {
	r.out.Sampled, r.out.NumNaNs = r.out.Sampled[:0], nil
	drawn, failed := 0, 0
	for i := range plan.Scheduled {
		s, token := &plan.Scheduled[i], int32(-1)
		if s.Samples {
			token = r.sampled[drawn]
			drawn++
			if token < 0 {
				failed = drawn
			}
			// A failed request ends, but under asynchronous scheduling its
			// next token is planned already: any ID serves for that.
			w := &r.rows[s.Row]
			w.tokens = append(w.tokens, max(token, 0))
			w.sampling.Append(max(token, 0))
		}
		r.out.Sampled = append(r.out.Sampled, token)
	}
	r.collectLogprobs(plan)
	if failed > 0 {
		return &r.out, r.countNaNs(plan, failed)
	}
	return &r.out, nil
}

// countNaNs looks at the logits again, now that a row had none to draw from.
// Only such a step pays for it. numLogits is where the last such row ends.
func (r *Runner) countNaNs(plan *step.SchedulerOutput, numLogits int) error {
	vocab := r.model.Config().VocabSize
	logits := make([]float32, numLogits*vocab)
	r.queue.DownloadRows(logits, r.work.Logits(), numLogits)
	r.jobs <- struct{}{}
	if err := <-r.done; err != nil {
		return fmt.Errorf("modelrunner: %w", err)
	}
	r.out.NumNaNs = make([]int, len(plan.Scheduled))
	drawn := 0
	for i := range plan.Scheduled {
		if !plan.Scheduled[i].Samples || drawn == numLogits {
			continue
		}
		if r.out.Sampled[i] < 0 {
			r.out.NumNaNs[i] = numNaNs(logits[drawn*vocab : (drawn+1)*vocab])
		}
		drawn++
	}
	return nil
}

func numNaNs(values []float32) int {
	n := 0
	for _, v := range values {
		if math.IsNaN(float64(v)) {
			n++
		}
	}
	return n
}

// KVShape describes the KV cache.
func (r *Runner) KVShape() kernels.KVShape { return r.kv.KVShape() }

// Close ends the device goroutine after the pass under way. The device stays
// open: it is the caller's.
func (r *Runner) Close() error {
	close(r.jobs)
	var errs []error
	for err := range r.done {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
