package kvcache

import (
	"fmt"
	"strings"

	"govllm/enginecore/internal/invariants"
)

// NullBlock pads block tables and is never handed out. Its links are the two
// ends of the free queue, which makes the queue a ring without special cases.
const NullBlock = 0

// block is the bookkeeping of one block of blockSize tokens.
type block struct {
	refs       int32 // requests whose table holds the block
	next, prev int32 // free queue, while refs = 0

	node               int32 // of its hash in the Index; 0: not findable
	nextTwin, prevTwin int32 // other blocks of the same node; 0 ends the list
}

// Pool owns all blocks. The free queue runs from least to most recently used:
// the head is handed out next.
type Pool struct {
	blocks  []block
	numFree int
}

// NewPool returns a pool of numBlocks blocks, the null block included, with
// IDs handed out in ascending order at first.
func NewPool(numBlocks int) *Pool {
	p := &Pool{blocks: make([]block, numBlocks), numFree: numBlocks - 1}
	for i := range p.blocks {
		p.blocks[i].next = int32((i + 1) % numBlocks)
		p.blocks[i].prev = int32((i + numBlocks - 1) % numBlocks)
	}
	p.blocks[NullBlock].refs = 1
	return p
}

// NumUsable is how many blocks can be handed out in all.
func (p *Pool) NumUsable() int { return len(p.blocks) - 1 }

// NumFree is how many blocks can be handed out now.
func (p *Pool) NumFree() int { return p.numFree }

// NumUsed is how many blocks some request holds.
func (p *Pool) NumUsed() int { return p.NumUsable() - p.numFree }

// Usage is the used share of the usable blocks, 0 to 1.
func (p *Pool) Usage() float64 {
	if p.NumUsable() == 0 {
		return 0
	}
	return float64(p.NumUsed()) / float64(p.NumUsable())
}

// take removes the least recently used block from the free queue and gives it
// one reference. The caller has checked NumFree and drops the block's hash.
func (p *Pool) take() int32 {
	id := p.blocks[NullBlock].next
	if id == NullBlock {
		invariants.Fail("take from an empty free queue, %d blocks counted free", p.numFree)
	}
	p.unlink(id)
	p.blocks[id].refs = 1
	return id
}

// touch adds a reference; a free block leaves the queue and reports true.
func (p *Pool) touch(id int32) (wasFree bool) {
	b := &p.blocks[id]
	if b.refs == 0 {
		p.unlink(id)
		wasFree = true
	}
	b.refs++
	return wasFree
}

// release drops a reference and reports whether it was the last. The block then
// goes to the tail of the free queue, or to its head if nobody can find it.
func (p *Pool) release(id int32) (nowFree bool) {
	b := &p.blocks[id]
	if id == NullBlock || b.refs <= 0 {
		invariants.Fail("release of block %d with %d references", id, b.refs)
	}
	b.refs--
	if b.refs > 0 {
		return false
	}
	if b.node == 0 {
		p.insertAfter(NullBlock, id)
	} else {
		p.insertAfter(p.blocks[NullBlock].prev, id)
	}
	return true
}

func (p *Pool) unlink(id int32) {
	b := &p.blocks[id]
	p.blocks[b.prev].next = b.next
	p.blocks[b.next].prev = b.prev
	b.next, b.prev = NullBlock, NullBlock
	p.numFree--
}

func (p *Pool) insertAfter(at, id int32) {
	after := p.blocks[at].next
	p.blocks[id].prev, p.blocks[id].next = at, after
	p.blocks[at].next = id
	p.blocks[after].prev = id
	p.numFree++
}

// Describe words the free queue, next to be handed out first; a star marks
// blocks that a prefix lookup can still find.
func (p *Pool) Describe() string {
	var b strings.Builder
	b.WriteString("free blocks")
	for id := p.blocks[NullBlock].next; id != NullBlock; id = p.blocks[id].next {
		fmt.Fprintf(&b, " %d", id)
		if p.blocks[id].node != 0 {
			b.WriteString("*")
		}
	}
	b.WriteString("\n")
	return b.String()
}
