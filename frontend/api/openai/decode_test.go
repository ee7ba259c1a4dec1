package openai

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

func TestDecodeObject(t *testing.T) {
	for _, tc := range []struct {
		body string
		want string // how the request looks, or the refusal
	}{
		{`{"prompt":"a","max_tokens":7}`, "1 prompts, max_tokens 7, unknown []"},
		{`{"prompt":"a","max_tokens":7.0}`, "1 prompts, max_tokens 7, unknown []"},
		{`{"prompt":"a","max_tokens":1,"max_tokens":2}`, "1 prompts, max_tokens 2, unknown []"},
		{`{"prompt":"a","max_tokens":null,"foo":{"a":[1]}}`, "1 prompts, max_tokens -1, unknown [foo]"},
		{`{"prompt":[[1,2],[3]]}`, "2 prompts, max_tokens -1, unknown []"},
		{` {"prompt" : "a" } `, "1 prompts, max_tokens -1, unknown []"},
		{``, "refused: The request body is not valid JSON: it ends too early."},
		{`{"prompt":`, "refused: The request body is not valid JSON"},
		{`"a"`, `refused: The request body must be a JSON object, not "a".`},
		{`{"prompt":"a"}{}`, "refused: The request body has something after the JSON object, at byte 15."},
		{`{"prompt":"\ud800"}`, "refused: The request body is not valid JSON"},
		{`{"max_tokens":true}`, "refused: `max_tokens` must be a whole number, got true."},
		{`{"max_tokens":"5"}`, "refused: `max_tokens` must be a whole number, got \"5\"."},
		{`{"max_tokens":[1],"temperature":"x"}`, "refused: 2 validation errors:\n  `max_tokens` must be a whole number, got a list.\n  `temperature` must be a number, got \"x\"."},
		{`{"prompt":{}}`, "refused: `prompt` must be a text, a list of texts, a list of token IDs or a list of such lists, got an object."},
		{`{"best_of":1,"logprobs":null}`, "0 prompts, max_tokens -1, unknown []"},
		{`{"best_of":3}`, "refused: `best_of` is not supported by this server: it is gone from the API; send one request per choice."},
		{`{"response_format":{ "type" : "text" }}`, "0 prompts, max_tokens -1, unknown []"},
	} {
		var c completionRequest
		unknown, err := decodeObject([]byte(tc.body), c.fields())
		got := describeRequest(&c, unknown)
		if err != nil {
			got = "refused: " + err.Error()
		}
		if !strings.HasPrefix(got, tc.want) {
			t.Errorf("decodeObject(%s) = %q, want %q", tc.body, got, tc.want)
		}
	}
}

func describeRequest(c *completionRequest, unknown []string) string {
	return strings.Join([]string{
		itoa(len(c.Prompts)) + " prompts", "max_tokens " + itoa(deref(c.MaxTokens, -1)), "unknown [" + strings.Join(unknown, " ") + "]",
	}, ", ")
}

// What a message repeats of the input is bounded, however large the input.
func TestErrorsAreBounded(t *testing.T) {
	var c completionRequest
	_, err := decodeObject([]byte(`{"max_tokens":"`+strings.Repeat("é", 5000)+`"}`), c.fields())
	if err == nil || len(err.Error()) > 2*maxErrorInput {
		t.Errorf("a long input gives a message of %d bytes", len(err.Error()))
	}
	var errs []*APIError
	for range 50 {
		errs = append(errs, invalid("a", "no"))
	}
	if got := joinErrors(errs).Message; strings.Count(got, "\n") != maxReportedErrors+1 || !strings.HasSuffix(got, "...and 40 more errors") {
		t.Errorf("50 faults give %q", got)
	}
}

func TestDecodeBody(t *testing.T) {
	for _, tc := range []struct {
		contentType string
		status      int
	}{
		{"application/json", 0}, {"Application/JSON; charset=utf-8", 0}, {"text/plain", 400}, {"", 400}, {"application/json;;", 400},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{}`))
		r.Header.Set("Content-Type", tc.contentType)
		_, err := decodeBody(r, nil)
		if status := statusOf(err); status != tc.status {
			t.Errorf("content type %q = %d %v, want %d", tc.contentType, status, err, tc.status)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/", http.MaxBytesReader(nil, io.NopCloser(endless{}), 1000))
	r.Header.Set("Content-Type", "application/json")
	if _, err := decodeBody(r, nil); statusOf(err) != http.StatusRequestEntityTooLarge {
		t.Errorf("an endless body gives %v, want 413", err)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

func statusOf(err error) int {
	if err == nil {
		return 0
	}
	return toAPIError(err, "").Status
}

func TestParseMessage(t *testing.T) {
	for _, tc := range []struct {
		message string
		role    string
		texts   []string
		refusal string
	}{
		{`{"role":"user","content":"a"}`, "user", []string{"a"}, ""},
		{`{"role":"user","content":[{"type":"text","text":"a"},{"text":"b"},"c"]}`, "user", []string{"a", "b", "c"}, ""},
		{`{"role":"assistant","content":null}`, "assistant", nil, ""},
		{`{"role":"assistant"}`, "assistant", nil, ""},
		{`{"role":"user","content":[{"type":"input_audio"}]}`, "", nil, "Content of type \"input_audio\" is not supported"},
		{`{"role":"user","content":[{"type":"text"}]}`, "", nil, "`messages.0.content.0.text` must be provided"},
		{`{"role":"user","content":5}`, "", nil, "`messages.0.content` must be a text"},
		{`{"content":"a"}`, "", nil, "`messages.0.role` must be provided"},
		{`{"role":7}`, "", nil, "`messages.0.role` must be a text"},
		{`"hi"`, "", nil, "`messages.0` must be an object"},
		{`{"role":"assistant","tool_calls":[{"type":"custom"}]}`, "", nil, "only tool calls of type 'function'"},
	} {
		m, err := parseMessage("messages.0", []byte(tc.message))
		if tc.refusal != "" {
			if err == nil || !strings.Contains(err.Message, tc.refusal) {
				t.Errorf("parseMessage(%s) = %v, want %q", tc.message, err, tc.refusal)
			}
			continue
		}
		if err != nil || m.role != tc.role || !slices.Equal(m.texts, tc.texts) {
			t.Errorf("parseMessage(%s) = %+v, %v, want %s %q", tc.message, m, err, tc.role, tc.texts)
		}
	}
}

// No body, however broken, makes the decoders panic, and what they accept is
// within what the endpoint's checks expect.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"prompt":"a"}`, `{"prompt":[[1],[2]],"stop":["a"]}`, `{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}`,
		`{"stream_options":{"include_usage":true}}`, `{"messages":[{"role":"assistant","tool_calls":[{"function":{"arguments":"{}"}}]}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var c completionRequest
		if _, err := decodeObject(body, c.fields()); err == nil {
			for _, p := range c.Prompts {
				for _, id := range p.ids {
					if id < 0 {
						t.Fatalf("%s gives token ID %d", body, id)
					}
				}
			}
		} else if toAPIError(err, "").Status >= 500 {
			t.Fatalf("%s gives %v", body, err)
		}
		var chat chatRequest
		if _, err := decodeObject(body, chat.fields()); err == nil {
			for _, m := range chat.Messages {
				m.value("string")
				m.value("openai")
			}
		}
	})
}
