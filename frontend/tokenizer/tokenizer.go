package tokenizer

import (
	"errors"
	"fmt"
	"slices"
)

// ErrInvalid reports a tokenizer file that contradicts itself or its format.
var ErrInvalid = errors.New("invalid")

// ErrUnsupported reports a tokenizer file that asks for what is not served.
var ErrUnsupported = errors.New("not supported")

// Tokenizer turns text into token ids and back. Immutable but for a cache
// without locks: safe for concurrent use.
type Tokenizer struct {
	raw        *addedMatcher // added tokens to be found in the text as it comes
	normalizer normalizer    // nil if the text stays as it is
	normalized *addedMatcher // added tokens to be found in normalized text
	pre        preTokenizer
	model      *bpe
	template   template

	added     map[string]*addedToken // by content
	addedByID map[int32]*addedToken
	decoded   []span // by id: what a token decodes to, in model.vocab.data
	special   []bool // by id: left out of decoded text if asked

	bos, eos int32 // noToken if the configuration names none
}

// template is what post-processing adds to a text of its own.
type template struct{ before, after []int32 }

// isEmpty reports whether the template adds nothing.
func (t template) isEmpty() bool { return len(t.before)+len(t.after) == 0 }

// checkTemplate makes sure that the template adds tokens.
func (t *Tokenizer) checkTemplate() error {
	for _, id := range slices.Concat(t.template.before, t.template.after) {
		if !t.exists(id) {
			return fmt.Errorf("post_processor adds the id %d, which is no token", id)
		}
	}
	return nil
}

// Encode returns the ids of text, with those that the model's template adds
// before and after it if addSpecialTokens. Special tokens written in the text
// are found either way.
//
// The text should be UTF-8. Other bytes are kept, each as a character that is
// neither letter, number nor space, and decode to U+FFFD.
//
// The only error is ErrSplitTimeout, from models with a split pattern that is
// not one of the common ones.
func (t *Tokenizer) Encode(text string, addSpecialTokens bool) ([]int32, error) {
	const bytesPerToken = 4 // of English text; a guess too low costs a copy
	return t.AppendEncode(make([]int32, 0, len(text)/bytesPerToken+8), text, addSpecialTokens)
}

// AppendEncode appends the ids of text to dst, as Encode returns them. After an
// error the ids appended are those of a part of the text.
func (t *Tokenizer) AppendEncode(dst []int32, text string, addSpecialTokens bool) ([]int32, error) {
	if addSpecialTokens {
		dst = append(dst, t.template.before...)
	}
	dst, err := t.appendText(dst, text)
	if err != nil {
		return dst, err
	}
	if addSpecialTokens {
		dst = append(dst, t.template.after...)
	}
	return dst, nil
}

// appendText appends the tokens of a text: those added, and the rest.
func (t *Tokenizer) appendText(dst []int32, text string) ([]int32, error) {
	scan := addedScan{matcher: t.raw, s: text}
	for {
		before, token := scan.next()
		var err error
		if dst, err = t.appendSegment(dst, before); err != nil {
			return dst, err
		}
		if token == nil {
			return dst, nil
		}
		dst = append(dst, token.id)
	}
}

// appendSegment appends the tokens of a text between added tokens: normalized,
// with the added tokens found then, and the words of the rest.
func (t *Tokenizer) appendSegment(dst []int32, text string) ([]int32, error) {
	if text == "" {
		return dst, nil
	}
	if t.normalizer != nil {
		var err error
		if text, err = t.normalizer.normalize(text); err != nil {
			return dst, err
		}
	}
	scan := addedScan{matcher: t.normalized, s: text}
	for {
		before, token := scan.next()
		var err error
		if dst, err = t.pre.appendWords(dst, before, t.model); err != nil {
			return dst, err
		}
		if token == nil {
			return dst, nil
		}
		dst = append(dst, token.id)
	}
}

// VocabSize is one more than the largest id, added tokens included; there may
// be ids below it that are no token.
func (t *Tokenizer) VocabSize() int { return len(t.decoded) }

