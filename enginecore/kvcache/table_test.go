package kvcache

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"govllm/enginecore/request"
)

// TestTable compares the index with a map under random interning and dropping.
// Hashes come from few values, so that shards fill, tags collide and wrap.
func TestTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	x := NewIndex(1)
	model := map[request.Hash]int32{} // → references
	var hashes []request.Hash
	for range 3000 {
		var h request.Hash
		tag := uint64(rng.IntN(500)) | 0xfffffe00*uint64(rng.IntN(2)) // some at the end of their shard
		binary.LittleEndian.PutUint64(h[:], tag|uint64(rng.IntN(3))<<(64-shardBits))
		h[31] = byte(rng.IntN(4)) // equal tags of different hashes
		hashes = append(hashes, h)
	}
	for i := range 200_000 {
		h := hashes[rng.IntN(len(hashes))]
		if rng.IntN(2) == 0 || model[h] == 0 {
			id := x.intern(h)
			model[h]++
			if got := x.at(id); got.hash != h || got.refs != model[h] {
				t.Fatalf("operation %d: intern(%x) = %x with %d references, want %d", i, h, got.hash, got.refs, model[h])
			}
		} else {
			x.drop(x.table.find(x, &h))
			if model[h]--; model[h] == 0 {
				delete(model, h)
			}
		}
		if x.Len() != len(model) {
			t.Fatalf("operation %d: Len() = %d, want %d", i, x.Len(), len(model))
		}
	}
	for _, h := range hashes {
		if found := x.table.find(x, &h) != 0; found != (model[h] > 0) {
			t.Errorf("find(%x) = %v, want %v", h, found, model[h] > 0)
		}
	}
}
