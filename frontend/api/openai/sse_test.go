package openai

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"govllm/frontend/outputs"
	"govllm/protocol"
)

func itoa(n int) string { return strconv.Itoa(n) }

// counter is a detokenizer that gives one letter per token.
type counter struct{}

func (counter) Append(ids ...int32) string { return strings.Repeat("a", len(ids)) }
func (counter) Flush() string              { return "" }

// The events are, byte for byte, what vLLM 0.32's pydantic models give for the
// same values with exclude_unset.
func TestChunks(t *testing.T) {
	stop := protocol.StopReason{Kind: protocol.StopReasonText, Text: "\n"}
	for _, tc := range []struct {
		name       string
		chat       bool
		continuous bool
		want       []string
	}{
		{"completion", false, false, []string{
			`{"id":"i","object":"text_completion","created":7,"model":"m","choices":[{"index":0,"text":"é\"<\u2028","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}`,
			`{"id":"i","object":"text_completion","created":7,"model":"m","choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"stop","stop_reason":"\n","prompt_token_ids":null,"token_ids":null}]}`,
			`{"id":"i","object":"text_completion","created":7,"model":"m","choices":[],"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2}}`,
		}},
		{"chat", true, false, []string{
			`{"id":"i","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null,"prompt_text":null}`,
			`{"id":"i","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,"delta":{"content":"é\"<\u2028"},"logprobs":null,"finish_reason":null,"token_ids":null}]}`,
			`{"id":"i","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"stop","stop_reason":"\n","token_ids":null}]}`,
			`{"id":"i","object":"chat.completion.chunk","created":7,"model":"m","choices":[],"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2}}`,
		}},
		{"continuous usage", false, true, []string{
			`{"id":"i","object":"text_completion","created":7,"model":"m","choices":[{"index":0,"text":"é\"<\u2028","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}],"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2}}`,
			`{"id":"i","object":"text_completion","created":7,"model":"m","choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"stop","stop_reason":"\n","prompt_token_ids":null,"token_ids":null}],"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2}}`,
			`{"id":"i","object":"text_completion","created":7,"model":"m","choices":[],"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2}}`,
		}},
	} {
		q := &sequence{prompt: &tokens{ids: []int32{7, 8, 9}}, pays: true, out: outputs.New(outputs.Config{Detokenizer: counter{}})}
		q.out.Append([]int32{1, 2}, protocol.FinishNone, protocol.StopReason{})
		c := newChunker(chunkForm{chat: tc.chat, choices: 1, role: "assistant", id: "i", model: "m", created: 7, continuous: tc.continuous})
		var got strings.Builder
		got.Write(c.delta(q, delta{})) // nothing to tell: no event
		got.Write(c.delta(q, delta{Delta: outputs.Delta{Text: "é\"<\u2028", TokenIDs: []int32{1}}}))
		got.Write(c.delta(q, delta{Delta: outputs.Delta{TokenIDs: []int32{2}, Finish: protocol.FinishStop, Reason: stop}}))
		got.Write(c.usage(new(Server).totals([]*sequence{q})))
		var want strings.Builder
		for _, event := range tc.want {
			want.WriteString("data: " + strings.ReplaceAll(event, `\u2028`, "\u2028") + "\n\n")
		}
		if got.String() != want.String() {
			t.Errorf("%s:\ngot  %s\nwant %s", tc.name, got.String(), want.String())
		}
	}
}

func TestSSE(t *testing.T) {
	w := httptest.NewRecorder()
	s := newSSE(w)
	if err := s.send(nil); err != nil || s.started {
		t.Errorf("nothing to send starts the stream: %v", err)
	}
	if err := s.send([]byte("data: 1\n\n")); err != nil {
		t.Fatal(err)
	}
	s.fail(FormatVLLM, &APIError{Status: http.StatusServiceUnavailable, Type: "ServiceUnavailableError", Message: "gone"})
	want := "data: 1\n\n" + `data: {"error":{"message":"gone","type":"ServiceUnavailableError","param":null,"code":503}}` + "\n\ndata: [DONE]\n\n"
	if got := w.Body.String(); got != want || !w.Flushed {
		t.Errorf("stream = %q, want %q", got, want)
	}
	if got := w.Header().Get("Content-Type"); got != "text/event-stream; charset=utf-8" {
		t.Errorf("content type = %q", got)
	}
}

func BenchmarkChunk(b *testing.B) {
	q := &sequence{prompt: &tokens{}, out: outputs.New(outputs.Config{Detokenizer: counter{}})}
	c := newChunker(chunkForm{chat: true, choices: 1, role: "assistant", id: "chatcmpl-0123456789abcdef", model: "builtin", created: 1796042914})
	d := delta{Delta: outputs.Delta{Text: " the king", TokenIDs: []int32{1}}}
	b.ReportAllocs()
	for b.Loop() {
		c.delta(q, d)
	}
}

// A stream that waits gets a comment per interval; one that does not gets none.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		s := newSSE(w)
		stop := s.keepAlive(10 * time.Second)
		time.Sleep(25 * time.Second)
		for range 3 {
			_ = s.send([]byte("data: x\n\n"))
			time.Sleep(9 * time.Second)
		}
		stop()
		time.Sleep(time.Minute)
		_ = s.send([]byte("data: y\n\n"))
		const want = ": keep-alive\n\n: keep-alive\n\ndata: x\n\ndata: x\n\ndata: x\n\ndata: y\n\n"
		if got := w.Body.String(); got != want || w.Header().Get("Content-Type") == "" {
			t.Errorf("the stream is %q, want %q", got, want)
		}
	})
}
