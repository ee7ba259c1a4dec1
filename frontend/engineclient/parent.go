package engineclient

import (
	"sync"

	"govllm/stats"
)

// Parent joins the sequences of one client request with n > 1 in the
// statistics. It is recorded once all n were submitted and have ended.
type Parent struct {
	mu      sync.Mutex
	n       int
	left    int // sequences that have not ended
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
	p.longest = max(p.longest, numTokens)
	if p.left--; p.left == 0 {
		it.Parents = append(it.Parents, stats.FinishedParent{N: p.n, MaxNumGenerationTokens: p.longest})
	}
}
