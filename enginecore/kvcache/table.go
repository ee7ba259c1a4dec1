package kvcache

import (
	"encoding/binary"

	"govllm/enginecore/request"
)

// numShards splits the table, so that growing moves one part of it at a time: a
// step must not wait for millions of entries.
const (
	shardBits = 10
	numShards = 1 << shardBits
)

// table finds nodes by hash: open addressing with linear probing, 8 bytes a slot
// at a load of 3/8 to 3/4. A map of 32-byte keys would take four times that, and
// miss the processor's cache more often.
//
// Hashes are uniform already, so their bits are used as they are: the upper ones
// of the first word choose the shard, the lower 32 are the tag. A tag tells nearly
// all strangers apart without a look at their node, and says where an entry
// belongs when its shard grows.
type table struct {
	shards [numShards]shard
	n      int
}

type shard struct {
	slots []slot // a power of two
	n     int
}

type slot struct {
	id  int32 // 0: empty
	tag uint32
}

// init makes room for about n entries, so that a pool's own blocks make no shard
// grow; what grows it is the prompts of a long queue.
func (t *table) init(n int) {
	size := 8
	for size*numShards < 2*n {
		size *= 2
	}
	all := make([]slot, size*numShards)
	for i := range t.shards {
		t.shards[i].slots = all[i*size : (i+1)*size : (i+1)*size]
	}
}

func (t *table) shardOf(hash *request.Hash) (*shard, uint32) {
	word := binary.LittleEndian.Uint64(hash[:8])
	return &t.shards[word>>(64-shardBits)], uint32(word)
}

// find returns the node with this hash, or 0; nodes tells tags that are equal
// apart.
func (t *table) find(nodes *Index, hash *request.Hash) int32 {
	s, tag := t.shardOf(hash)
	mask := uint32(len(s.slots) - 1)
	for i := tag & mask; s.slots[i].id != 0; i = (i + 1) & mask {
		if s.slots[i].tag == tag && nodes.at(s.slots[i].id).hash == *hash {
			return s.slots[i].id
		}
	}
	return 0
}

// insert adds a node whose hash is not in the table.
func (t *table) insert(hash *request.Hash, id int32) {
	s, tag := t.shardOf(hash)
	if 4*(s.n+1) > 3*len(s.slots) { // one is always empty: a search ends
		s.grow()
	}
	s.put(slot{id, tag})
	s.n++
	t.n++
}

func (s *shard) put(e slot) {
	mask := uint32(len(s.slots) - 1)
	i := e.tag & mask
	for s.slots[i].id != 0 {
		i = (i + 1) & mask
	}
	s.slots[i] = e
}

func (s *shard) grow() {
	old := s.slots
	s.slots = make([]slot, 2*len(old))
	for _, e := range old {
		if e.id != 0 {
			s.put(e)
		}
	}
}

// remove takes a node out that is in the table. Entries behind it that its slot
// had pushed on move back, so that no search ends early.
func (t *table) remove(hash *request.Hash, id int32) {
	s, tag := t.shardOf(hash)
	mask := uint32(len(s.slots) - 1)
	i := tag & mask
	for s.slots[i].id != id {
		i = (i + 1) & mask
	}
	for j := (i + 1) & mask; s.slots[j].id != 0; j = (j + 1) & mask {
		home := s.slots[j].tag & mask
		if (j-home)&mask >= (j-i)&mask { // it may stand at i
			s.slots[i] = s.slots[j]
			i = j
		}
	}
	s.slots[i] = slot{}
	s.n--
	t.n--
}
