package openai

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"govllm/frontend/outputs"
	"govllm/protocol"
)

// sse writes server-sent events. Headers go out with the first one.
type sse struct {
	w  http.ResponseWriter
	rc *http.ResponseController

	mu      sync.Mutex // between the handler and keepAlive
	started bool
	idle    *time.Timer   // since the last event; nil: nobody waits for it
	every   time.Duration // of idle
}

func newSSE(w http.ResponseWriter) *sse {
	return &sse{w: w, rc: http.NewResponseController(w)}
}

// keepAlive sends a comment whenever nothing else was sent for that long, so
// that no proxy takes a request that waits for a dead one. 0: never. stop must
// be called before the handler looks at what was sent or returns, and may be
// called again.
//
// Source: vllm/entrypoints/serve/utils/sse_keep_alive.py.
func (s *sse) keepAlive(every time.Duration) (stop func()) {
	if every <= 0 {
		return func() {}
	}
	s.idle, s.every = time.NewTimer(every), every
	done := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		defer s.idle.Stop()
		for {
			select {
			case <-s.idle.C:
				_ = s.send([]byte(": keep-alive\n\n")) // the handler notices a client that has gone
			case <-done:
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		waiting.Wait()
	})
}

// send writes one or more whole events and flushes them.
func (s *sse) send(events []byte) error {
	if len(events) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle != nil {
		s.idle.Reset(s.every)
	}
	if !s.started {
		s.started = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // proxies must not gather events
		s.w.WriteHeader(http.StatusOK)
	}
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

// chunkForm is what the events of one stream have in common.
type chunkForm struct {
	chat       bool
	id, model  string
	created    int64
	continuous bool // usage on every chunk
	tokenIDs   bool // return_token_ids

	fingerprint string // system_fingerprint; "": none
	usageLast   bool   // the last event tells the usage, and the fingerprint, not a choice's last

	// prefix puts what is echoed before a choice's first text; nil: nothing is.
	prefix func(q *sequence, text string, logprobs []outputs.TokenLogprob) (string, []outputs.TokenLogprob)

	// Of a chat.
	role       string
	choices    int
	echo       string  // the message that is continued
	promptText *string // return_prompt_text
}

// chunkForm takes what the request says of every endpoint's chunks.
func (s *Server) chunkForm(p *sampling, id string, arrival time.Time) chunkForm {
	final, continuous := s.usage(p)
	return chunkForm{id: id, model: s.cfg.ServedModelNames[0], created: arrival.Unix(), continuous: continuous,
		tokenIDs: p.ReturnTokenIDs, fingerprint: s.cfg.SystemFingerprint, usageLast: final}
}

// chunker builds the events of one stream by hand: a constant head, then the
// choice. Its buffer is reused, so a chunk is valid until the next call.
//
// Members and their order are those that vLLM's pydantic models give with
// exclude_unset: what was set shows, null included.
type chunker struct {
	chunkForm
	head    []byte // `data: {"id":…,"object":…,"created":…,"model":…,"choices":[`
	greeted bool
	begun   map[int]bool // choices that have told something
	buf     []byte
}

func newChunker(form chunkForm) *chunker {
	object := "text_completion"
	if form.chat {
		object = "chat.completion.chunk"
	}
	b := append([]byte(nil), `data: {"id":`...)
	b = appendQuoted(b, form.id)
	b = append(b, `,"object":"`+object+`","created":`...)
	b = strconv.AppendInt(b, form.created, 10)
	b = append(b, `,"model":`...)
	b = appendQuoted(b, form.model)
	b = append(b, `,"choices":[`...)
	return &chunker{chunkForm: form, head: b, begun: map[int]bool{}}
}

// delta is the event of one update. An update without tokens or an end, which
// foreign engines may send, gives no event.
func (c *chunker) delta(q *sequence, d delta) []byte {
	c.buf = c.buf[:0]
	if d.empty() {
		return nil
	}
	if c.chat {
		c.greet(q)
		c.chatDelta(q, d)
		c.end(q, q.out.NumTokens(), d.Finish)
		return c.buf
	}
	first := !c.begun[q.index]
	c.begun[q.index] = true
	if first && c.prefix != nil {
		d.Text, d.logprobs = c.prefix(q, d.Text, d.logprobs)
	}
	c.textDelta(q, d, first)
	c.end(q, q.out.NumTokens(), d.Finish)
	return c.buf
}

func (c *chunker) textDelta(q *sequence, d delta, first bool) {
	c.begin(q.index)
	c.buf = append(c.buf, `"text":`...)
	c.buf = appendQuoted(c.buf, d.Text)
	c.buf = append(c.buf, `,"logprobs":`...)
	c.buf = appendJSON(c.buf, q.logprobs.form(d.logprobs))
	c.buf = append(c.buf, `,"finish_reason":`...)
	c.buf = appendFinish(c.buf, d.Finish)
	c.buf = append(c.buf, `,"stop_reason":`...)
	c.buf = appendStopReason(c.buf, d.Reason)
	c.buf = append(c.buf, `,"prompt_token_ids":`...)
	c.buf = appendIDs(c.buf, q.prompt.ids, first && (c.tokenIDs || c.prefix != nil))
	c.buf = append(c.buf, `,"token_ids":`...)
	c.buf = appendIDs(c.buf, d.TokenIDs, c.tokenIDs)
	c.buf = append(c.buf, `}]`...)
}

// greet is a chat's first event of each choice: the role, before any text; then
// the message that is continued, if it is echoed.
func (c *chunker) greet(q *sequence) {
	if c.greeted {
		return
	}
	c.greeted = true
	for i := range c.choices {
		c.begin(i)
		c.buf = append(c.buf, `"delta":{"role":`...)
		c.buf = appendQuoted(c.buf, c.role)
		c.buf = append(c.buf, `,"content":""},"logprobs":null,"finish_reason":null}]`...)
		c.appendContinuous(q, 0)
		c.buf = append(c.buf, `,"prompt_token_ids":`...)
		c.buf = appendIDs(c.buf, q.prompt.ids, c.tokenIDs)
		c.buf = append(c.buf, `,"prompt_text":`...)
		if c.promptText == nil {
			c.buf = append(c.buf, "null"...)
		} else {
			c.buf = appendQuoted(c.buf, *c.promptText)
		}
		c.buf = append(c.buf, "}\n\n"...)
	}
	if c.echo == "" {
		return
	}
	for i := range c.choices {
		c.begin(i)
		c.buf = append(c.buf, `"delta":{"content":`...)
		c.buf = appendQuoted(c.buf, c.echo)
		c.buf = append(c.buf, `},"logprobs":null,"finish_reason":null}]`...)
		c.end(q, 0, protocol.FinishNone)
	}
}

func (c *chunker) chatDelta(q *sequence, d delta) {
	c.begin(q.index)
	c.buf = append(c.buf, `"delta":{"content":`...)
	c.buf = appendQuoted(c.buf, d.Text)
	c.buf = append(c.buf, `},"logprobs":`...)
	c.buf = appendJSON(c.buf, q.logprobs.form(d.logprobs))
	c.buf = append(c.buf, `,"finish_reason":`...)
	c.buf = appendFinish(c.buf, d.Finish)
	if d.Finish != protocol.FinishNone {
		c.buf = append(c.buf, `,"stop_reason":`...)
		c.buf = appendStopReason(c.buf, d.Reason)
	}
	c.buf = append(c.buf, `,"token_ids":`...)
	c.buf = appendIDs(c.buf, d.TokenIDs, c.tokenIDs)
	c.buf = append(c.buf, `}]`...)
}

func (c *chunker) begin(index int) {
	c.buf = append(c.buf, c.head...)
	c.buf = append(c.buf, `{"index":`...)
	c.buf = strconv.AppendInt(c.buf, int64(index), 10)
	c.buf = append(c.buf, ',')
}

func (c *chunker) end(q *sequence, numTokens int, finish protocol.FinishReason) {
	c.appendContinuous(q, numTokens)
	if finish != protocol.FinishNone && !c.usageLast {
		c.appendFingerprint()
	}
	c.buf = append(c.buf, "}\n\n"...)
}

// usage is the last event of a stream that asked for it: no choices.
func (c *chunker) usage(u usage) []byte {
	c.buf = append(c.buf[:0], c.head...)
	c.buf = append(c.buf, `],"usage":`...)
	c.buf = u.appendTo(c.buf)
	c.appendFingerprint()
	c.buf = append(c.buf, "}\n\n"...)
	return c.buf
}

func (c *chunker) appendFingerprint() {
	if c.fingerprint != "" {
		c.buf = appendQuoted(append(c.buf, `,"system_fingerprint":`...), c.fingerprint)
	}
}

// appendContinuous writes the usage so far, if it is asked for; a chat's names
// the details that its model sets, though null.
func (c *chunker) appendContinuous(q *sequence, numTokens int) {
	if !c.continuous {
		return
	}
	c.buf = append(c.buf, `,"usage":`...)
	c.buf = newUsage(len(q.prompt.ids), numTokens).appendTo(c.buf)
	if c.chat {
		c.buf = append(c.buf[:len(c.buf)-1], `,"completion_tokens_details":null}`...)
	}
}

// appendTo writes the counts and the details, if there are any.
func (u usage) appendTo(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"prompt_tokens":`...), int64(u.PromptTokens), 10)
	b = strconv.AppendInt(append(b, `,"total_tokens":`...), int64(u.TotalTokens), 10)
	b = strconv.AppendInt(append(b, `,"completion_tokens":`...), int64(u.CompletionTokens), 10)
	if d := u.PromptTokensDetails; d != nil {
		b = strconv.AppendInt(append(b, `,"prompt_tokens_details":{"cached_tokens":`...), int64(d.CachedTokens), 10)
		if d.CreatedCacheTokens != nil {
			b = strconv.AppendInt(append(b, `,"created_cache_tokens":`...), int64(*d.CreatedCacheTokens), 10)
		}
		b = append(b, '}')
	}
	return append(b, '}')
}

// appendIDs writes token IDs, or null if they are not told.
func appendIDs(b []byte, ids []int32, told bool) []byte {
	if !told {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	return append(b, ']')
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
