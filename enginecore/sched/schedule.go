package sched

import (
	"fmt"

	"govllm/enginecore/internal/invariants"
	"govllm/enginecore/request"
	"govllm/enginecore/step"
	"govllm/protocol"
)

// Schedule decides the next step. The plan is empty, NumTokens 0, if there is
// nothing to compute; then it needs neither runner nor Update. Until Update has
// seen a plan, at most one more may be made.
func (s *Scheduler) Schedule(now float64) *Plan {
	s.compactRunning()
	s.cache.Tick(now)
	p := s.newPlan()
	if s.pause == PausedAll {
		return p
	}
	budget, preempted := s.scheduleRunning(p, s.cfg.MaxNumBatchedTokens, now)
	if preempted {
		s.dropUnscheduled(p)
	}
	s.commit(p)
	if !preempted && s.pause == Unpaused {
		s.scheduleWaiting(p, budget, now)
	}
	s.close(p)
	return p
}

// newPlan reuses the plan before last, which has been updated by now.
func (s *Scheduler) newPlan() *Plan {
	p := &s.plans[s.numPlans%2]
	clear(p.requests)
	p.requests = p.requests[:0]
	p.Number = s.numPlans + 1
	p.Freed, p.New, p.Scheduled = p.Freed[:0], p.New[:0], p.Scheduled[:0]
	p.NumTokens = 0
	return p
}

// scheduleRunning serves the running requests in order of admission. A request
// that needs a block when none is free takes it from the last in line, until
// it has one or is itself the last; then it gives way, and what it held is
// there for those behind it.
func (s *Scheduler) scheduleRunning(p *Plan, budget int, now float64) (left int, preempted bool) {
	for i := 0; i < len(s.running) && budget > 0; i++ {
		r := s.running[i]
		if r.Status != request.Running || s.mustEnd(r) {
			continue
		}
		n := s.share(r.NumTokens()+r.InFlight-r.Computed, budget)
		if n == 0 {
			continue
		}
		held := len(r.Blocks)
		for !s.cache.Grow(r, n) {
			victim := s.worstRunning()
			if victim == r && s.numRunning == 1 {
				if r.InFlight > 0 {
					return budget, preempted // its last token is still to come
				}
				s.fail(r, s.outgrown(r))
				break
			}
			preempted = true
			budget += s.unschedule(p, victim)
			s.preempt(victim, reasonOf(victim, r), now)
			if victim == r {
				break
			}
		}
		if r.Status != request.Running {
			continue
		}
		s.schedule(p, r, n, r.Blocks[held:len(r.Blocks):len(r.Blocks)])
		budget -= n
	}
	return budget, preempted
}

// mustEnd reports whether the result in flight will end the request whatever
// it is, so that another step for it would be waste.
func (s *Scheduler) mustEnd(r *request.Request) bool {
	return r.InFlight > 0 &&
		(r.NumOutput()+r.InFlight >= r.MaxTokens || r.NumTokens()+r.InFlight >= s.cfg.MaxModelLen)
}

// share is what one request gets of the budget.
func (s *Scheduler) share(want, budget int) int {
	if t := s.cfg.LongPrefillTokenThreshold; t > 0 {
		want = min(want, t)
	}
	return min(want, budget)
}

// worstRunning returns the next victim: the last admitted, or the last by
// (priority, arrival).
func (s *Scheduler) worstRunning() *request.Request {
	var worst *request.Request
	for i := len(s.running) - 1; i >= 0; i-- {
		r := s.running[i]
		if r.Status != request.Running {
			continue
		}
		if s.cfg.Policy == FCFS {
			return r
		}
		if worst == nil || worst.Before(r) {
			worst = r
		}
	}
	return worst
}

func reasonOf(victim, beneficiary *request.Request) PreemptionReason {
	if victim.Priority > beneficiary.Priority {
		return ByPriority
	}
	return KVFull
}

func (s *Scheduler) outgrown(r *request.Request) error {
	return fmt.Errorf("%w: it has %d tokens, all %d blocks of %d tokens are its own",
		ErrNeverFits, r.NumTokens(), s.cache.Pool().NumUsable(), s.cfg.BlockSize)
}

// schedule writes a request's share into the plan.
func (s *Scheduler) schedule(p *Plan, r *request.Request, n int, newBlocks []int32) {
	r.PlanIndex = len(p.Scheduled)
	p.requests = append(p.requests, r)
	p.Scheduled = append(p.Scheduled, step.Scheduled{
		Row:         step.Row(r.Row),
		Computed:    r.Computed,
		NumTokens:   n,
		NewBlockIDs: newBlocks,
		Samples:     r.Computed+n == r.NumTokens()+r.InFlight,
	})
	p.NumTokens += n
}

// unschedule takes a victim out of the plan, if this step has served it
// already, and returns its share of the budget.
func (s *Scheduler) unschedule(p *Plan, victim *request.Request) int {
	i := victim.PlanIndex
	if i >= len(p.requests) || p.requests[i] != victim {
		return 0
	}
	n := p.Scheduled[i].NumTokens
	p.requests[i] = nil
	p.NumTokens -= n
	return n
}

// dropUnscheduled closes the gaps that unschedule has left.
func (s *Scheduler) dropUnscheduled(p *Plan) {
	k := 0
	for i, r := range p.requests {
		if r == nil {
			continue
		}
		r.PlanIndex = k
		p.requests[k], p.Scheduled[k] = r, p.Scheduled[i]
		k++
	}
	p.requests, p.Scheduled = p.requests[:k], p.Scheduled[:k]
}

