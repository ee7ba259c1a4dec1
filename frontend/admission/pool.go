package admission

import (
	"math"
	"time"
)

// memory is over how much busy time the rate of leaving is averaged.
const memory = 30 * time.Second

// pool counts units of one kind and how fast they leave. The rate counts only
// while at least half of max is held: an idle server's says nothing about a
// full one.
//
// Two sums decay alike: units that left, and the time in which they did. Their
// quotient is the rate.
type pool struct {
	max, held int

	left    float64 // units, decayed
	busy    float64 // seconds, decayed
	updated time.Time
}

func (p *pool) take(n int, now time.Time) {
	p.advance(now)
	p.held += n
}

func (p *pool) free(n int, now time.Time) {
	if n == 0 {
		return
	}
	p.advance(now)
	if p.loaded() {
		p.left += float64(n)
	}
	p.held -= n
}

func (p *pool) loaded() bool { return p.max > 0 && 2*p.held >= p.max }

// advance lets the time since the last change count, if it was busy.
func (p *pool) advance(now time.Time) {
	if d := now.Sub(p.updated).Seconds(); p.loaded() && d > 0 {
		keep := math.Exp(-d / memory.Seconds())
		p.left *= keep
		p.busy = p.busy*keep + d
	}
	p.updated = now
}

// wait is how long n units should take to leave, from a second to an hour; 0
// if none has left yet.
func (p *pool) wait(n int, now time.Time) time.Duration {
	p.advance(now)
	if p.left < 1e-9 || p.busy <= 0 {
		return 0
	}
	seconds := float64(n) * p.busy / p.left
	return time.Duration(min(3600, max(1, seconds)) * float64(time.Second))
}