// TokenToID returns the id of a token by its spelling.
func (t *Tokenizer) TokenToID(token string) (int32, bool) {
	if a, ok := t.added[token]; ok {
		return a.id, true
	}
	return t.model.vocab.findSpelling([]byte(token))
}

// IDToToken returns the token as the vocabulary spells it, in which "Ġ" stands
// for a space.
func (t *Tokenizer) IDToToken(id int32) (string, bool) {
	if !t.exists(id) {
		return "", false
	}
	if a, ok := t.addedByID[id]; ok {
		return a.content, true
	}
	return t.model.vocab.spelling(id), true
}

// TokenBytes returns the bytes that a token stands for in decoded text, nil if
// id is none. They may be a part of a character. The caller must not modify
// them.
func (t *Tokenizer) TokenBytes(id int32) []byte {
	if !t.exists(id) {
		return nil
	}
	s := t.decoded[id]
	return t.model.vocab.data[s.start:s.end:s.end]
}

// exists reports whether id is a token.
func (t *Tokenizer) exists(id int32) bool {
	return id >= 0 && int(id) < len(t.decoded) && t.model.vocab.kinds[id] != absent
}

// IsSpecial reports whether Decode leaves id out if skipSpecialTokens.
func (t *Tokenizer) IsSpecial(id int32) bool {
	return id >= 0 && int(id) < len(t.special) && t.special[id]
}

// BOS returns the token that tokenizer_config.json names as bos_token.
func (t *Tokenizer) BOS() (int32, bool) { return t.bos, t.bos != noToken }

// EOS returns the token that tokenizer_config.json names as eos_token.
func (t *Tokenizer) EOS() (int32, bool) { return t.eos, t.eos != noToken }

// enterAdded completes the tables once the vocabulary and the added tokens are
// known: ids to decoded bytes, and the matchers.
func (t *Tokenizer) enterAdded(tokens []*addedToken) error {
	v := t.model.vocab
	t.added = make(map[string]*addedToken, len(tokens))
	t.addedByID = make(map[int32]*addedToken, len(tokens))
	for _, a := range tokens {
		t.added[a.content] = a
		t.addedByID[a.id] = a
		v.grow(int(a.id) + 1)
	}
	t.decoded = v.spans
	t.special = make([]bool, len(v.spans))

	patterns := make(map[*addedToken]string, len(tokens))
	var raw, normalized []*addedToken
	for _, a := range tokens {
		pattern, err := t.patternOf(a)
		if err != nil {
			return err
		}
		patterns[a] = pattern
		if a.normalized {
			normalized = append(normalized, a)
		} else {
			raw = append(raw, a)
		}
		// A normalized token decodes to its normalized content, and counts as
		// special if that is the content of a special token: so the reference.
		named, ok := t.added[pattern]
		t.special[a.id] = ok && named.special
		t.setDecoded(a.id, pattern)
	}
	var err error
	find := func(a *addedToken) string { return patterns[a] }
	if t.raw, err = newAddedMatcher(raw, find); err != nil {
		return err
	}
	t.normalized, err = newAddedMatcher(normalized, find)
	return err
}

// patternOf returns what an added token is found by and decodes to.
func (t *Tokenizer) patternOf(a *addedToken) (string, error) {
	if !a.normalized || t.normalizer == nil {
		return a.content, nil
	}
	return t.normalizer.normalize(a.content)
}

// setDecoded makes id decode to what a spelling stands for.
func (t *Tokenizer) setDecoded(id int32, spelling string) {
	v := t.model.vocab
	start := len(v.data)
	var ok bool
	if v.data, ok = appendSpelled(v.data, []byte(spelling)); !ok {
		v.data = append(v.data, spelling...)
	}
	bytes := v.data[start:]
	switch {
	case v.kinds[id] == absent:
		v.kinds[id] = literal
	case string(bytes) == string(v.bytes(id)):
		v.data = v.data[:start]
		return
	default: // the model knows the token by other bytes than it decodes to
		t.decoded = slices.Clone(t.decoded)
	}
	t.decoded[id] = span{uint32(start), uint32(len(v.data))}
}
