package openai

import (
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"govllm/protocol"
)

// writeTimeout is how long a client may leave an event unread, once what the
// kernel buffers is full, before it counts as gone.
const writeTimeout = time.Minute

// sse writes server-sent events. Headers go out with the first one.
type sse struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	started bool
}

func newSSE(w http.ResponseWriter) *sse {
	return &sse{w: w, rc: http.NewResponseController(w)}
}

// send writes one or more whole events and flushes them.
func (s *sse) send(events []byte) error {
	if len(events) == 0 {
		return nil
	}
	if !s.started {
		s.started = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // proxies must not gather events
		s.w.WriteHeader(http.StatusOK)
	}
	// Recorders of tests know no deadlines; connections do.
	_ = s.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := s.w.Write(events); err != nil {
		return errClientGone
	}
	if err := s.rc.Flush(); err != nil {
		return errClientGone
	}
	return nil
}

func (s *sse) done() { _ = s.send([]byte("data: [DONE]\n\n")) }

// fail ends a stream that has begun: an error event, then [DONE].
func (s *sse) fail(f ErrorFormat, e *APIError) {
	body, err := json.Marshal(f.body(e))
	if err != nil { // our own type
		panic(err)
	}
	if s.send(append(append([]byte("data: "), body...), "\n\n"...)) == nil {
		s.done()
	}
}

// chunker builds the events of one stream by hand: a constant head, then the
// choice. Its buffer is reused, so a chunk is valid until the next call.
//
// Members and their order are those that vLLM's pydantic models give with
// exclude_unset: what was set shows, null included.
type chunker struct {
	chat       bool
	role       string // of a chat
	head       []byte // `data: {"id":…,"object":…,"created":…,"model":…,"choices":[`
	continuous bool   // usage on every chunk
	greeted    map[int]bool
	buf        []byte
}

func newChunker(chat bool, role, id, model string, created int64, continuous bool) *chunker {
	object := "text_completion"
	if chat {
		object = "chat.completion.chunk"
	}
	b := append([]byte(nil), `data: {"id":`...)
	b = appendQuoted(b, id)
	b = append(b, `,"object":"`+object+`","created":`...)
	b = strconv.AppendInt(b, created, 10)
	b = append(b, `,"model":`...)
	b = appendQuoted(b, model)
	b = append(b, `,"choices":[`...)
	return &chunker{chat: chat, role: role, head: b, continuous: continuous, greeted: map[int]bool{}}
}

// delta is the event of one update. An update without tokens or an end, which
// foreign engines may send, gives no event.
func (c *chunker) delta(q *sequence, d delta) []byte {
	c.buf = c.buf[:0]
	if len(d.TokenIDs) == 0 && d.Text == "" && d.Finish == protocol.FinishNone {
		return nil
	}
	if c.chat {
		if !c.greeted[q.index] {
			c.greeted[q.index] = true
			c.greet(q)
		}
		c.chatDelta(q, d)
	} else {
		c.textDelta(q, d)
	}
	c.end(q, q.out.NumTokens(), false)
	return c.buf
}

func (c *chunker) textDelta(q *sequence, d delta) {
	c.begin(q.index)
	c.buf = append(c.buf, `"text":`...)
	c.buf = appendQuoted(c.buf, d.Text)
	c.buf = append(c.buf, `,"logprobs":`...)
	c.buf = appendLogprobs(c.buf, q.logprobs.form(d.logprobs))
	c.buf = append(c.buf, `,"finish_reason":`...)
	c.buf = appendFinish(c.buf, d.Finish)
	c.buf = append(c.buf, `,"stop_reason":`...)
	c.buf = appendStopReason(c.buf, d.Reason)
	c.buf = append(c.buf, `,"prompt_token_ids":null,"token_ids":null}]`...)
}

// greet is a chat's first event: the role, before any text.
func (c *chunker) greet(q *sequence) {
	c.begin(q.index)
	c.buf = append(c.buf, `"delta":{"role":`...)
	c.buf = appendQuoted(c.buf, c.role)
	c.buf = append(c.buf, `,"content":""},"logprobs":null,"finish_reason":null}]`...)
	c.end(q, 0, true)
}

func (c *chunker) chatDelta(q *sequence, d delta) {
	c.begin(q.index)
	c.buf = append(c.buf, `"delta":{"content":`...)
	c.buf = appendQuoted(c.buf, d.Text)
	c.buf = append(c.buf, `},"logprobs":`...)
	c.buf = appendLogprobs(c.buf, q.logprobs.form(d.logprobs))
	c.buf = append(c.buf, `,"finish_reason":`...)
	c.buf = appendFinish(c.buf, d.Finish)
	if d.Finish != protocol.FinishNone {
		c.buf = append(c.buf, `,"stop_reason":`...)
		c.buf = appendStopReason(c.buf, d.Reason)
	}
	c.buf = append(c.buf, `,"token_ids":null}]`...)
}

func (c *chunker) begin(index int) {
	c.buf = append(c.buf, c.head...)
	c.buf = append(c.buf, `{"index":`...)
	c.buf = strconv.AppendInt(c.buf, int64(index), 10)
	c.buf = append(c.buf, ',')
}

func (c *chunker) end(q *sequence, numTokens int, first bool) {
	if c.continuous {
		c.appendUsage(newUsage(q.promptLen, numTokens), true)
	}
	if first {
		c.buf = append(c.buf, `,"prompt_token_ids":null,"prompt_text":null`...)
	}
	c.buf = append(c.buf, "}\n\n"...)
}

// usage is the last event of a stream that asked for it: no choices.
func (c *chunker) usage(u usage) []byte {
	c.buf = append(c.buf[:0], c.head...)
	c.buf = append(c.buf, ']')
	c.appendUsage(u, false)
	c.buf = append(c.buf, "}\n\n"...)
	return c.buf
}

// appendUsage writes the usage member; a chat's continuous form names the
// details that the model sets, though null.
func (c *chunker) appendUsage(u usage, continuous bool) {
	c.buf = append(c.buf, `,"usage":{"prompt_tokens":`...)
	c.buf = strconv.AppendInt(c.buf, int64(u.PromptTokens), 10)
	c.buf = append(c.buf, `,"total_tokens":`...)
	c.buf = strconv.AppendInt(c.buf, int64(u.TotalTokens), 10)
	c.buf = append(c.buf, `,"completion_tokens":`...)
	c.buf = strconv.AppendInt(c.buf, int64(u.CompletionTokens), 10)
	if c.chat && continuous {
		c.buf = append(c.buf, `,"completion_tokens_details":null`...)
	}
	c.buf = append(c.buf, '}')
}

func appendFinish(b []byte, r protocol.FinishReason) []byte {
	if r == protocol.FinishNone {
		return append(b, "null"...)
	}
	return appendQuoted(b, r.String())
}

func appendStopReason(b []byte, r protocol.StopReason) []byte {
	switch r.Kind {
	case protocol.StopReasonToken:
		return strconv.AppendInt(b, int64(r.TokenID), 10)
	case protocol.StopReasonText:
		return appendQuoted(b, r.Text)
	}
	return append(b, "null"...)
}

// appendQuoted writes a JSON text. Detokenized text is valid UTF-8, but a
// request ID may come from anywhere.
func appendQuoted(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // on invalid UTF-8 it writes U+FFFD and says so
	return b
}
