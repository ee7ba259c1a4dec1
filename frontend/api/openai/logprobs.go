package openai

import (
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"govllm/frontend/outputs"
	"govllm/protocol"
)

// completionLogprobs are the log probabilities of POST /v1/completions, one
// entry per token. Source: CompletionLogProbs.
type completionLogprobs struct {
	TextOffset    []int         `json:"text_offset"` // code points of the choice's text
	TokenLogprobs []float64     `json:"token_logprobs"`
	Tokens        []string      `json:"tokens"`
	TopLogprobs   []topLogprobs `json:"top_logprobs"`
}

// topLogprobs is an object from a token's text to its log probability, the
// token itself first.
type topLogprobs []outputs.TokenLogprob

// MarshalJSON keeps the order; of two tokens with one text the first, which is
// the likelier or the chosen one, stands.
func (t topLogprobs) MarshalJSON() ([]byte, error) {
	seen := make(map[string]bool, len(t))
	b := []byte{'{'}
	for _, e := range t {
		if seen[e.Text] {
			continue
		}
		seen[e.Text] = true
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(appendQuoted(b, e.Text), ':')
		b = strconv.AppendFloat(b, e.Logprob, 'g', -1, 64)
	}
	return append(b, '}'), nil
}

// chatLogprobs are those of a chat. Source: ChatCompletionLogProbs.
type chatLogprobs struct {
	Content []chatLogprob `json:"content"`
}

type chatLogprob struct {
	tokenLogprob
	TopLogprobs []tokenLogprob `json:"top_logprobs"`
}

type tokenLogprob struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

// logprobsForm words a choice's log probabilities for its endpoint.
type logprobsForm struct {
	words  *outputs.Logprobs
	chat   bool
	num    int // alternatives asked for; -1: all
	offset int // code points of text told so far
}

// entries words the rows of an update's tokens.
func (l *logprobsForm) entries(ids []int32, rows *protocol.LogprobsLists) []outputs.TokenLogprob {
	entries := make([]outputs.TokenLogprob, len(ids))
	for i := range ids {
		entries[i] = l.words.Next(rows, i)
	}
	return entries
}

// form gives entries as the endpoint's JSON has them; nil where none were asked
// for.
func (l *logprobsForm) form(entries []outputs.TokenLogprob) any {
	if l == nil {
		return nil
	}
	if l.chat {
		return l.chatForm(entries)
	}
	c := &completionLogprobs{TextOffset: []int{}, TokenLogprobs: []float64{}, Tokens: []string{}, TopLogprobs: []topLogprobs{}}
	for _, e := range entries {
		c.TextOffset = append(c.TextOffset, l.offset)
		l.offset += utf8.RuneCountInString(e.Text)
		c.TokenLogprobs = append(c.TokenLogprobs, e.Logprob)
		c.Tokens = append(c.Tokens, e.Text)
		c.TopLogprobs = append(c.TopLogprobs, e.Top) // the token and num others
	}
	return c
}

func (l *logprobsForm) chatForm(entries []outputs.TokenLogprob) *chatLogprobs {
	c := &chatLogprobs{Content: []chatLogprob{}}
	for _, e := range entries {
		out := chatLogprob{tokenLogprob: newTokenLogprob(e), TopLogprobs: []tokenLogprob{}}
		for i, alternative := range e.Top {
			if l.num == -1 || i < l.num {
				out.TopLogprobs = append(out.TopLogprobs, newTokenLogprob(alternative))
			}
		}
		c.Content = append(c.Content, out)
	}
	return c
}

func newTokenLogprob(e outputs.TokenLogprob) tokenLogprob {
	t := tokenLogprob{Token: e.Text, Logprob: e.Logprob, Bytes: make([]int, len(e.Bytes))}
	for i, b := range e.Bytes {
		t.Bytes[i] = int(b)
	}
	return t
}

// appendLogprobs writes an update's log probabilities, or null.
func appendLogprobs(b []byte, value any) []byte {
	if value == nil {
		return append(b, "null"...)
	}
	raw, err := json.Marshal(value)
	if err != nil { // our own types
		panic(err)
	}
	return append(b, raw...)
}

// checkLogprobs refuses more than the server allows. name is the field's.
func (s *Server) checkLogprobs(name string, num *int) *APIError {
	switch {
	case num == nil:
		return nil
	case *num < -1:
		return invalid(name, "`%s` must be a positive value or -1.", name)
	case s.cfg.MaxLogprobs >= 0 && (*num == -1 || *num > s.cfg.MaxLogprobs):
		return invalid(name, "Requested %d logprobs, which is more than the %d allowed; --max-logprobs of both processes raises that.", *num, s.cfg.MaxLogprobs)
	case *num > s.cfg.VocabSize:
		return invalid(name, "Requested %d logprobs, but the vocabulary has %d tokens.", *num, s.cfg.VocabSize)
	}
	return nil
}

// chatLogprobsFields are a chat's two fields: logprobs says whether, top_logprobs
// how many alternatives.
type chatLogprobsFields struct {
	enabled bool
	top     *int
}

func (c *chatLogprobsFields) fields() []field {
	return []field{boolField("logprobs", &c.enabled), intField("top_logprobs", &c.top)}
}

// resolve sets p's Logprobs.
func (c *chatLogprobsFields) resolve(p *sampling) *APIError {
	top := deref(c.top, 0)
	if !c.enabled {
		if top != 0 {
			return invalid("top_logprobs", "when using `top_logprobs`, `logprobs` must be set to true.")
		}
		return nil
	}
	p.Logprobs = &top
	return nil
}
