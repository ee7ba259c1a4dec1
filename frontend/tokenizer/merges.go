package tokenizer

import (
	"math"
	"slices"
)

const noToken = -1

// linearMergeLimit is the number of symbols up to which finding the best pair
// by looking at all of them beats keeping a heap.
const linearMergeLimit = 48

// merge makes two adjacent tokens one; those with lower ranks come first, and of
// those with equal ranks the leftmost.
type merge struct {
	left, right, merged int32
	rank                uint32
}

// mergeTable maps a pair of tokens to the rank of its merge and the merged
// token. Open addressing with linear probing; a slot is 16 bytes, so that one
// lookup is mostly one cache line.
type mergeTable struct {
	slots []mergeSlot // a power of two long
	shift uint        // 64 less its logarithm
}

type mergeSlot struct {
	pair   uint64 // left<<32 | right
	result uint64 // rank<<32 | merged token; noMerge in an empty slot
}

const noMerge = math.MaxUint64

// newMergeTable returns a table with room for n merges.
func newMergeTable(n int) mergeTable {
	bits := uint(4)
	for 1<<bits < n+n/2 {
		bits++
	}
	t := mergeTable{slots: make([]mergeSlot, 1<<bits), shift: 64 - bits}
	for i := range t.slots {
		t.slots[i].result = noMerge
	}
	return t
}

func (t *mergeTable) slot(pair uint64) *mergeSlot {
	// Fibonacci hashing: the high bits of the product depend on all of pair.
	for i := pair * 0x9E3779B97F4A7C15 >> t.shift; ; i = (i + 1) & uint64(len(t.slots)-1) {
		if s := &t.slots[i]; s.pair == pair || s.result == noMerge {
			return s
		}
	}
}

func pairOf(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

// put enters a merge; of two for one pair the later holds, as in the reference.
func (t *mergeTable) put(m merge) {
	pair := pairOf(m.left, m.right)
	*t.slot(pair) = mergeSlot{pair, uint64(m.rank)<<32 | uint64(uint32(m.merged))}
}

// get returns rank<<32 | merged token, or noMerge.
func (t *mergeTable) get(left, right int32) uint64 {
	return t.slot(pairOf(left, right)).result
}

// apply merges symbols in place and returns what is left of them.
func (t *mergeTable) apply(symbols []int32) []int32 {
	if len(symbols) > linearMergeLimit {
		return t.applyHeap(symbols)
	}
	return t.applyLinear(symbols)
}

// applyLinear looks at every pair for every merge: n² in the number of
// symbols, which is at most linearMergeLimit.
func (t *mergeTable) applyLinear(symbols []int32) []int32 {
	if len(symbols) < 2 {
		return symbols
	}
	var buffer [linearMergeLimit - 1]uint64
	results := buffer[:len(symbols)-1] // results[i] is the merge of symbols i and i+1
	for i := range results {
		results[i] = t.get(symbols[i], symbols[i+1])
	}
	for {
		best, at := uint64(noMerge), 0
		for i, result := range results {
			if result < best {
				best, at = result, i
			}
		}
		if best == noMerge {
			return symbols
		}
		symbols[at] = int32(uint32(best))
		symbols = symbols[:at+1+copy(symbols[at+1:], symbols[at+2:])]
		results = results[:at+copy(results[at:], results[at+1:])]
		if at > 0 {
			results[at-1] = t.get(symbols[at-1], symbols[at])
		}
		if at < len(results) {
			results[at] = t.get(symbols[at], symbols[at+1])
		}
	}
}

// applyHeap keeps the symbols in a linked list and the possible merges in a
// heap: n log n, so that a word of a megabyte does not stop the server.
func (t *mergeTable) applyHeap(symbols []int32) []int32 {
	n := int32(len(symbols))
	links := make([]link, n)
	for i := range links {
		links[i] = link{int32(i) - 1, int32(i) + 1}
	}
	// A candidate is rank<<32 | position of the left symbol: the least is the
	// next to merge, the leftmost first.
	heap := make(minHeap, 0, n)
	candidate := func(left int32) (uint64, bool) {
		result := t.get(symbols[left], symbols[links[left].next])
		return result>>32<<32 | uint64(left), result != noMerge
	}
	for left := range n - 1 {
		if c, ok := candidate(left); ok {
			heap = append(heap, c)
		}
	}
	heap.init()
	for len(heap) > 0 {
		top := heap.pop()
		left := int32(uint32(top))
		right := links[left].next
		if right == n || symbols[left] == noToken {
			continue // left became the last symbol, or part of its neighbour
		}
		result := t.get(symbols[left], symbols[right])
		if result == noMerge || result>>32 != top>>32 {
			continue // another merge changed the pair; with the same rank its turn is now, too
		}
		symbols[left], symbols[right] = int32(uint32(result)), noToken
		next := links[right].next
		links[left].next = next
		if next < n {
			links[next].previous = left
			if c, ok := candidate(left); ok {
				heap.push(c)
			}
		}
		if previous := links[left].previous; previous >= 0 {
			if c, ok := candidate(previous); ok {
				heap.push(c)
			}
		}
	}
	return slices.DeleteFunc(symbols, func(id int32) bool { return id == noToken })
}

// link joins a symbol to its neighbours; -1 and n are the ends.
type link struct{ previous, next int32 }

// minHeap is a binary heap of candidates, least first.
type minHeap []uint64

func (h minHeap) init() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *minHeap) push(x uint64) {
	*h = append(*h, x)
	s := *h
	i := len(s) - 1
	for i > 0 && s[(i-1)/2] > x {
		s[i] = s[(i-1)/2]
		i = (i - 1) / 2
	}
	s[i] = x
}

func (h *minHeap) pop() uint64 {
	s := *h
	top := s[0]
	s[0] = s[len(s)-1]
	*h = s[:len(s)-1]
	if len(*h) > 0 {
		h.down(0)
	}
	return top
}

func (h minHeap) down(i int) {
	x := h[i]
	for {
		child := 2*i + 1
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if child >= len(h) || h[child] >= x {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = x
}
