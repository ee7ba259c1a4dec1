package openai

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"govllm/frontend/admission"
	"govllm/frontend/engineclient"
	"govllm/stats"
)

// Both shapes of the same errors, byte for byte.
func TestErrorFormats(t *testing.T) {
	_, syntax := decodeObject([]byte(`{"a"`), nil)
	for _, tc := range []struct {
		name           string
		err            *APIError
		vllm, openAI   string
		wantRetryAfter string
	}{
		{"field", invalid("top_p", "top_p must be in (0, 1], got 2."),
			`{"error":{"message":"top_p must be in (0, 1], got 2.","type":"BadRequestError","param":"top_p","code":400}}`,
			`{"error":{"message":"top_p must be in (0, 1], got 2.","type":"invalid_request_error","param":"top_p","code":"invalid_request_error"}}`, ""},
		{"syntax", syntax.(*APIError),
			`{"error":{"message":"The request body is not valid JSON: unexpected EOF at byte 4.","type":"Bad Request","param":null,"code":400}}`,
			`{"error":{"message":"The request body is not valid JSON: unexpected EOF at byte 4.","type":"invalid_request_error","param":null,"code":"json_parse_error"}}`, ""},
		{"model", &APIError{Status: 404, Type: "NotFoundError", Param: "model", Message: "m"},
			`{"error":{"message":"m","type":"NotFoundError","param":"model","code":404}}`,
			`{"error":{"message":"m","type":"invalid_request_error","param":"model","code":"model_not_found"}}`, ""},
		{"key", refusal(401, "k"),
			`{"error":"Unauthorized"}`,
			`{"error":{"message":"k","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, ""},
		{"route", refusal(405, "x"),
			`{"error":{"message":"x","type":"Method Not Allowed","param":null,"code":405}}`,
			`{"error":{"message":"x","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`, ""},
		{"busy", &APIError{Status: 503, Type: "Service Unavailable", Message: "b", RetryAfter: 1100 * time.Millisecond},
			`{"error":{"message":"b","type":"Service Unavailable","param":null,"code":503}}`,
			`{"error":{"message":"b","type":"server_error","param":null,"code":"server_error"}}`, "2"},
	} {
		for format, want := range map[ErrorFormat]string{FormatVLLM: tc.vllm, FormatOpenAI: tc.openAI} {
			w := httptest.NewRecorder()
			format.Write(w, tc.err)
			if got := w.Body.String(); got != want || w.Code != tc.err.Status || w.Header().Get("Retry-After") != tc.wantRetryAfter {
				t.Errorf("%s: %s.Write = %d, Retry-After %q,\n%s, want\n%s", tc.name, format, w.Code, w.Header().Get("Retry-After"), got, want)
			}
		}
	}
}

// What a client is told of each kind of failure. The unknown tells nothing but
// the request.
func TestErrorTable(t *testing.T) {
	for _, tc := range []struct {
		err    error
		status int
		want   string
	}{
		{fmt.Errorf("submit: %w", &engineclient.EngineDeadError{Err: fmt.Errorf("secret")}), 503, "The engine has stopped"},
		{fmt.Errorf("submit: %w", engineclient.ErrDraining), 503, "shutting down"},
		{fmt.Errorf("ready: %w", &engineclient.StalledError{Engine: 1, For: 40 * time.Second, Limit: 30 * time.Second, Requests: 2}), 503,
			"Engine 1 is stalled: it has 2 requests and completed no step for 40s, more than 30s."},
		{&admission.OverloadError{Limit: stats.RejectedByRequests, Held: 7, Max: 8, Asked: 2}, 503, "7 sequences are in flight, this request needs 2 more, and 8 are allowed"},
		{&admission.OverloadError{Limit: stats.RejectedByTokens, Held: 9, Max: 8}, 503, "9 prompt tokens wait, and at 8 no more"},
		{&admission.NeverError{Asked: 9, Max: 8}, 400, "asks for 9 sequences"},
		{errNoLogprobs, 500, "could not finish request cmpl-1"},
		{errAborted, 503, "cmpl-1 was aborted"},
		{fmt.Errorf("/etc/secret: no such file"), 500, "Internal error while serving request cmpl-1."},
	} {
		got := toAPIError(tc.err, "cmpl-1")
		if got.Status != tc.status || !strings.Contains(got.Message, tc.want) || strings.Contains(got.Message, "secret") {
			t.Errorf("toAPIError(%v) = %d %q, want %d %q", tc.err, got.Status, got.Message, tc.status, tc.want)
		}
	}
}