// commit counts the running requests' shares as computed. It waits until no
// preemption can undo one: until then nobody may find their blocks.
func (s *Scheduler) commit(p *Plan) {
	for i, r := range p.requests {
		s.advance(r, &p.Scheduled[i])
	}
}

// advance counts a share as computed; its blocks become findable, for waiting
// requests of this very step too.
func (s *Scheduler) advance(r *request.Request, sc *step.Scheduled) {
	s.count(r, sc)
	s.pendingTokens -= r.Backlog()
	s.cache.Advance(r, sc.NumTokens)
	s.pendingTokens += r.Backlog()
	if sc.Samples {
		r.InFlight++
	}
}

// count adds a share to the statistics.
func (s *Scheduler) count(r *request.Request, sc *step.Scheduled) {
	s.deltas.RecomputedTokens += max(0, min(sc.Computed+sc.NumTokens, r.RecomputeUntil)-sc.Computed)
	if sc.Samples && sc.NumTokens == 1 && sc.Computed >= r.NumPrompt() {
		s.deltas.DecodeTokens++
		s.deltas.DecodeReqs++
		return
	}
	s.deltas.PrefillTokens += sc.NumTokens
	s.deltas.PrefillReqs++
}

// scheduleWaiting admits requests from the head of the queue while budget, rows
// and blocks last. The head is never passed over, or it might wait for ever.
func (s *Scheduler) scheduleWaiting(p *Plan, budget int, now float64) {
	for budget > 0 && s.numRunning < s.cfg.MaxNumSeqs {
		q := s.nextQueue()
		r := q.Peek()
		if r == nil {
			return
		}
		if r.Status == request.Preempted && s.cache.NumBlocksFor(r.NumTokens()) > s.cache.Pool().NumUsable() {
			s.fail(r, s.outgrown(r)) // grew while it ran: now it never fits
			continue
		}
		found := s.cache.Lookup(r)
		want := r.NumTokens() - found*s.cfg.BlockSize
		n := s.share(want, budget)
		if s.cfg.NoChunkedPrefill && n < want {
			return
		}
		if !s.cache.Admit(r, found, n) {
			if s.numRunning == 0 {
				invariants.Fail("request %q of %d tokens finds no blocks although nothing runs", r.ID, r.NumTokens())
			}
			return
		}
		s.admit(p, r, q, n, now)
		budget -= n
	}
}

// nextQueue is where the next request to admit stands: preempted ones come
// first, then released ones, which are older than what else waits.
func (s *Scheduler) nextQueue() queue {
	if s.released.Len() == 0 {
		return s.waiting
	}
	if head := s.waiting.Peek(); head != nil && head.Status == request.Preempted {
		return s.waiting
	}
	return s.released
}

// admit moves a request that has got its blocks into the batch.
func (s *Scheduler) admit(p *Plan, r *request.Request, q queue, n int, now float64) {
	s.recordLookup(r)
	q.Remove(r)
	r.Released = false
	s.cache.Dequeue(r)
	r.Status = request.Running
	r.Row = int32(s.takeRow())
	s.running = append(s.running, r)
	s.numRunning++
	s.pendingTokens += r.Backlog()
	s.event(r, protocol.EventScheduled, now)
	p.New = append(p.New, step.NewRequest{
		Row:      step.Row(r.Row),
		ID:       r.ID,
		Params:   r.Params,
		Seed:     r.Seed,
		TokenIDs: r.Tokens(),
		Prompt:   r.NumPrompt(),
		BlockIDs: r.Blocks[:len(r.Blocks):len(r.Blocks)],
		Computed: r.Computed,
	})
	s.schedule(p, r, n, nil)
	s.advance(r, &p.Scheduled[r.PlanIndex])
}

// recordLookup counts an admission's prefix lookup. A request's cached tokens
// are those of its first admission; after a preemption it finds its own blocks,
// which says nothing about the cache.
func (s *Scheduler) recordLookup(r *request.Request) {
	if s.cache.Caching() && r.ReadsCache {
		st := &s.deltas.PrefixCache
		if r.Status == request.Preempted {
			st.PreemptedRequests++
			st.PreemptedQueries += r.NumTokens()
			st.PreemptedHits += r.Computed
		} else {
			st.Requests++
			st.Queries += r.NumTokens()
			st.Hits += r.Computed
		}
	}
	if r.Cached < 0 {
		r.Cached = r.Computed
	}
}

func (s *Scheduler) takeRow() step.Row {
	row := s.rows[len(s.rows)-1]
	s.rows = s.rows[:len(s.rows)-1]
	return row
}

// close hands the freed rows over with the plan. An empty plan never reaches
// the runner: the rows wait for the next.
func (s *Scheduler) close(p *Plan) {
	if p.NumTokens == 0 {
		return
	}
	p.Freed = append(p.Freed, s.freed...)
	s.freed = s.freed[:0]
	s.numPlans++
	s.changed = true
	if p.NumTokens > s.cfg.MaxNumBatchedTokens || s.numRunning > s.cfg.MaxNumSeqs {
		invariants.Fail("step %d schedules %d of %d tokens for %d of %d requests",
			p.Number, p.NumTokens, s.cfg.MaxNumBatchedTokens, s.numRunning, s.cfg.MaxNumSeqs)
	}
	if invariants.Enabled {
		s.check()
	}
}

// compactRunning drops the requests that are no longer running.
func (s *Scheduler) compactRunning() {
	if len(s.running) == s.numRunning {
		return
	}
	kept := s.running[:0]
	for _, r := range s.running {
		if r.Status == request.Running {
			kept = append(kept, r)
		}
	}
	clear(s.running[len(kept):])
	s.running = kept
}
