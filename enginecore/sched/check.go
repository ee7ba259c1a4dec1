package sched

import (
	"errors"
	"fmt"

	"govllm/enginecore/internal/invariants"
	"govllm/enginecore/request"
	"govllm/enginecore/step"
)

// Check recounts everything by brute force and reports what does not add up.
// It walks all requests and blocks: for tests, and, after every step, for
// builds with the tag "invariants".
func (s *Scheduler) Check() error {
	var running, queued []*request.Request
	numQueued, numDeferred, pending := 0, 0, 0
	rows := make(map[step.Row]string)
	var errs []error
	for id, r := range s.live {
		if id != r.ID {
			errs = append(errs, fmt.Errorf("request %q is filed as %q", r.ID, id))
		}
		switch r.Status {
		case request.Running:
			running = append(running, r)
			pending += max(0, r.NumTokens()-r.Computed)
			if other, ok := rows[step.Row(r.Row)]; ok {
				errs = append(errs, fmt.Errorf("row %d belongs to %q and %q", r.Row, other, r.ID))
			}
			rows[step.Row(r.Row)] = r.ID
		case request.Waiting, request.Preempted:
			queued = append(queued, r)
			numQueued++
		case request.Deferred:
			queued = append(queued, r)
			numDeferred++
		default:
			errs = append(errs, fmt.Errorf("live request %q is %v", r.ID, r.Status))
		}
		errs = append(errs, s.checkRequest(r))
	}
	equal := func(name string, got, want int) {
		if got != want {
			errs = append(errs, fmt.Errorf("%s %d, recounted %d", name, got, want))
		}
	}
	equal("running requests", s.numRunning, len(running))
	equal("waiting requests", s.waiting.Len()+s.released.Len(), numQueued)
	equal("deferred requests", s.numDeferred, numDeferred)
	equal("pending tokens", s.pendingTokens, pending)
	equal("free rows", len(s.rows), s.cfg.MaxNumSeqs-len(running))
	for _, row := range s.rows {
		if id, ok := rows[row]; ok {
			errs = append(errs, fmt.Errorf("row %d of %q is free", row, id))
		}
	}
	return errors.Join(append(errs, s.cache.Check(running, queued))...)
}

func (s *Scheduler) checkRequest(r *request.Request) error {
	var errs []error
	if r.NumPrompt() < 1 || r.NumTokens() > s.cfg.MaxModelLen || r.NumOutput() > r.MaxTokens {
		errs = append(errs, fmt.Errorf("request %q: %d prompt and %d output tokens, max_tokens %d, model limit %d",
			r.ID, r.NumPrompt(), r.NumOutput(), r.MaxTokens, s.cfg.MaxModelLen))
	}
	if r.Computed > r.NumTokens()+r.InFlight || r.Status != request.Running && r.Computed != 0 {
		errs = append(errs, fmt.Errorf("request %q is %v with %d of %d+%d tokens computed",
			r.ID, r.Status, r.Computed, r.NumTokens(), r.InFlight))
	}
	if r.Status != request.Running && len(r.Blocks) > 0 {
		errs = append(errs, fmt.Errorf("request %q is %v with %d blocks", r.ID, r.Status, len(r.Blocks)))
	}
	if s.cache.Caching() && len(r.Nodes) != r.NumTokens()/s.cfg.BlockSize {
		errs = append(errs, fmt.Errorf("request %q has %d hashed blocks of %d tokens", r.ID, len(r.Nodes), r.NumTokens()))
	}
	return errors.Join(errs...)
}

// check panics with everything that Check finds.
func (s *Scheduler) check() {
	if err := s.Check(); err != nil {
		invariants.Fail("%v", err)
	}
}
