package engineclient

import (
	"sync"

	"govllm/stats"
)

// Parent joins the sequences of one client request with n > 1 in the
// statistics. Each of the n must be submitted, even if an earlier Submit
// failed.
type Parent struct {
	mu      sync.Mutex
	n       int
	left    int // sequences that have not ended
	ended   bool
	longest int // tokens
}

// NewParent is the parent of n sequences.
func NewParent(n int) *Parent { return &Parent{n: n, left: n} }

// childEnded counts one sequence out and, with the last, the parent in. A nil
// parent is that of a single sequence.
func (p *Parent) childEnded(it *stats.Iteration, numTokens int) {
	if p == nil {
		it.Parents = append(it.Parents, stats.FinishedParent{N: 1, MaxNumGenerationTokens: numTokens})
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.longest = max(p.longest, numTokens)
	p.left--
	p.recordIfLast(it)
}

// childFailed counts out a sequence that was never sent.
func (p *Parent) childFailed(c *Client) {
	if p == nil {
		return
	}
	var it stats.Iteration
	p.mu.Lock()
	p.left--
	p.recordIfLast(&it)
	p.mu.Unlock()
	if len(it.Parents) > 0 {
		c.recordFor(0, &it)
	}
}

func (p *Parent) recordIfLast(it *stats.Iteration) {
	if p.left == 0 && p.ended {
		it.Parents = append(it.Parents, stats.FinishedParent{N: p.n, MaxNumGenerationTokens: p.longest})
	}
}
