package kvcache

import (
	"slices"

	"govllm/enginecore/internal/invariants"
	"govllm/enginecore/request"
)

// Cache gives requests their blocks. Its verbs, in the order of a request's
// life, with the token range they speak of:
//
//	┌──────── Computed ────────┬── n, this step's ──┬─ later steps' ─┐
//	│ found (whole blocks)     │ new blocks         │                │
//	└──────────────────────────┴────────────────────┴────────────────┘
//
//	Add      hashes become nodes
//	Enqueue  the queue's token counts take the request up; Dequeue undoes it
//	Lookup   how many leading blocks are there already
//	Admit    share those, take blocks for n more tokens
//	Grow     take blocks for n more tokens
//	Advance  n tokens count as computed; blocks that they fill become findable
//	Extend   a generated token may have completed a block: hash it
//	Free     give all blocks back, last block first
//	Remove   forget the nodes
//
// A request that finds no free block gets false, which is not an error: the
// scheduler preempts somebody or waits.
type Cache struct {
	blockSize int
	pool      *Pool
	index     *Index
	hasher    *Hasher    // nil: prefix caching is off
	residency *Residency // nil: blocks are not followed

	numQueuedTokens   int // of enqueued requests
	numTailTokens     int // of those, outside the blocks that could be found
	numResidentTokens int // computed, in used blocks; a shared block counts once
}

// New returns a cache of numBlocks blocks, the null block included, of
// blockSize tokens. A nil hasher turns prefix caching off.
func New(numBlocks, blockSize int, hasher *Hasher) *Cache {
	return &Cache{blockSize: blockSize, pool: NewPool(numBlocks), index: NewIndex(numBlocks), hasher: hasher}
}

// BlockSize is the number of tokens of a block.
func (c *Cache) BlockSize() int { return c.blockSize }

// Caching reports whether prefix caching is on.
func (c *Cache) Caching() bool { return c.hasher != nil }

// Hasher returns a hasher for another goroutine, to hash prompts before they
// are added; nil without prefix caching.
func (c *Cache) Hasher() *Hasher {
	if !c.Caching() {
		return nil
	}
	return c.hasher.Clone()
}

// Pool gives the block counts.
func (c *Cache) Pool() *Pool { return c.pool }

// NumQueuedTokens is Σ n over enqueued requests, n = prompt and output so far.
func (c *Cache) NumQueuedTokens() int { return c.numQueuedTokens }

// NumUncachedTokens is what the device will really have to compute for the
// enqueued requests: every distinct block that is neither cached nor about to
// be computed by a running request once, and every request's tail.
func (c *Cache) NumUncachedTokens() int {
	return c.blockSize*c.index.numWanted + c.numTailTokens
}

// NumResidentTokens is how many computed tokens the used blocks hold.
func (c *Cache) NumResidentTokens() int { return c.numResidentTokens }

// NumBlocksFor is how many blocks n tokens take.
func (c *Cache) NumBlocksFor(n int) int { return (n + c.blockSize - 1) / c.blockSize }

// Add takes the request's prompt hashes into the index.
func (c *Cache) Add(r *request.Request) {
	if !c.Caching() {
		return
	}
	if r.Hashes == nil {
		c.hasher.HashPrompt(r)
	}
	r.Nodes = make([]int32, len(r.Hashes))
	for i, h := range r.Hashes {
		r.Nodes[i] = c.index.intern(h)
	}
	r.Hashes = nil // the nodes have them
}

// Remove forgets a request that is neither enqueued nor holds blocks.
func (c *Cache) Remove(r *request.Request) {
	for _, id := range r.Nodes {
		c.index.drop(id)
	}
	r.Nodes = nil
}

// hittable is how many leading blocks the request may find: not the one with
// its last token, which is always computed, since its logits are what is asked.
func (c *Cache) hittable(r *request.Request) int {
	if !c.Caching() || !r.ReadsCache {
		return 0
	}
	return (r.NumTokens() - 1) / c.blockSize
}

// Enqueue counts the request among those that wait.
func (c *Cache) Enqueue(r *request.Request) { c.queue(r, +1) }

// Dequeue undoes Enqueue; the request has as many tokens as it had then.
func (c *Cache) Dequeue(r *request.Request) { c.queue(r, -1) }

func (c *Cache) queue(r *request.Request, sign int) {
	n := c.hittable(r)
	for _, id := range r.Nodes[:n] {
		c.index.addWaiting(id, int32(sign))
	}
	c.numQueuedTokens += sign * r.NumTokens()
	c.numTailTokens += sign * (r.NumTokens() - n*c.blockSize)
}

// Lookup returns how many of the request's leading blocks can be found.
func (c *Cache) Lookup(r *request.Request) int {
	nodes := r.Nodes[:c.hittable(r)]
	for i, id := range nodes {
		if c.index.at(id).first == 0 {
			return i
		}
	}
	return len(nodes)
}

