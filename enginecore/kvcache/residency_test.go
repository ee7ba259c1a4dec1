package kvcache

import (
	"testing"

	"govllm/enginecore/request"
	"govllm/protocol"

	"github.com/google/go-cmp/cmp"
)

// A block that holds a shared prefix is born at 1, used again at 2, 3, 5, 7
// and 11, and handed out for something else at 20: six uses with the first,
// of which the last four further ones are remembered. Its successor's life is
// its own.
func TestResidency(t *testing.T) {
	hasher, err := NewHasher(SHA256, 4, "seed")
	if err != nil {
		t.Fatal(err)
	}
	c := New(3, 4, hasher) // two usable blocks
	c.Sample(1)
	admit := func(first int32) {
		t.Helper()
		r := request.FromWire(&protocol.EngineCoreRequest{RequestID: "r", SamplingParams: new(protocol.SamplingParams),
			PromptTokenIDs: []int32{first, 2, 3, 4, 5}}, 100)
		c.Add(r)
		found := c.Lookup(r)
		if !c.Admit(r, found, 5-4*found) {
			t.Fatal("no block is free")
		}
		c.Advance(r, 5-4*found)
		c.Free(r)
		c.Remove(r)
	}
	for _, at := range []float64{1, 2, 3, 5, 7, 11} {
		c.Tick(at)
		admit(1)
	}
	c.TakeEvictions() // of the unshared last blocks
	c.Tick(20)
	admit(9)
	var shared []protocol.KVCacheEvictionEvent
	for _, e := range c.TakeEvictions() {
		if e.ReuseGaps != nil {
			shared = append(shared, e)
		}
	}
	want := []protocol.KVCacheEvictionEvent{{Lifetime: 19, Idle: 9, ReuseGaps: []float64{2, 2, 4}}}
	if diff := cmp.Diff(want, shared); diff != "" {
		t.Errorf("evictions of the shared block, -want +got:\n%s", diff)
	}
	if again := c.TakeEvictions(); again != nil {
		t.Errorf("evictions were told of twice: %v", again)
	}
	c.Tick(30)
	if !c.Reset() {
		t.Fatal("the cache is not empty")
	}
	admit(1)
	if after := c.TakeEvictions(); after != nil {
		t.Errorf("evictions after a reset: %v, want none: it forgets", after)
	}
}
