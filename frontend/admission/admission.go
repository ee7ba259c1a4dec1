// Package admission turns requests away while the queue is full, so that those
// let in are answered in time and the rest may go elsewhere at once.
//
// Two things are counted: sequences in flight, waiting or running, and prompt
// tokens of sequences that have no first token yet. A request takes a Ticket.
// It holds its sequences before its prompt is tokenized, all or none of them,
// and its tokens before it is sent; a Ticket gives back what is left when its
// request ends, however it ends.
//
// A refusal says when to come back: what must leave first, divided by the rate
// at which the like left lately. Follows vLLM 0.32, AsyncLLM.check_admission,
// and differs in: what is checked is held, so bursts do not overshoot; a
// request that could never be let in is told so.
package admission

import (
	"fmt"
	"sync"
	"time"

	"govllm/stats"
)

// OverloadError refuses a request for now.
type OverloadError struct {
	Limit stats.Rejection // the one that was met
	Held  int             // sequences or tokens at that moment
	Max   int
	Asked int           // sequences; 0 for tokens
	Retry time.Duration // when there should be room; 0: not known
}

func (e *OverloadError) Error() string {
	if e.Limit == stats.RejectedByTokens {
		return fmt.Sprintf("The engine has reached its prefill token backlog limit: %d prompt tokens wait, and at %d no more requests are let in. Please try again later or on a different instance.", e.Held, e.Max)
	}
	return fmt.Sprintf("The engine is currently busy and cannot accept new requests: %d sequences are in flight, this request needs %d more, and %d are allowed. Please try again later or on a different instance.", e.Held, e.Asked, e.Max)
}

// NeverError refuses a request that is larger than the limit itself.
type NeverError struct{ Asked, Max int }

func (e *NeverError) Error() string {
	return fmt.Sprintf("The request asks for %d sequences (prompts times n), more than the %d that this server has in flight at a time; ask for fewer. --max-num-queued-reqs of the server raises that.", e.Asked, e.Max)
}

// Config of a Limiter.
type Config struct {
	MaxRequests int // sequences in flight; 0: no limit
	MaxTokens   int // prompt tokens before their first token; at that many no more come in; 0: no limit
	Rejected    func(stats.Rejection)
	Now         func() time.Time // nil: time.Now
}

// Limiter counts what is in flight. Safe for concurrent use.
type Limiter struct {
	rejected func(stats.Rejection)
	now      func() time.Time

	mu               sync.Mutex // guards what follows
	requests, tokens pool
}

// New returns a Limiter with nothing in flight.
func New(c Config) *Limiter {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rejected == nil {
		c.Rejected = func(stats.Rejection) {}
	}
	return &Limiter{rejected: c.Rejected, now: c.Now, requests: pool{max: c.MaxRequests}, tokens: pool{max: c.MaxTokens}}
}

// Held is what is in flight.
func (l *Limiter) Held() (requests, tokens int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requests.held, l.tokens.held
}

// Ticket is one request's share, its handler's to Release.
type Ticket struct {
	l                *Limiter
	requests, tokens int // held; l.mu guards them
}

// Ticket returns one that holds nothing yet.
func (l *Limiter) Ticket() *Ticket { return &Ticket{l: l} }

// Requests holds n sequences, all or none; what the ticket holds counts
// towards them. The prompt need not be known: a backlog of tokens refuses it
// whatever its length.
//
// Errors: *OverloadError, *NeverError.
func (t *Ticket) Requests(n int) error {
	l := t.l
	l.mu.Lock()
	defer l.mu.Unlock()
	more := n - t.requests
	if more <= 0 {
		return nil
	}
	if r := &l.requests; r.max > 0 {
		if n > r.max {
			return &NeverError{Asked: n, Max: r.max}
		}
		if r.held+more > r.max {
			return l.refuse(&OverloadError{Limit: stats.RejectedByRequests, Held: r.held, Max: r.max, Asked: more, Retry: r.wait(r.held+more-r.max, l.now())})
		}
	}
	if err := l.backlog(); err != nil {
		return err
	}
	t.requests += more
	l.requests.take(more, l.now())
	return nil
}

// Tokens holds n prompt tokens. Only what is held already can refuse them: a
// long prompt is let in when a short one is.
//
// Errors: *OverloadError.
func (t *Ticket) Tokens(n int) error {
	l := t.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.backlog(); err != nil {
		return err
	}
	t.tokens += n
	l.tokens.take(n, l.now())
	return nil
}

// Prefilled gives back the prompt tokens of a sequence that got its first
// token.
func (t *Ticket) Prefilled(tokens int) { t.giveBack(0, tokens) }

// Ended gives back a sequence that has ended.
func (t *Ticket) Ended() { t.giveBack(1, 0) }

// Release gives back what is left. It may be called again.
func (t *Ticket) Release() { t.giveBack(-1, -1) }

// giveBack takes negative numbers for all, and never gives back more than is
// held.
func (t *Ticket) giveBack(requests, tokens int) {
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	if requests < 0 || requests > t.requests {
		requests = t.requests
	}
	if tokens < 0 || tokens > t.tokens {
		tokens = t.tokens
	}
	now := t.l.now()
	t.requests -= requests
	t.tokens -= tokens
	t.l.requests.free(requests, now)
	t.l.tokens.free(tokens, now)
}

// backlog refuses while the tokens are at their limit. l.mu is held.
func (l *Limiter) backlog() error {
	p := &l.tokens
	if p.max == 0 || p.held < p.max {
		return nil
	}
	return l.refuse(&OverloadError{Limit: stats.RejectedByTokens, Held: p.held, Max: p.max, Retry: p.wait(p.held-p.max+1, l.now())})
}

func (l *Limiter) refuse(e *OverloadError) error {
	l.rejected(e.Limit)
	return e
}
