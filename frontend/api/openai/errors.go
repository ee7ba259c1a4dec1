package openai

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"govllm/frontend/chat"
	"govllm/frontend/chat/jinja"
	"govllm/frontend/engineclient"
)

// APIError is a refusal as the client sees it.
type APIError struct {
	Status  int
	Type    string
	Param   string // the field at fault; "" for none
	Message string
}

func (e *APIError) Error() string { return e.Message }

// invalid refuses a field's value: 400.
func invalid(param, format string, args ...any) *APIError {
	return &APIError{Status: http.StatusBadRequest, Type: "BadRequestError", Param: param, Message: fmt.Sprintf(format, args...)}
}

// notServed refuses a field or value that vLLM knows and this server does not
// serve; way says what to do instead.
func notServed(param, way string) *APIError {
	return invalid(param, "`%s` is not supported by this server: %s.", param, way)
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
	return &APIError{Status: http.StatusBadRequest, Type: "Bad Request", Param: errs[0].Param, Message: b.String()}
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
	switch {
	case errors.As(err, &api):
		return api
	case errors.As(err, &input):
		return invalid("messages", "%s", input.Error())
	case errors.As(err, &template):
		return invalid("messages", "The chat template refused the messages: %s", template.Error())
	case errors.Is(err, engineclient.ErrEngineDead):
		return &APIError{Status: http.StatusServiceUnavailable, Type: "ServiceUnavailableError",
			Message: "The engine has stopped. This server is shutting down; send the request to another one."}
	case errors.Is(err, engineclient.ErrDraining):
		return &APIError{Status: http.StatusServiceUnavailable, Type: "ServiceUnavailableError",
			Message: "This server is shutting down and takes no new requests."}
	case errors.Is(err, errGeneration):
		return &APIError{Status: http.StatusInternalServerError, Type: "InternalServerError",
			Message: fmt.Sprintf("The engine could not finish request %s; its log says why.", requestID)}
	case errors.Is(err, errAborted):
		return &APIError{Status: http.StatusServiceUnavailable, Type: "ServiceUnavailableError",
			Message: fmt.Sprintf("Request %s was aborted because the server is shutting down.", requestID)}
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

// errorBody is vLLM's shape: {"error": {message, type, param, code}}.
type errorBody struct {
	Error errorInfo `json:"error"`
}

type errorInfo struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
}

func (e *APIError) body() errorBody {
	info := errorInfo{Message: e.Message, Type: e.Type, Code: e.Status}
	if e.Param != "" {
		info.Param = &e.Param
	}
	return errorBody{info}
}

// fail answers a request with an error. Nothing has been written before.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error, requestID string) {
	if errors.Is(err, errClientGone) || r.Context().Err() != nil {
		return
	}
	api := toAPIError(err, requestID)
	if api.Status >= http.StatusInternalServerError {
		s.log.LogAttrs(context.Background(), slog.LevelError, "request failed",
			slog.String("request_id", requestID), slog.Int("status", api.Status), slog.Any("error", err))
	}
	writeJSON(w, api.Status, api.body())
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
