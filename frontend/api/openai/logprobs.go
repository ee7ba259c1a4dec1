package openai

import (
	"strconv"

	"github.com/go-json-experiment/json"

	"govllm/frontend/outputs"
	"govllm/protocol"
)

// completionLogprobs are the log probabilities of POST /v1/completions, one
// entry per token. Source: CompletionLogProbs.
type completionLogprobs struct {
	TextOffset    []int         `json:"text_offset"` // code points of the choice's text
	TokenLogprobs []*float64    `json:"token_logprobs"`
	Tokens        []string      `json:"tokens"`
	TopLogprobs   []topLogprobs `json:"top_logprobs"`
}

// topLogprobs is an object from a token's name to its log probability, the
// token itself first; nil, null, where none is known.
type topLogprobs []namedLogprob

type namedLogprob struct {
	name    string
	logprob float64
}

// MarshalJSON keeps the order; of two tokens with one name the first, which is
// the likelier or the chosen one, stands.
func (t topLogprobs) MarshalJSON() ([]byte, error) {
	if t == nil {
		return []byte("null"), nil
	}
	seen := make(map[string]bool, len(t))
	b := []byte{'{'}
	for _, e := range t {
		if seen[e.name] {
			continue
		}
		seen[e.name] = true
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(appendQuoted(b, e.name), ':')
		b = appendFloat(b, e.logprob)
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

// generateLogprobs are those of POST /inference/v1/generate, which name tokens
// by their IDs. Source: GenerateLogProbs.
type generateLogprobs struct {
	Content []generateLogprob `json:"content"`
}

type generateLogprob struct {
	idLogprob
	TopLogprobs []idLogprob `json:"top_logprobs"`
}

type idLogprob struct {
	TokenID int32   `json:"token_id"`
	Logprob float64 `json:"logprob"`
	Rank    *int64  `json:"rank"`
}

// logprobsKind is an endpoint's form of log probabilities.
type logprobsKind int

const (
	completionForm logprobsKind = iota
	chatForm
	idForm
)

// wording is how a request wants its log probabilities told.
type wording struct {
	kind  logprobsKind
	num   int  // alternatives; -1: all
	asIDs bool // tokens are named token_id:N
}

// wording takes a request's; num alternatives are told, all if it named them.
func (s *Server) wording(p *sampling, kind logprobsKind, num int) wording {
	if len(p.LogprobTokenIDs) > 0 {
		num = -1
	}
	asIDs := s.cfg.TokensAsTokenIDs
	if p.TokensAsIDs != nil {
		asIDs = *p.TokensAsIDs
	}
	return wording{kind: kind, num: num, asIDs: asIDs}
}

// logprobsForm words a choice's log probabilities for its endpoint.
type logprobsForm struct {
	wording
	words  *outputs.Logprobs
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
	switch l.kind {
	case chatForm:
		return l.chat(entries)
	case idForm:
		return l.ids(entries)
	}
	c := &completionLogprobs{TextOffset: []int{}, TokenLogprobs: []*float64{}, Tokens: []string{}, TopLogprobs: []topLogprobs{}}
	for _, e := range entries {
		c.TextOffset = append(c.TextOffset, l.offset)
		l.offset += e.Chars
		c.Tokens = append(c.Tokens, l.name(e))
		if e.Top == nil { // a prompt's first token
			c.TokenLogprobs, c.TopLogprobs = append(c.TokenLogprobs, nil), append(c.TopLogprobs, nil)
			continue
		}
		top := make(topLogprobs, 0, len(e.Top)) // the token and num others
		for i, alternative := range e.Top {
			if l.num == -1 || i <= l.num {
				top = append(top, namedLogprob{l.name(alternative), alternative.Logprob})
			}
		}
		logprob := e.Logprob
		c.TokenLogprobs, c.TopLogprobs = append(c.TokenLogprobs, &logprob), append(c.TopLogprobs, top)
	}
	return c
}

func (l *logprobsForm) chat(entries []outputs.TokenLogprob) *chatLogprobs {
	c := &chatLogprobs{Content: []chatLogprob{}}
	for _, e := range entries {
		out := chatLogprob{tokenLogprob: l.token(e), TopLogprobs: []tokenLogprob{}}
		for i, alternative := range e.Top {
			if l.num == -1 || i < l.num {
				out.TopLogprobs = append(out.TopLogprobs, l.token(alternative))
			}
		}
		c.Content = append(c.Content, out)
	}
	return c
}

func (l *logprobsForm) token(e outputs.TokenLogprob) tokenLogprob {
	t := tokenLogprob{Token: l.name(e), Logprob: e.Logprob, Bytes: make([]int, len(e.Bytes))}
	for i, b := range e.Bytes {
		t.Bytes[i] = int(b)
	}
	return t
}

func (l *logprobsForm) ids(entries []outputs.TokenLogprob) *generateLogprobs {
	c := &generateLogprobs{Content: []generateLogprob{}}
	for _, e := range entries {
		out := generateLogprob{idLogprob: newIDLogprob(e), TopLogprobs: []idLogprob{}}
		for i, alternative := range e.Top {
			if l.num == -1 || i < l.num {
				out.TopLogprobs = append(out.TopLogprobs, newIDLogprob(alternative))
			}
		}
		c.Content = append(c.Content, out)
	}
	return c
}

func newIDLogprob(e outputs.TokenLogprob) idLogprob {
	out := idLogprob{TokenID: e.ID, Logprob: e.Logprob}
	if e.Rank > 0 {
		out.Rank = &e.Rank
	}
	return out
}

// name is how a token is told.
func (l *logprobsForm) name(e outputs.TokenLogprob) string {
	if l.asIDs {
		return "token_id:" + strconv.Itoa(int(e.ID))
	}
	return e.Text
}

// appendJSON writes a value of our own types, or null.
func appendJSON(b []byte, value any) []byte {
	if value == nil {
		return append(b, "null"...)
	}
	raw, err := json.Marshal(value, json.FormatNilSliceAsNull(true))
	if err != nil { // our own types
		panic(err)
	}
	return append(b, raw...)
}

func appendFloat(b []byte, x float64) []byte { return strconv.AppendFloat(b, x, 'g', -1, 64) }

// promptLogprobs are the log probabilities of a prompt's tokens. The first has
// none.
type promptLogprobs struct {
	prompt  *tokens
	words   *outputs.Logprobs
	entries []outputs.TokenLogprob
}

func (s *Server) newPromptLogprobs(prompt *tokens) *promptLogprobs {
	p := &promptLogprobs{prompt: prompt, words: outputs.NewLogprobs(outputs.LogprobsConfig{
		TokenBytes: s.cfg.Tokenizer.TokenBytes, Detokenizer: s.cfg.Tokenizer.NewDetokenizer(nil, false),
	})}
	p.append(p.words.First(prompt.ids[0]))
	return p
}

// append adds the next token's entry. The text does not show the template's.
func (p *promptLogprobs) append(e outputs.TokenLogprob) {
	if i := len(p.entries); i < p.prompt.before || i >= len(p.prompt.ids)-p.prompt.after {
		e.Chars = 0
	}
	p.entries = append(p.entries, e)
}

// add takes the rows of the tokens after the first.
func (p *promptLogprobs) add(rows *protocol.LogprobsLists) {
	for i := range rows.NumTokens {
		p.append(p.words.Next(rows, i))
	}
}

func (p *promptLogprobs) complete() bool { return len(p.entries) == len(p.prompt.ids) }

// value is what an answer holds: null if none were asked for.
func (p *promptLogprobs) value() promptLogprobsJSON {
	if p == nil {
		return nil
	}
	return p.entries
}

// promptLogprobsJSON is vLLM's form: a list of null, for the first token, and
// objects from token IDs to Logprob, the prompt's own token first.
type promptLogprobsJSON []outputs.TokenLogprob

func (p promptLogprobsJSON) MarshalJSON() ([]byte, error) {
	if p == nil {
		return []byte("null"), nil
	}
	b := []byte{'['}
	for i, e := range p {
		if i > 0 {
			b = append(b, ',')
		}
		if e.Top == nil {
			b = append(b, "null"...)
			continue
		}
		b = append(b, '{')
		for j, t := range e.Top {
			if j > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(append(b, '"'), int64(t.ID), 10)
			b = appendFloat(append(b, `":{"logprob":`...), t.Logprob)
			b = strconv.AppendInt(append(b, `,"rank":`...), t.Rank, 10)
			b = append(appendQuoted(append(b, `,"decoded_token":`...), t.Text), '}')
		}
		b = append(b, '}')
	}
	return append(b, ']'), nil
}

// checkLogprobs refuses more than the server allows. name is the field's.
func (s *Server) checkLogprobs(name string, num *int) *APIError {
	switch {
	case num == nil:
		return nil
	case *num < -1:
		return invalid(name, "`%s` must be a positive value or -1.", name)
	case s.cfg.MaxLogprobs >= 0 && (*num == -1 || *num > s.cfg.MaxLogprobs):
		return invalid(name, "Requested %s of %d, which is more than the %d allowed; --max-logprobs of both processes raises that.", name, *num, s.cfg.MaxLogprobs)
	case *num > s.cfg.VocabSize:
		return invalid(name, "Requested %s of %d, but the vocabulary has %d tokens.", name, *num, s.cfg.VocabSize)
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
func (c *chatLogprobsFields) resolve(p *sampling, errs *complaints) {
	top := deref(c.top, 0)
	switch {
	case c.enabled:
		p.Logprobs = &top
	case top != 0:
		errs.refuse("top_logprobs", "when using `top_logprobs`, `logprobs` must be set to true.")
	case len(p.LogprobTokenIDs) > 0:
		errs.refuse("logprob_token_ids", "when using `logprob_token_ids`, `logprobs` must be set to true.")
	}
}
