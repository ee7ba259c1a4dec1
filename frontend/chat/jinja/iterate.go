package jinja

import (
	"fmt"
	"unicode/utf8"
)

// Python's iteration protocol: lists and the like give a fresh iterator each
// time, a generator only ever its rest.

// iterator gives a value at each call, then nil.
type iterator interface {
	next() (Value, error)
}

// iterate is Python's iter(v); ok is false where iter raises TypeError.
func iterate(v Value) (it iterator, ok bool) {
	switch v := v.(type) {
	case *List:
		return &sliceIter{items: v.items}, true
	case *tuple:
		return &sliceIter{items: v.items}, true
	case Str:
		return &runeIter{string(v)}, true
	case markup:
		return &runeIter{string(v)}, true
	case *Dict:
		return &viewIter{view: &dictView{v, 'k'}}, true
	case *dictView:
		return &viewIter{view: v}, true
	case *pyRange:
		return &rangeIter{r: *v}, true
	case *undefined:
		return &sliceIter{}, true
	case *generator:
		return v, true
	case *loopContext:
		return v, true
	}
	return nil, false
}

// iter is iterate, with Python's TypeError.
func iter(v Value) (iterator, error) {
	it, ok := iterate(v)
	if !ok {
		return nil, typeErrf("'%s' object is not iterable", v.typeName())
	}
	return it, nil
}

// collect is Python's list(v).
func (r *run) collect(v Value) ([]Value, error) {
	switch v := v.(type) {
	case *List:
		return v.items, nil // shared: nothing writes to items
	case *tuple:
		return v.items, nil
	}
	it, err := iter(v)
	if err != nil {
		return nil, err
	}
	return r.drain(it)
}

func (r *run) drain(it iterator) ([]Value, error) {
	var items []Value
	for {
		v, err := it.next()
		if err != nil {
			return nil, err
		}
		if v == nil {
			return items, nil
		}
		if err := r.charge(valueBytes); err != nil {
			return nil, err
		}
		if err := r.tick(1); err != nil {
			return nil, err
		}
		items = append(items, v)
	}
}

type sliceIter struct {
	items []Value
	i     int
}

func (it *sliceIter) next() (Value, error) {
	if it.i >= len(it.items) {
		return nil, nil
	}
	it.i++
	return it.items[it.i-1], nil
}

type runeIter struct{ rest string }

func (it *runeIter) next() (Value, error) {
	if it.rest == "" {
		return nil, nil
	}
	_, n := utf8.DecodeRuneInString(it.rest)
	c := it.rest[:n]
	it.rest = it.rest[n:]
	return Str(c), nil
}

type viewIter struct {
	view *dictView
	i    int
}

func (it *viewIter) next() (Value, error) {
	if it.i >= it.view.dict.Len() {
		return nil, nil
	}
	it.i++
	return it.view.at(it.i - 1), nil
}

type rangeIter struct {
	r pyRange
	i int
}

func (it *rangeIter) next() (Value, error) {
	if it.i >= it.r.len() {
		return nil, nil
	}
	it.i++
	return Int(it.r.at(it.i - 1)), nil
}

// generator is a lazy, single-use sequence: what map, select, items and the
// like return, and Python's reverse iterators.
type generator struct {
	name  string // Python's type name
	pull  func() (Value, error)
	done  bool
	depth int // lazy sequences inside one another
}

func (g *generator) typeName() string { return g.name }

func (g *generator) next() (Value, error) {
	if g.done {
		return nil, nil
	}
	v, err := g.pull()
	if err != nil || v == nil {
		g.done = true // a generator that raised is finished
	}
	return v, err
}

// lazily makes a generator over the iterator that start returns on first use. x
// is the sequence it draws from: a chain of lazy ones has a limit, because each
// link is a call inside the others.
func lazily(x Value, start func() (iterator, error)) (Value, error) {
	depth := lazyDepth(x) + 1
	if depth > maxDataDepth {
		return nil, deep()
	}
	var it iterator
	return &generator{name: "generator", depth: depth, pull: func() (Value, error) {
		if it == nil {
			var err error
			if it, err = start(); err != nil {
				return nil, err
			}
		}
		return it.next()
	}}, nil
}

func lazyDepth(v Value) int {
	switch v := v.(type) {
	case *generator:
		return v.depth
	case *loopContext:
		return v.lazy
	}
	return 0
}

// iterFunc is an iterator made of a function.
type iterFunc func() (Value, error)

func (f iterFunc) next() (Value, error) { return f() }

// pyRange is Python's range object.
type pyRange struct{ start, stop, step int }

func (*pyRange) typeName() string { return "range" }

func (r *pyRange) String() string {
	if r.step == 1 {
		return fmt.Sprintf("range(%d, %d)", r.start, r.stop)
	}
	return fmt.Sprintf("range(%d, %d, %d)", r.start, r.stop, r.step)
}

// len cannot overflow: safeRange admits bounded ranges only.
func (r *pyRange) len() int {
	switch {
	case r.step > 0 && r.start < r.stop:
		return int((uint64(r.stop)-uint64(r.start)-1)/uint64(r.step)) + 1
	case r.step < 0 && r.start > r.stop:
		return int((uint64(r.start)-uint64(r.stop)-1)/-uint64(r.step)) + 1
	}
	return 0
}

func (r *pyRange) at(i int) int { return r.start + i*r.step }

func (r *pyRange) contains(n int) bool {
	count := r.len()
	if count == 0 {
		return false
	}
	first, last := r.start, r.at(count-1)
	if first > last {
		first, last = last, first
	}
	// Every element is start plus a multiple of step; uint64 keeps the gap exact.
	return n >= first && n <= last && (uint64(n)-uint64(first))%uint64(max(r.step, -r.step)) == 0
}

// equal is range equality: the same elements.
func (r *pyRange) equal(o *pyRange) bool {
	n := r.len()
	return n == o.len() && (n == 0 || r.start == o.start && (n == 1 || r.step == o.step))
}