// Admit gives the request its first blocks: the found ones that Lookup has
// counted, shared, and new ones for n tokens after them. It refuses, and
// changes nothing, unless all tokens that the request has now would fit: a
// prompt admitted by its first chunk alone would soon preempt others.
func (c *Cache) Admit(r *request.Request, found, n int) bool {
	left := c.pool.NumFree() - (c.NumBlocksFor(r.NumTokens()) - found)
	for i := 0; i < found && left >= 0; i++ {
		if c.pool.blocks[c.index.at(r.Nodes[i]).first].refs == 0 {
			left-- // leaves the free queue too
		}
	}
	if left < 0 {
		return false
	}
	c.reserveTables(r)
	for _, id := range r.Nodes[:found] {
		blockID := c.index.at(id).first
		if c.pool.touch(blockID) {
			c.numResidentTokens += c.blockSize
		}
		if c.residency != nil {
			c.residency.used(blockID)
		}
		r.Blocks = append(r.Blocks, blockID)
	}
	r.Computed, r.NumLinked = found*c.blockSize, found
	for _, id := range r.Nodes[found:] {
		c.index.addComing(id, +1)
	}
	c.takeBlocks(r, c.NumBlocksFor(r.Computed+n)-found)
	return true
}

// reserveTables makes room for the blocks that the request may come to hold,
// up to a bound, so that decoding allocates nothing.
func (c *Cache) reserveTables(r *request.Request) {
	room := c.NumBlocksFor(r.NumTokens() + min(r.MaxTokens-r.NumOutput(), 4096))
	r.Blocks = slices.Grow(r.Blocks, room-len(r.Blocks))
	if c.Caching() {
		r.Nodes = slices.Grow(r.Nodes, room-len(r.Nodes))
	}
}

// Grow gives a running request blocks for n tokens after its computed ones.
func (c *Cache) Grow(r *request.Request, n int) bool {
	need := c.NumBlocksFor(r.Computed+n) - len(r.Blocks)
	if need > c.pool.NumFree() {
		return false
	}
	c.takeBlocks(r, need)
	return true
}

func (c *Cache) takeBlocks(r *request.Request, n int) {
	for range n {
		id := c.pool.take()
		c.index.unlink(c.pool, id) // evicted: its content will be overwritten
		if c.residency != nil {
			c.residency.taken(id, c.Caching())
		}
		r.Blocks = append(r.Blocks, id)
	}
}

// Advance counts n more tokens as computed. It is called when a plan can no
// longer change, before the device has run: whoever finds the blocks meanwhile
// reads them in the same step or a later one, and within a layer all writes to
// the cache precede all reads.
func (c *Cache) Advance(r *request.Request, n int) {
	r.Computed += n
	c.numResidentTokens += n
	c.linkFull(r)
}

// linkFull makes the full computed blocks findable whose tokens are all known.
func (c *Cache) linkFull(r *request.Request) {
	n := min(r.Computed/c.blockSize, len(r.Nodes))
	for ; r.NumLinked < n; r.NumLinked++ {
		id := r.Nodes[r.NumLinked]
		c.index.link(c.pool, id, r.Blocks[r.NumLinked])
		c.index.addComing(id, -1)
	}
}

// Extend hashes the block that the request's newest token has completed, if it
// has.
func (c *Cache) Extend(r *request.Request) {
	n := r.NumTokens() / c.blockSize
	if !c.Caching() || n == len(r.Nodes) {
		return
	}
	id := c.index.intern(c.hasher.next(r, n-1))
	r.Nodes = append(r.Nodes, id)
	if r.Status == request.Running {
		c.index.addComing(id, +1)
		c.linkFull(r)
	}
}

// Free takes all blocks back, last block first, so that a shared prefix
// outlives what follows it. What is findable stays so until it is reused.
func (c *Cache) Free(r *request.Request) {
	for _, id := range r.Nodes[min(r.NumLinked, len(r.Nodes)):] {
		c.index.addComing(id, -1)
	}
	for i := len(r.Blocks) - 1; i >= 0; i-- {
		if c.pool.release(r.Blocks[i]) {
			c.numResidentTokens -= max(0, min(c.blockSize, r.Computed-i*c.blockSize))
		}
	}
	r.Blocks = r.Blocks[:0]
	r.Computed, r.NumLinked = 0, 0
	if invariants.Enabled && c.numResidentTokens < 0 {
		invariants.Fail("resident tokens %d after request %q", c.numResidentTokens, r.ID)
	}
}

// Reset makes every block unfindable. It refuses while any block is used.
func (c *Cache) Reset() bool {
	if c.pool.NumUsed() > 0 {
		return false
	}
	for i := range c.pool.blocks {
		c.index.unlink(c.pool, int32(i))
	}
	if c.residency != nil {
		c.residency.forget()
	}
	return true
}
