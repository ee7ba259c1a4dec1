package sched

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"govllm/enginecore/request"
)

// Describe words the whole state, requests in the order in which they will be
// served. It walks everything: for tests and for people.
func (s *Scheduler) Describe() string {
	var b strings.Builder
	for _, r := range s.running {
		if r.Status == request.Running {
			fmt.Fprintf(&b, "running %s: %d of %d tokens computed, blocks %v\n", r.ID, r.Computed, r.NumTokens(), r.Blocks)
		}
	}
	for _, r := range s.queued() {
		fmt.Fprintf(&b, "%v %s: %d tokens\n", r.Status, r.ID, r.NumTokens())
	}
	b.WriteString(s.cache.Pool().Describe())
	return b.String()
}

// queued returns everything that waits: queued requests in order of service,
// then deferred ones in order of addition.
func (s *Scheduler) queued() []*request.Request {
	var first, deferred []*request.Request
	for _, r := range s.live {
		if r.Status == request.Deferred {
			deferred = append(deferred, r)
		}
	}
	slices.SortFunc(deferred, func(a, b *request.Request) int { return cmp.Compare(a.Order, b.Order) })
	switch q := s.waiting.(type) {
	case *list:
		first = q.all()
		n := 0 // preempted ones are at the head
		for n < len(first) && first[n].Status == request.Preempted {
			n++
		}
		first = slices.Insert(first, n, s.released.all()...)
	case *heap:
		first = slices.Clone(q.items)
		slices.SortFunc(first, func(a, b *request.Request) int {
			if a.Before(b) {
				return -1
			}
			return 1
		})
	}
	return append(first, deferred...)
}

func (l *list) all() []*request.Request {
	var all []*request.Request
	for r := l.ends.Next; r != &l.ends; r = r.Next {
		all = append(all, r)
	}
	return all
}
