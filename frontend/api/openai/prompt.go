package openai

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// prompt is a text, or the IDs that it would have given.
type prompt struct {
	text   string
	ids    []int32
	isText bool
}

// tokens is a prompt as the engine gets it.
type tokens struct {
	ids  []int32
	text string // what echo shows; only if asked for
	// before and after are how many of the ids the tokenizer's template put
	// around the text: text does not show them.
	before, after int
}

// tokenizing says how a prompt becomes tokens.
type tokenizing struct {
	addSpecial bool
	truncate   *int   // tokens to keep; -1: what fits
	side       string // "left": keep the last tokens, as if not given
	wantText   bool
}

func (p *sampling) tokenizing(addSpecial, wantText bool) tokenizing {
	return tokenizing{addSpecial: addSpecial, truncate: p.TruncatePrompt, side: p.TruncationSide, wantText: wantText}
}

// maxPrompts is vLLM's bound on a list of prompts, VLLM_MAX_COMPLETION_PROMPTS.
var maxPrompts = envInt("VLLM_MAX_COMPLETION_PROMPTS", 1024)

const promptSchema = `{"type":["string","array"],"items":{"anyOf":[{"type":"string"},{"type":"integer","minimum":0},{"type":"array","items":{"type":"integer","minimum":0}}]}}`

// promptField takes a text, a list of texts, a list of token IDs or a list of
// such lists.
func promptField(dest *[]prompt) field {
	return field{"prompt", promptSchema, func(raw jsontext.Value) (err *APIError) {
		*dest = nil
		switch raw.Kind() {
		case 'n':
			return nil
		case '"':
			*dest = []prompt{{text: unquote(raw), isText: true}}
			return nil
		case '[':
			*dest, err = promptList(elements(raw))
			return err
		}
		return wrongPrompt(raw)
	}}
}

func wrongPrompt(raw jsontext.Value) *APIError {
	return wrongType("prompt", "a text, a list of texts, a list of token IDs or a list of such lists", raw)
}

func promptList(values []jsontext.Value) ([]prompt, *APIError) {
	if len(values) > 0 && values[0].Kind() == '0' {
		ids, err := parseTokenIDs("prompt", values)
		return []prompt{{ids: ids}}, err
	}
	if len(values) > maxPrompts {
		return nil, invalid("prompt", "prompt holds %d prompts, more than the %d allowed; VLLM_MAX_COMPLETION_PROMPTS of the server raises that.", len(values), maxPrompts)
	}
	prompts := make([]prompt, 0, len(values))
	for _, v := range values {
		switch {
		case v.Kind() != values[0].Kind():
			return nil, invalid("prompt", "`prompt` must hold texts or lists of token IDs, not both.")
		case v.Kind() == '"':
			prompts = append(prompts, prompt{text: unquote(v), isText: true})
		case v.Kind() == '[':
			ids, err := parseTokenIDs("prompt", elements(v))
			if err != nil {
				return nil, err
			}
			prompts = append(prompts, prompt{ids: ids})
		default:
			return nil, wrongPrompt(v)
		}
	}
	return prompts, nil
}

// tokenize gives a prompt's tokens, all of them in the vocabulary.
func (s *Server) tokenizePrompt(p prompt, how tokenizing) (tokens, error) {
	t := tokens{ids: p.ids, text: p.text}
	if p.isText {
		var err error
		if t.ids, err = s.cfg.Tokenizer.Encode(p.text, how.addSpecial); err != nil {
			return tokens{}, invalid("prompt", "The prompt cannot be tokenized: %v", err)
		}
		if how.addSpecial && (how.truncate != nil || how.wantText) {
			t.before, t.after = s.templateTokens()
		}
	}
	shortened := s.truncate(&t, how)
	if len(t.ids) == 0 {
		return tokens{}, invalid("prompt", "The prompt must not be empty: it gives no tokens.")
	}
	for _, id := range t.ids {
		if int(id) >= s.cfg.VocabSize {
			return tokens{}, invalid("prompt", "Token ID %d is out of vocabulary: the highest is %d.", id, s.cfg.VocabSize-1)
		}
	}
	if how.wantText && (!p.isText || shortened) {
		t.text = s.cfg.Tokenizer.Decode(t.ids[t.before:len(t.ids)-t.after], false)
	}
	return t, nil
}

// truncate shortens a prompt as asked. A side named by the request cuts there,
// whatever stands there; else the text loses its beginning and the template's
// tokens stay. -1 leaves room for one token of output.
// Source: vllm/renderers/params.py, and the tokenizer's own truncation.
func (s *Server) truncate(t *tokens, how tokenizing) (shortened bool) {
	if how.truncate == nil {
		return false
	}
	keep := *how.truncate
	if keep == -1 {
		keep = s.cfg.MaxModelLen - 1
	}
	n := len(t.ids)
	switch {
	case keep >= n:
		return false
	case how.side == "" && keep > t.before+t.after:
		text := t.ids[t.before : n-t.after]
		text = text[len(text)-(keep-t.before-t.after):]
		t.ids = slices.Concat(t.ids[:t.before], text, t.ids[n-t.after:])
	case how.side == "right":
		t.ids, t.before, t.after = t.ids[:keep], min(t.before, keep), max(0, keep-(n-t.after))
	default:
		t.ids, t.before, t.after = t.ids[n-keep:], max(0, t.before-(n-keep)), min(t.after, keep)
	}
	return true
}

// templateTokens counts what the tokenizer's template puts before and after a
// text.
func (s *Server) templateTokens() (before, after int) {
	const text = "a"
	plain, err := s.cfg.Tokenizer.Encode(text, false)
	if err != nil {
		return 0, 0
	}
	whole, err := s.cfg.Tokenizer.Encode(text, true)
	if err != nil {
		return 0, 0
	}
	for i := range len(whole) - len(plain) + 1 {
		if slices.Equal(whole[i:i+len(plain)], plain) {
			return i, len(whole) - len(plain) - i
		}
	}
	return 0, 0
}
