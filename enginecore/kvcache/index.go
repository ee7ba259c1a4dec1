package kvcache

import (
	"govllm/enginecore/internal/invariants"
	"govllm/enginecore/request"
)

// node is one distinct prefix: a hash, and everybody who has to do with it.
//
// refs = requests that list the node + blocks that hold it; at 0 it is gone.
type node struct {
	hash        request.Hash
	refs        int32
	waiting     int32 // queued requests that could use a block of it
	coming      int32 // running requests that will compute it
	first, last int32 // blocks that hold it, oldest first; 0: none
}

// wanted reports whether the device will have to compute the node for the
// queue's sake: somebody waits for it, no block holds it, nobody computes it.
func (n *node) wanted() bool { return n.waiting > 0 && n.coming == 0 && n.first == 0 }

const (
	chunkBits = 12
	chunkSize = 1 << chunkBits
)

// Index maps hashes to nodes and counts the wanted ones as it goes.
//
// Nodes have small numbers from 1, so that a request stores four bytes a block
// and a prefix lookup walks numbers instead of hashing. They live in chunks
// that never move: growing costs no copy of what is there.
type Index struct {
	table     table
	chunks    [][]node
	free      []int32
	numNodes  int32 // ever made
	numWanted int
}

// NewIndex returns an empty index for the prefixes that numBlocks blocks may
// hold, and as many others as there will be.
func NewIndex(numBlocks int) *Index {
	x := &Index{}
	x.table.init(numBlocks)
	return x
}

// Len is the number of distinct prefixes somebody lists or holds.
func (x *Index) Len() int { return x.table.n }

func (x *Index) at(id int32) *node {
	i := id - 1
	return &x.chunks[i>>chunkBits][i&(chunkSize-1)]
}

// intern returns the node of hash, made if need be, with one reference more.
func (x *Index) intern(hash request.Hash) int32 {
	if id := x.table.find(x, &hash); id != 0 {
		x.at(id).refs++
		return id
	}
	id := x.fresh()
	*x.at(id) = node{hash: hash, refs: 1}
	x.table.insert(&hash, id)
	return id
}

func (x *Index) fresh() int32 {
	if n := len(x.free); n > 0 {
		id := x.free[n-1]
		x.free = x.free[:n-1]
		return id
	}
	if int(x.numNodes)>>chunkBits == len(x.chunks) {
		x.chunks = append(x.chunks, make([]node, chunkSize))
	}
	x.numNodes++
	return x.numNodes
}

// drop gives up one reference.
func (x *Index) drop(id int32) {
	n := x.at(id)
	n.refs--
	if n.refs > 0 {
		return
	}
	if n.refs < 0 || n.waiting != 0 || n.coming != 0 || n.first != 0 {
		invariants.Fail("prefix node %d dropped with refs %d, waiting %d, coming %d, block %d",
			id, n.refs, n.waiting, n.coming, n.first)
	}
	x.table.remove(&n.hash, id)
	x.free = append(x.free, id)
}

func (x *Index) addWaiting(id, d int32) {
	n := x.at(id)
	before := n.wanted()
	n.waiting += d
	x.recount(before, n.wanted())
}

func (x *Index) addComing(id, d int32) {
	n := x.at(id)
	before := n.wanted()
	n.coming += d
	x.recount(before, n.wanted())
}

func (x *Index) recount(before, after bool) {
	if before == after {
		return
	}
	if after {
		x.numWanted++
	} else {
		x.numWanted--
	}
}

// link makes the block findable under the node, after its elder twins.
func (x *Index) link(p *Pool, id, blockID int32) {
	n, b := x.at(id), &p.blocks[blockID]
	if b.node != 0 {
		invariants.Fail("block %d linked to node %d while it holds node %d", blockID, id, b.node)
	}
	before := n.wanted()
	n.refs++
	b.node, b.prevTwin, b.nextTwin = id, n.last, 0
	if n.last == 0 {
		n.first = blockID
	} else {
		p.blocks[n.last].nextTwin = blockID
	}
	n.last = blockID
	x.recount(before, n.wanted())
}

// unlink makes the block unfindable, because it is about to be overwritten or
// the cache is reset. Without a node it does nothing.
func (x *Index) unlink(p *Pool, blockID int32) {
	b := &p.blocks[blockID]
	id := b.node
	if id == 0 {
		return
	}
	n := x.at(id)
	before := n.wanted()
	if b.prevTwin == 0 {
		n.first = b.nextTwin
	} else {
		p.blocks[b.prevTwin].nextTwin = b.nextTwin
	}
	if b.nextTwin == 0 {
		n.last = b.prevTwin
	} else {
		p.blocks[b.nextTwin].prevTwin = b.prevTwin
	}
	b.node, b.prevTwin, b.nextTwin = 0, 0, 0
	x.recount(before, n.wanted())
	x.drop(id)
}
