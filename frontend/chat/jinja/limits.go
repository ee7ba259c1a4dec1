package jinja

import (
	"context"
	"strings"
	"time"
)

// Limits bound one render, so that a template that came with a request can
// neither run forever nor fill the memory. Zero fields take DefaultLimits'.
type Limits struct {
	Steps  int // evaluation steps; about 50 ns each. Higher allows longer conversations
	Bytes  int // bytes of text and lists built on the way, freed ones included
	Output int // bytes of rendered text
	Depth  int // macro, call block and recursive loop calls inside one another
}

// DefaultLimits leave room for conversations of several hundred thousand
// tokens even in templates that rebuild their text turn by turn.
var DefaultLimits = Limits{Steps: 20_000_000, Bytes: 1 << 29, Output: 1 << 26, Depth: 150}

func (l Limits) orDefault() Limits {
	set := func(v *int, def int) {
		if *v <= 0 {
			*v = def
		}
	}
	set(&l.Steps, DefaultLimits.Steps)
	set(&l.Bytes, DefaultLimits.Bytes)
	set(&l.Output, DefaultLimits.Output)
	set(&l.Depth, DefaultLimits.Depth)
	return l
}

const (
	// maxDataDepth bounds nested lists and dicts; Python stops near 1,000 too.
	maxDataDepth = 900
	// maxRange is the sandbox's MAX_RANGE.
	maxRange = 100_000
	// stepsPerCheck is how often a render looks at its context.
	stepsPerCheck = 4096
	// bytesPerStep charges long copies as work.
	bytesPerStep = 256
)

// run is the state of one render: what is left of its limits, and its clock.
type run struct {
	ctx    context.Context
	now    func() time.Time
	limits Limits
	steps  int
	bytes  int
	depth  int
}

// tick charges n steps.
func (r *run) tick(n int) error {
	before := r.steps
	r.steps += n
	if r.steps > r.limits.Steps || n < 0 {
		return errf(KindLimit, "the template needs more than the limit of %d steps", r.limits.Steps)
	}
	if r.ctx != nil && before/stepsPerCheck != r.steps/stepsPerCheck {
		if err := r.ctx.Err(); err != nil {
			return errf(KindLimit, "rendering stopped: %v", err)
		}
	}
	return nil
}

// charge accounts for n bytes about to be built.
func (r *run) charge(n int) error {
	if n < 0 || n > r.limits.Bytes-r.bytes {
		return errf(KindLimit, "the template builds more than the limit of %d bytes of text", r.limits.Bytes)
	}
	r.bytes += n
	return r.tick(n / bytesPerStep)
}

// chargeItems accounts for a list of n items.
func (r *run) chargeItems(n int) error {
	if n > r.limits.Bytes/valueBytes {
		n = r.limits.Bytes / valueBytes
	}
	return r.charge(n * valueBytes)
}

const valueBytes = 16 // one Value in a slice

// enter counts one more call inside the others; leave undoes it.
func (r *run) enter() error {
	if r.depth >= r.limits.Depth {
		return errf(KindLimit, "calls nested deeper than the limit of %d", r.limits.Depth)
	}
	r.depth++
	return nil
}

func (r *run) leave() { r.depth-- }

// writer collects text within the render's limits.
type writer struct {
	strings.Builder
	run *run
}

func (w *writer) write(s string) error {
	if err := w.run.charge(len(s)); err != nil {
		return err
	}
	if w.Len()+len(s) > w.run.limits.Output {
		return errf(KindLimit, "the template writes more than the limit of %d bytes", w.run.limits.Output)
	}
	w.WriteString(s)
	return nil
}
