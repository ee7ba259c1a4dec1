package kvcache

import (
	"math/rand/v2"

	"govllm/protocol"
)

// Residency follows a sampled share of blocks from their being handed out to
// their being handed out again, when what they held is lost (--kv-cache-metrics).
// A block that is never reused is never told of.
//
// Source: vllm/v1/core/kv_cache_metrics.py.
type Residency struct {
	rate   float64
	rng    *rand.Rand
	now    float64 // seconds, of the current step
	lives  []life  // by block ID
	events []protocol.KVCacheEvictionEvent
}

// life is one block's, in seconds of the core's clock.
type life struct {
	sampled bool
	birth   float64
	lastUse float64 // by a further request; its birth until then
	uses    [4]float64
	numUses int // remembered
}

// Sample turns the following of blocks on, of a share of them, above 0 and up
// to 1.
func (c *Cache) Sample(rate float64) {
	c.residency = &Residency{rate: rate, rng: rand.New(rand.NewPCG(1, 0)), lives: make([]life, len(c.pool.blocks))}
}

// Tick says what time it is, once per step.
func (c *Cache) Tick(now float64) {
	if c.residency != nil {
		c.residency.now = now
	}
}

// TakeEvictions returns what was told since it was last taken; nil if blocks
// are not followed. The caller owns it.
func (c *Cache) TakeEvictions() []protocol.KVCacheEvictionEvent {
	if c.residency == nil {
		return nil
	}
	events := c.residency.events
	c.residency.events = nil
	return events
}

// taken ends the block's life, if it was followed, and begins another. Without
// prefix caching a block that is free has nothing to lose.
func (r *Residency) taken(id int32, caching bool) {
	l := &r.lives[id]
	if l.sampled && caching {
		r.events = append(r.events, protocol.KVCacheEvictionEvent{
			Lifetime: r.now - l.birth, Idle: r.now - l.lastUse, ReuseGaps: l.gaps()})
	}
	*l = life{}
	if r.rng.Float64() < r.rate {
		*l = life{sampled: true, birth: r.now, lastUse: r.now}
	}
}

// used notes that a further request shares the block.
func (r *Residency) used(id int32) {
	l := &r.lives[id]
	if !l.sampled {
		return
	}
	if l.numUses == len(l.uses) {
		copy(l.uses[:], l.uses[1:])
		l.numUses--
	}
	l.uses[l.numUses] = r.now
	l.numUses++
	l.lastUse = r.now
}

func (l *life) gaps() (gaps []float64) {
	for i := 1; i < l.numUses; i++ {
		gaps = append(gaps, l.uses[i]-l.uses[i-1])
	}
	return gaps
}

// forget drops everything: the cache was reset.
func (r *Residency) forget() {
	clear(r.lives)
	r.events = nil
}
