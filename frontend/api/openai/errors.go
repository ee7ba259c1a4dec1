package openai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"govllm/frontend/api/httpserver"
	"govllm/frontend/chat"
	"govllm/frontend/chat/jinja"
	"govllm/frontend/engineclient"
)

// APIError is a refusal as the client sees it.
type APIError struct {
	Status  int
	Type    string // vLLM's name of the kind
	Param   string // the field at fault; "" for none
	Message string

	Code       string        // OpenAI's name of the kind; "" for the status's own
	RetryAfter time.Duration // when to come back; 0 for no promise
}

func (e *APIError) Error() string { return e.Message }

// invalid refuses a field's value: 400.
func invalid(param, format string, args ...any) *APIError {
	return &APIError{Status: http.StatusBadRequest, Type: "BadRequestError", Param: param, Message: fmt.Sprintf(format, args...)}
}

// malformed refuses a request that breaks the schema, whatever its values mean:
// no JSON, a missing field, a value of another type. vLLM gives such errors a
// type of their own.
func malformed(param, format string, args ...any) *APIError {
	e := invalid(param, format, args...)
	e.Type = "Bad Request"
	return e
}

// notServed refuses a field or value that vLLM knows and this server does not
// serve; way says what to do instead.
func notServed(param, way string) *APIError {
	return invalid(param, "`%s` is not supported by this server: %s.", param, way)
}

// unavailable sends the client elsewhere: 503.
func unavailable(message string) *APIError {
	return &APIError{Status: http.StatusServiceUnavailable, Type: "ServiceUnavailableError", Message: message}
}

// maxReportedErrors and maxErrorInput bound what a faulty request can make the
// server write. Source: vllm/entrypoints/serve/exception_handling.
const (
	maxReportedErrors = 10
	maxErrorInput     = 200
)

// joinErrors makes one refusal of several.
func joinErrors(errs []*APIError) *APIError {
	if len(errs) == 0 {
		return nil
	}
	if len(errs) == 1 {
		return errs[0]
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d validation errors:", len(errs))
	for i, e := range errs {
		if i == maxReportedErrors {
			fmt.Fprintf(&b, "\n  ...and %d more errors", len(errs)-i)
			break
		}
		fmt.Fprintf(&b, "\n  %s", e.Message)
	}
	return malformed(errs[0].Param, "%s", b.String())
}

// abbreviate cuts what a message repeats of the client's input.
func abbreviate(s string) string {
	if len(s) <= maxErrorInput {
		return s
	}
	return strings.ToValidUTF8(s[:maxErrorInput], "") + "...[truncated]"
}

// errClientGone ends a handler whose client has left; nobody reads the answer.
var errClientGone = errors.New("openai: client gone")

// toAPIError is the table: what users are told about each kind of failure.
// Anything unlisted is a 500 that names only the request; the log has the rest.
func toAPIError(err error, requestID string) *APIError {
	var api *APIError
	var template *jinja.Error
	var input *chat.InputError
	var stalled *engineclient.StalledError
	if e := overloaded(err); e != nil {
		return e
	}
	switch {
	case errors.As(err, &api):
		return api
	case errors.As(err, &input):
		return invalid("messages", "%s", input.Error())
	case errors.As(err, &template):
		return invalid("messages", "The chat template refused the messages: %s", template.Error())
	case errors.Is(err, engineclient.ErrEngineDead):
		return unavailable("The engine has stopped. This server is shutting down; send the request to another one.")
	case errors.As(err, &stalled):
		return unavailable(fmt.Sprintf("Engine %d is stalled: it has %d requests and completed no step for %v, more than %v.",
			stalled.Engine, stalled.Requests, stalled.For.Round(time.Second), stalled.Limit))
	case errors.Is(err, engineclient.ErrDraining):
		return unavailable("This server is shutting down and takes no new requests; send the request to another one.")
	case errors.Is(err, errGeneration):
		return &APIError{Status: http.StatusInternalServerError, Type: "InternalServerError",
			Message: fmt.Sprintf("The engine could not finish request %s; its log says why.", requestID)}
	case errors.Is(err, errAborted):
		return unavailable(fmt.Sprintf("Request %s was aborted because the server is shutting down.", requestID))
	}
	return &APIError{Status: http.StatusInternalServerError, Type: "InternalServerError",
		Message: fmt.Sprintf("Internal error while serving request %s.", requestID)}
}

// errGeneration reports that the engine ended a request with FinishError.
var errGeneration = errors.New("openai: the engine failed the request")

// errNoLogprobs reports an engine that left out log probabilities.
var errNoLogprobs = fmt.Errorf("%w: it gave no log probabilities", errGeneration)

// errAborted reports that the server itself ended a request before it had
// produced anything.
var errAborted = errors.New("openai: aborted by the server")

// ErrorFormat is the shape of error bodies.
type ErrorFormat string

const (
	// FormatVLLM is what vLLM's Python server answers:
	// {"error": {"message", "type": "BadRequestError", "param", "code": 400}}.
	FormatVLLM ErrorFormat = "vllm"
	// FormatOpenAI has OpenAI's types and codes, as vLLM's Rust server has:
	// {"error": {"message", "type": "invalid_request_error", "param", "code": "model_not_found"}}.
	FormatOpenAI ErrorFormat = "openai"
)

type errorInfo struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    any     `json:"code"` // the status, or OpenAI's word
}

