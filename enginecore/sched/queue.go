package sched

import "govllm/enginecore/request"

// queue holds the requests that wait for capacity. No operation walks it.
type queue interface {
	Len() int
	Push(r *request.Request)      // a new request
	PushFront(r *request.Request) // a preempted one, or one no longer deferred
	Peek() *request.Request       // who is next; nil if empty
	Remove(r *request.Request)    // r must be in the queue
}

func newQueue(p Policy) queue {
	if p == Priority {
		return &heap{}
	}
	return newList()
}

// list is the fcfs queue: a ring of requests through their own links, so that
// an abort in the middle costs as little as one at the end.
type list struct {
	ends request.Request // Next is the head, Prev the tail
	n    int
}

func newList() *list {
	l := &list{}
	l.ends.Next, l.ends.Prev = &l.ends, &l.ends
	return l
}

func (l *list) Len() int                     { return l.n }
func (l *list) Push(r *request.Request)      { l.insertAfter(l.ends.Prev, r) }
func (l *list) PushFront(r *request.Request) { l.insertAfter(&l.ends, r) }

func (l *list) Peek() *request.Request {
	if l.n == 0 {
		return nil
	}
	return l.ends.Next
}

func (l *list) insertAfter(at, r *request.Request) {
	r.Prev, r.Next = at, at.Next
	at.Next.Prev = r
	at.Next = r
	l.n++
}

func (l *list) Remove(r *request.Request) {
	r.Prev.Next, r.Next.Prev = r.Next, r.Prev
	r.Prev, r.Next = nil, nil
	l.n--
}

// heap is the priority queue: a binary heap ordered by Request.Before, in
// which every request knows its place.
type heap struct{ items []*request.Request }

func (h *heap) Len() int { return len(h.items) }

func (h *heap) Push(r *request.Request) {
	r.HeapIndex = len(h.items)
	h.items = append(h.items, r)
	h.up(r.HeapIndex)
}

// PushFront puts r in its (priority, arrival) place, which is not the front.
func (h *heap) PushFront(r *request.Request) { h.Push(r) }

func (h *heap) Peek() *request.Request {
	if len(h.items) == 0 {
		return nil
	}
	return h.items[0]
}

func (h *heap) Remove(r *request.Request) {
	i, last := r.HeapIndex, len(h.items)-1
	h.swap(i, last)
	h.items[last] = nil
	h.items = h.items[:last]
	if i < last && !h.down(i) {
		h.up(i)
	}
}

func (h *heap) swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.items[i].HeapIndex, h.items[j].HeapIndex = i, j
}

func (h *heap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.items[i].Before(h.items[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

// down reports whether the item moved.
func (h *heap) down(i int) bool {
	start := i
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if right := child + 1; right < len(h.items) && h.items[right].Before(h.items[child]) {
			child = right
		}
		if !h.items[child].Before(h.items[i]) {
			break
		}
		h.swap(i, child)
		i = child
	}
	return i > start
}
