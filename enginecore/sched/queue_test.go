package sched

import (
	"math/rand/v2"
	"slices"
	"testing"

	"govllm/enginecore/request"
)

// TestQueues compares both queues with a plain slice, under random pushes and
// removals anywhere.
func TestQueues(t *testing.T) {
	for _, policy := range Policies {
		rng := rand.New(rand.NewPCG(1, 1))
		q := newQueue(policy)
		var model []*request.Request
		for i := range 20_000 {
			switch n := rng.IntN(10); {
			case n < 4:
				r := &request.Request{Priority: rng.IntN(5), Arrival: float64(rng.IntN(5)), Order: uint64(i)}
				q.Push(r)
				model = append(model, r)
			case n < 5:
				r := &request.Request{Priority: rng.IntN(5), Arrival: float64(rng.IntN(5)), Order: uint64(i)}
				q.PushFront(r)
				model = slices.Insert(model, 0, r)
			case len(model) > 0:
				at := 0
				if rng.IntN(2) == 0 {
					at = rng.IntN(len(model))
				}
				q.Remove(model[at])
				model = slices.Delete(model, at, at+1)
			}
			if policy == Priority {
				slices.SortFunc(model, func(a, b *request.Request) int {
					if a.Before(b) {
						return -1
					}
					return 1
				})
			}
			var want *request.Request
			if len(model) > 0 {
				want = model[0]
			}
			if got := q.Peek(); got != want || q.Len() != len(model) {
				t.Fatalf("%s, operation %d: Peek() = %+v of %d, want %+v of %d", policy, i, got, q.Len(), want, len(model))
			}
		}
	}
}
