package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// live finds running requests by the ID that their clients know: the one in
// the answer (cmpl-…), and the one they gave without that prefix. Several
// requests may share an ID.
type live struct {
	mu   sync.Mutex
	byID map[string]map[*liveRequest]struct{}
}

// liveRequest is one HTTP request from its decoding to its end.
type liveRequest struct{ cancel context.CancelCauseFunc }

// errCancelled ends a request that DELETE /v1/requests/{id} named. What was
// generated is told, with the finish reason abort.
var errCancelled = errors.New("openai: cancelled by ID")

func (l *live) enter(r *liveRequest, ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID == nil {
		l.byID = map[string]map[*liveRequest]struct{}{}
	}
	for _, id := range ids {
		if l.byID[id] == nil {
			l.byID[id] = map[*liveRequest]struct{}{}
		}
		l.byID[id][r] = struct{}{}
	}
}

func (l *live) leave(r *liveRequest, ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		delete(l.byID[id], r)
		if len(l.byID[id]) == 0 {
			delete(l.byID, id)
		}
	}
}

// cancel ends every request of that ID and reports how many there were.
func (l *live) cancel(id string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.byID[id] {
		r.cancel(errCancelled)
	}
	return len(l.byID[id])
}

// begin makes a request one that can be cancelled by its IDs and that ends
// after timeoutMS, counted from its arrival, if that is not nil. end must be
// called.
func (s *Server) begin(ctx context.Context, arrival time.Time, timeoutMS *int, ids ...string) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() {}
	if timeoutMS != nil {
		left := time.Duration(*timeoutMS)*time.Millisecond - s.now().Sub(arrival)
		var stopTimer context.CancelFunc
		ctx, stopTimer = context.WithTimeoutCause(ctx, left, timedOut(*timeoutMS))
		stop = stopTimer
	}
	r := &liveRequest{cancel}
	s.live.enter(r, ids...)
	return ctx, func() {
		s.live.leave(r, ids...)
		stop()
		cancel(nil)
	}
}

// timedOut refuses a request that took longer than its own timeout_ms, time in
// the queue included. It is no fault of the server, so no 5xx.
func timedOut(ms int) *APIError {
	return &APIError{Status: http.StatusRequestTimeout, Type: "TimeoutError", Param: "timeout_ms", Code: "timeout",
		Message: fmt.Sprintf("The request took longer than its timeout_ms of %d, waiting included. Allow more time, or ask for fewer tokens.", ms)}
}

// ended is why a request whose context has ended gets nothing more.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	var told *APIError
	if errors.Is(cause, errCancelled) || errors.As(cause, &told) {
		return cause
	}
	return errClientGone
}

// endedEarly is ended for a request of which nothing is with the engines: it
// has nothing to tell, so cancelling it is an error as well.
func endedEarly(ctx context.Context) error {
	if err := ended(ctx); !errors.Is(err, errCancelled) {
		return err
	}
	return &APIError{Status: http.StatusBadRequest, Type: "BadRequestError", Code: "cancelled",
		Message: "The request was cancelled by its ID before it began."}
}

type cancelResponse struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	Cancelled int    `json:"cancelled"` // requests of that ID
}

// abortRequests serves POST /inference/v1/abort_requests, vLLM's way to cancel:
// a list of IDs, of which those that do not run are passed over.
// Source: vllm/entrypoints/scale_out/token_in_token_out/api_router.py.
func (s *Server) abortRequests(w http.ResponseWriter, r *http.Request) {
	var ids []string
	unknown, err := decodeBody(r, abortFields(&ids))
	if err == nil && ids == nil {
		err = malformed("request_ids", "`request_ids` must be provided.")
	}
	if err != nil {
		s.fail(w, r, err, "")
		return
	}
	s.logUnknown(unknown)
	for _, id := range ids {
		s.live.cancel(id)
	}
}

func abortFields(ids *[]string) []field { return []field{stringsField("request_ids", ids)} }

// cancelRequest serves DELETE /v1/requests/{id}: 404 if no such request runs.
// The request itself is answered with what it has, finish_reason "abort".
func (s *Server) cancelRequest(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	n := s.live.cancel(id)
	if n == 0 {
		s.fail(w, r, &APIError{Status: http.StatusNotFound, Type: "NotFoundError", Param: "id",
			Message: "No request with the ID `" + abbreviate(id) + "` is running. IDs are those of answers, and those given as X-Request-Id or request_id."}, id)
		return
	}
	writeJSON(w, http.StatusOK, cancelResponse{ID: id, Object: "request.cancelled", Cancelled: n})
}