type errorBody struct {
	Error errorInfo `json:"error"`
}

// body is the JSON value of e.
func (f ErrorFormat) body(e *APIError) any {
	if f != FormatOpenAI && e.Status == http.StatusUnauthorized {
		return map[string]string{"error": "Unauthorized"} // all that vLLM says
	}
	info := errorInfo{Message: e.Message, Type: e.Type, Code: e.Status}
	if f == FormatOpenAI {
		info.Type, info.Code = openAIKind(e)
	}
	if e.Param != "" {
		info.Param = &e.Param
	}
	return errorBody{info}
}

// openAIKind gives OpenAI's type and code of an error.
func openAIKind(e *APIError) (kind, code string) {
	kind, code = "invalid_request_error", "invalid_request_error"
	switch {
	case e.Status == http.StatusUnauthorized:
		code = "invalid_api_key"
	case e.Status == http.StatusNotFound && e.Param == "model":
		code = "model_not_found"
	case e.Status >= http.StatusInternalServerError:
		kind, code = "server_error", "server_error"
	}
	return kind, cmp.Or(e.Code, code)
}

// Write answers with e.
func (f ErrorFormat) Write(w http.ResponseWriter, e *APIError) {
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64(math.Ceil(e.RetryAfter.Seconds())), 10))
	}
	writeJSON(w, e.Status, f.body(e))
}

// Refuse answers with a status and a sentence about the request as a whole.
func (f ErrorFormat) Refuse(w http.ResponseWriter, status int, message string) {
	f.Write(w, refusal(status, "%s", message))
}

// refusal has the type that vLLM gives to errors of HTTP itself: the status's
// own phrase.
func refusal(status int, format string, args ...any) *APIError {
	return &APIError{Status: status, Type: http.StatusText(status), Message: fmt.Sprintf(format, args...)}
}

// fail answers a request with an error. Nothing has been written before.
// requestID may be empty where the client sees none.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error, requestID string) {
	if errors.Is(err, errClientGone) || r.Context().Err() != nil {
		return
	}
	if requestID == "" {
		requestID = httpserver.RequestID(r, "")
	}
	api := toAPIError(err, requestID)
	if api.Status >= http.StatusInternalServerError {
		level := slog.LevelError
		switch {
		case overloaded(err) != nil:
			level = slog.LevelDebug // a full server must not fill the log, too; they are counted
		case api.Status == http.StatusNotImplemented:
			level = slog.LevelInfo
		}
		s.log.LogAttrs(context.Background(), level, "request failed",
			slog.String("request_id", requestID), slog.Int("status", api.Status), slog.Any("error", err))
	}
	s.cfg.ErrorFormat.Write(w, api)
}

// writeJSON answers with one JSON value.
func writeJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value, json.FormatNilSliceAsNull(true))
	if err != nil { // our own types always marshal
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has gone is noticed elsewhere
}
