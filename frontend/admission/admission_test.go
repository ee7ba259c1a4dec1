package admission

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"govllm/stats"
)

// clock is turned by hand.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func newLimiter(maxRequests, maxTokens int) (*Limiter, *clock, *[]stats.Rejection) {
	c := &clock{time.Unix(1000, 0)}
	rejected := new([]stats.Rejection)
	return New(Config{MaxRequests: maxRequests, MaxTokens: maxTokens, Now: c.now,
		Rejected: func(r stats.Rejection) { *rejected = append(*rejected, r) }}), c, rejected
}

func held(t *testing.T, l *Limiter, requests, tokens int) {
	t.Helper()
	if r, k := l.Held(); r != requests || k != tokens {
		t.Errorf("Held() = %d, %d, want %d, %d", r, k, requests, tokens)
	}
}

func TestRequests(t *testing.T) {
	l, _, rejected := newLimiter(4, 0)
	a, b := l.Ticket(), l.Ticket()
	if err := a.Requests(3); err != nil {
		t.Fatal(err)
	}
	// All or none: one place is left, two are asked for.
	var overload *OverloadError
	if err := b.Requests(2); !errors.As(err, &overload) || overload.Held != 3 || overload.Asked != 2 || overload.Max != 4 || overload.Retry != 0 {
		t.Errorf("Requests(2) at 3 of 4 = %v, want an OverloadError with those numbers", err)
	}
	held(t, l, 3, 0)
	if err := b.Requests(1); err != nil {
		t.Errorf("Requests(1) at 3 of 4 = %v", err)
	}
	// What a ticket holds counts towards what it asks for.
	if err := a.Requests(3); err != nil {
		t.Errorf("Requests(3) of a ticket that holds 3 = %v", err)
	}
	held(t, l, 4, 0)
	a.Ended()
	held(t, l, 3, 0)
	for range 5 {
		a.Ended() // never more than it holds
	}
	held(t, l, 1, 0)
	a.Release()
	b.Release()
	b.Release()
	held(t, l, 0, 0)
	var never *NeverError
	if err := a.Requests(5); !errors.As(err, &never) || never.Asked != 5 || never.Max != 4 {
		t.Errorf("Requests(5) of 4 = %v, want a NeverError", err)
	}
	if len(*rejected) != 1 || (*rejected)[0] != stats.RejectedByRequests {
		t.Errorf("rejections counted: %v, want one by requests", *rejected)
	}
}

// Only a backlog refuses, not a prompt's own length; and it refuses before the
// prompt is tokenized.
func TestTokens(t *testing.T) {
	l, _, rejected := newLimiter(0, 100)
	a, b, c := l.Ticket(), l.Ticket(), l.Ticket()
	for _, ticket := range []*Ticket{a, b, c} {
		if err := ticket.Requests(2); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(a.Tokens(99), b.Tokens(5000)); err != nil {
		t.Fatal(err)
	}
	var overload *OverloadError
	if err := c.Tokens(1); !errors.As(err, &overload) || overload.Held != 5099 || overload.Max != 100 {
		t.Errorf("Tokens(1) at 5099 of 100 = %v, want an OverloadError", err)
	}
	if err := l.Ticket().Requests(1); !errors.As(err, &overload) || overload.Limit != stats.RejectedByTokens {
		t.Errorf("Requests(1) at 5099 of 100 tokens = %v, want an OverloadError", err)
	}
	b.Prefilled(5000)
	if err := c.Tokens(1); err != nil {
		t.Errorf("Tokens(1) at 99 of 100 = %v", err)
	}
	held(t, l, 6, 100)
	for _, ticket := range []*Ticket{a, b, c} {
		ticket.Release()
	}
	held(t, l, 0, 0)
	if len(*rejected) != 2 {
		t.Errorf("rejections counted: %v, want two", *rejected)
	}
}

// The time to come back is what must leave by the rate at which it leaves: 2
// sequences a second here, whatever the server did while it was idle.
func TestRetry(t *testing.T) {
	l, c, _ := newLimiter(10, 0)
	full := func() []*Ticket {
		var tickets []*Ticket
		for range 10 {
			ticket := l.Ticket()
			if err := ticket.Requests(1); err != nil {
				t.Fatal(err)
			}
			tickets = append(tickets, ticket)
		}
		return tickets
	}
	one := l.Ticket()
	if err := one.Requests(1); err != nil {
		t.Fatal(err)
	}
	c.t = c.t.Add(time.Hour) // one request an hour is not what it can do
	one.Release()

	tickets := full()
	retry := func(n int) time.Duration {
		var overload *OverloadError
		if err := l.Ticket().Requests(n); !errors.As(err, &overload) {
			t.Fatalf("Requests(%d) of a full server = %v", n, err)
		}
		return overload.Retry
	}
	if got := retry(1); got != 0 {
		t.Errorf("before anything has left, Retry = %v, want 0", got)
	}
	for range 100 {
		c.t = c.t.Add(500 * time.Millisecond)
		tickets[0].Release()
		tickets = append(tickets[1:], l.Ticket())
		if err := tickets[9].Requests(1); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range map[int]time.Duration{1: time.Second, 6: 3 * time.Second, 10: 5 * time.Second} {
		if got := retry(n); got < want*9/10 || got > want*11/10 {
			t.Errorf("at 2 a second, Retry for %d = %v, want about %v", n, got, want)
		}
	}
	// Nothing leaves any more: the wait grows.
	before := retry(10)
	c.t = c.t.Add(time.Minute)
	if after := retry(10); after <= 3*before {
		t.Errorf("a minute in which nothing left changes Retry from %v to %v", before, after)
	}
}

// Whatever requests do at the same time, no more than the limit is in flight
// and nothing is left in the end.
func TestConcurrent(t *testing.T) {
	l := New(Config{MaxRequests: 20, MaxTokens: 50})
	var inFlight, most atomic.Int64
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			ticket := l.Ticket()
			defer ticket.Release()
			n := 1 + random.IntN(4)
			if ticket.Requests(n) != nil {
				return
			}
			now := inFlight.Add(int64(n))
			for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			}
			if ticket.Tokens(n*10) == nil {
				ticket.Prefilled(10)
			}
			inFlight.Add(int64(-n))
		})
	}
	all.Wait()
	if most.Load() > 20 {
		t.Errorf("%d sequences were in flight, more than 20", most.Load())
	}
	held(t, l, 0, 0)
}
