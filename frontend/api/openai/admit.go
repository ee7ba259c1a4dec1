package openai

import (
	"context"
	"errors"
	"net/http"

	"govllm/frontend/admission"
)

// intake is what a generating request holds from its arrival on.
type intake struct {
	ticket   *admission.Ticket
	prepared func() // all is with the engines
}

type intakeKey struct{}

// admitted gives a handler its intake and takes back what is left of it,
// however the handler ends.
func (s *Server) admitted(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		in := intake{s.cfg.Admission.Ticket(), s.cfg.Client.Preparing()}
		defer in.ticket.Release()
		defer in.prepared()
		next(w, r.WithContext(context.WithValue(r.Context(), intakeKey{}, in)))
	}
}

// intakeOf is the intake of an admitted handler's context.
func intakeOf(ctx context.Context) intake { return ctx.Value(intakeKey{}).(intake) }

// admit holds a request's sequences before its prompts are tokenized.
func (s *Server) admit(ctx context.Context, numSequences int) error {
	return intakeOf(ctx).ticket.Requests(numSequences)
}

// admitJobs holds an order's sequences and prompt tokens before any is sent.
func admitJobs(ctx context.Context, jobs []job) (*admission.Ticket, error) {
	t := intakeOf(ctx).ticket
	var sequences, tokens int
	for i := range jobs {
		sequences += jobs[i].n
		tokens += jobs[i].n * len(jobs[i].prompt.ids)
	}
	if err := t.Requests(sequences); err != nil {
		return nil, err
	}
	return t, t.Tokens(tokens)
}

// place is what one sequence holds of its request's ticket.
type place struct {
	ticket           *admission.Ticket
	tokens           int
	prefilled, ended bool
}

// follow gives back what the sequence needs no more.
func (p *place) follow(d *delta) {
	done := d.Finish != 0
	if !p.prefilled && (done || len(d.TokenIDs) > 0) {
		p.prefilled = true
		p.ticket.Prefilled(p.tokens)
	}
	if done && !p.ended {
		p.ended = true
		p.ticket.Ended()
	}
}

// overloaded words the limiter's refusals; nil if err is none.
func overloaded(err error) *APIError {
	var overload *admission.OverloadError
	var never *admission.NeverError
	switch {
	case errors.As(err, &overload):
		e := refusal(http.StatusServiceUnavailable, "%s", overload.Error())
		e.RetryAfter = overload.Retry
		return e
	case errors.As(err, &never):
		return invalid("n", "%s", never.Error())
	}
	return nil
}
