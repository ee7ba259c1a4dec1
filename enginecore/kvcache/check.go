package kvcache

import (
	"errors"
	"fmt"

	"govllm/enginecore/request"
)

// Check recounts everything from the requests that exist and reports what does
// not add up. It walks the whole pool: for tests, and for builds with the tag
// "invariants".
//
//	running  hold blocks
//	queued   enqueued, holding none
func (c *Cache) Check(running, queued []*request.Request) error {
	return errors.Join(
		c.checkBlocks(running),
		c.checkFreeQueue(),
		c.checkIndex(running, queued),
		c.checkAncestors(running, queued),
		c.checkTokens(running, queued),
	)
}

// checkBlocks: references are those of the block tables, and a block in two
// tables is one that both found or share by its hash.
func (c *Cache) checkBlocks(running []*request.Request) error {
	refs := make([]int32, len(c.pool.blocks))
	var errs []error
	for _, r := range running {
		if have := len(r.Blocks) * c.blockSize; have < r.Computed {
			errs = append(errs, fmt.Errorf("request %q: %d computed tokens in %d slots", r.ID, r.Computed, have))
		}
		for i, id := range r.Blocks {
			refs[id]++
			if refs[id] > 1 && (i >= len(r.Nodes) || c.pool.blocks[id].node != r.Nodes[i]) {
				errs = append(errs, fmt.Errorf("block %d is in two tables, request %q has no share in it", id, r.ID))
			}
		}
	}
	for id := 1; id < len(c.pool.blocks); id++ {
		if got, want := c.pool.blocks[id].refs, refs[id]; got != want {
			errs = append(errs, fmt.Errorf("block %d: refs %d, in %d tables", id, got, want))
		}
	}
	if refs[NullBlock] != 0 {
		errs = append(errs, errors.New("the null block is in a table"))
	}
	return errors.Join(errs...)
}

// checkFreeQueue: the ring holds exactly the blocks without references.
func (c *Cache) checkFreeQueue() error {
	onQueue := make([]bool, len(c.pool.blocks))
	num := 0
	for id := c.pool.blocks[NullBlock].next; id != NullBlock; id = c.pool.blocks[id].next {
		if onQueue[id] {
			return fmt.Errorf("block %d is twice on the free queue", id)
		}
		onQueue[id] = true
		num++
		if next := c.pool.blocks[id].next; c.pool.blocks[next].prev != id {
			return fmt.Errorf("free queue: block %d follows %d, but does not lead back", next, id)
		}
	}
	if num != c.pool.numFree {
		return fmt.Errorf("%d blocks on the free queue, %d counted", num, c.pool.numFree)
	}
	for id := 1; id < len(c.pool.blocks); id++ {
		if free := c.pool.blocks[id].refs == 0; free != onQueue[id] {
			return fmt.Errorf("block %d: free %v, on the free queue %v", id, free, !free)
		}
	}
	return nil
}

// checkIndex: every node's counts, and how many are wanted.
func (c *Cache) checkIndex(running, queued []*request.Request) error {
	type count struct{ refs, waiting, coming, blocks int32 }
	want := make([]count, c.index.numNodes+1)
	of := func(id int32) *count { return &want[id] }
	for _, r := range running {
		for i, id := range r.Nodes {
			of(id).refs++
			if i >= r.NumLinked {
				of(id).coming++
			}
		}
	}
	for _, r := range queued {
		for i, id := range r.Nodes {
			of(id).refs++
			if i < c.hittable(r) {
				of(id).waiting++
			}
		}
	}
	for i := range c.pool.blocks {
		if id := c.pool.blocks[i].node; id != 0 {
			of(id).refs++
			of(id).blocks++
		}
	}
	var errs []error
	numWanted, numNodes := 0, 0
	for i, w := range want {
		id := int32(i)
		if w.refs == 0 {
			continue
		}
		numNodes++
		n := c.index.at(id)
		got := count{n.refs, n.waiting, n.coming, c.numTwins(n)}
		if got != w {
			errs = append(errs, fmt.Errorf("node %d: %+v, recounted %+v", id, got, w))
		}
		if c.index.table.find(c.index, &n.hash) != id {
			errs = append(errs, fmt.Errorf("node %d is not what its hash leads to", id))
		}
		if w.waiting > 0 && w.coming == 0 && w.blocks == 0 {
			numWanted++
		}
	}
	if numNodes != c.index.Len() {
		errs = append(errs, fmt.Errorf("%d nodes indexed, %d in use", c.index.Len(), numNodes))
	}
	if numWanted != c.index.numWanted {
		errs = append(errs, fmt.Errorf("%d nodes counted as wanted, recounted %d", c.index.numWanted, numWanted))
	}
	return errors.Join(errs...)
}

func (c *Cache) numTwins(n *node) (num int32) {
	for id := n.first; id != 0; id = c.pool.blocks[id].nextTwin {
		num++
	}
	return num
}

// checkAncestors: what precedes a findable block is findable, because a prefix
// is freed after, and so evicted after, what follows it.
func (c *Cache) checkAncestors(running, queued []*request.Request) error {
	for _, rs := range [][]*request.Request{running, queued} {
		for _, r := range rs {
			gap := -1
			for i, id := range r.Nodes {
				switch found := c.index.at(id).first != 0; {
				case !found && gap < 0:
					gap = i
				case found && gap >= 0:
					return fmt.Errorf("request %q: block %d can be found, block %d before it cannot", r.ID, i, gap)
				}
			}
		}
	}
	return nil
}

// checkTokens: the token counts, from first principles.
func (c *Cache) checkTokens(running, queued []*request.Request) error {
	resident := 0
	seen := make([]bool, len(c.pool.blocks))
	for _, r := range running {
		for i, id := range r.Blocks {
			if !seen[id] {
				seen[id] = true
				resident += max(0, min(c.blockSize, r.Computed-i*c.blockSize))
			}
		}
	}
	waiting, tails := 0, 0
	for _, r := range queued {
		waiting += r.NumTokens()
		tails += r.NumTokens() - c.hittable(r)*c.blockSize
	}
	var errs []error
	equal := func(name string, got, want int) {
		if got != want {
			errs = append(errs, fmt.Errorf("%s tokens %d, recounted %d", name, got, want))
		}
	}
	equal("resident", c.numResidentTokens, resident)
	equal("waiting", c.numQueuedTokens, waiting)
	equal("tail", c.numTailTokens, tails)
	return errors.Join(errs...)
}
