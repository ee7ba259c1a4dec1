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
	prefix     dummyPrefix   // of normalized text
	normalized *addedMatcher // added tokens to be found in normalized text
	pre        preTokenizer
	model      model
	vocab      *vocab
	template   template

	added     map[string]*addedToken // by content
	addedByID map[int32]*addedToken
	decoder   *textDecoder   // nil if the vocabulary is byte-level
	numBase   int            // ids of the model's own vocabulary are below it
	decoded   []span         // by id: what a token decodes to, in vocab.data
	byteOf    map[int32]byte // the tokens that decode to a byte of a character
	special   []bool         // by id: left out of decoded text if asked

	bos, eos int32 // noToken if the configuration names none
}

// model turns the words of a text into tokens, each on its own.
type model interface {
	appendWord(dst []int32, word string) []int32
}

// parts is a tokenizer as a file describes it.
type parts struct {
	vocab      *vocab
	model      model
	added      []*addedToken
	normalizer normalizer
	prefix     dummyPrefix
	stages     []stage
	template   template
	decoder    *textDecoder // nil if the vocabulary is byte-level
	bos, eos   int32        // noToken if the file names none
}

// dummyPrefix is a space before the first word of a text, for vocabularies in
// which words begin with theirs. The zero value adds nothing.
type dummyPrefix struct {
	text   string
	scheme prependScheme
}

// assemble makes a tokenizer of its parts.
func (p *parts) assemble() (*Tokenizer, error) {
	t := &Tokenizer{
		normalizer: p.normalizer, pre: newPreTokenizer(p.stages), model: p.model, vocab: p.vocab,
		prefix: p.prefix, template: p.template, decoder: p.decoder, bos: p.bos, eos: p.eos,
	}
	if err := t.enterAdded(p.added); err != nil {
		return nil, err
	}
	return t, t.checkTemplate()
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
	for first := true; ; first = false {
		before, token := scan.next()
		var err error
		if dst, err = t.appendSegment(dst, before, first); err != nil {
			return dst, err
		}
		if token == nil {
			return dst, nil
		}
		dst = append(dst, token.id)
	}
}

// appendSegment appends the tokens of a text between added tokens: normalized,
// with the added tokens found then, and the words of the rest. first says that
// the whole text begins with it.
func (t *Tokenizer) appendSegment(dst []int32, text string, first bool) ([]int32, error) {
	if text == "" {
		return dst, nil
	}
	if t.normalizer != nil {
		var err error
		if text, err = t.normalizer.normalize(text); err != nil {
			return dst, err
		}
	}
	if text != "" && (t.prefix.scheme == prependAlways || t.prefix.scheme == prependFirst && first) {
		text = t.prefix.text + text
	}
	scan := addedScan{matcher: t.normalized, s: text}
	for ; ; first = false {
		before, token := scan.next()
		var err error
		if dst, err = t.pre.appendWords(dst, before, first, t.model); err != nil {
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

// ErrTooLarge reports a tokenizer with tokens for which a model has no row in
// its embedding.
var ErrTooLarge = errors.New("the tokenizer does not fit the model")

// Fit makes sure that a model whose embedding has rows for ids below rows can
// read what text becomes. Added tokens may be beyond: some models' files add
// tokens that only their larger siblings have. Those are returned; a text with
// one of them is not for this model.
func (t *Tokenizer) Fit(rows int) (beyond []string, err error) {
	if t.numBase > rows {
		last := int32(t.numBase - 1)
		return nil, fmt.Errorf("%w: its token %q has id %d, but the model's embedding has rows only for ids up to %d",
			ErrTooLarge, t.vocab.spelling(last), last, rows-1)
	}
	for _, id := range slices.Concat(t.template.before, t.template.after) {
		if int(id) >= rows {
			return nil, fmt.Errorf("%w: %q, which it adds to every text, has id %d, but the model's embedding has rows only for ids up to %d",
				ErrTooLarge, t.addedByID[id].content, id, rows-1)
		}
	}
	for id := int32(rows); int(id) < t.VocabSize(); id++ {
		if a, ok := t.addedByID[id]; ok {
			beyond = append(beyond, a.content)
		}
	}
	return beyond, nil
}

// TokenToID returns the id of a token by its spelling.
func (t *Tokenizer) TokenToID(token string) (int32, bool) {
	if a, ok := t.added[token]; ok {
		return a.id, true
	}
	return t.vocab.findSpelling([]byte(token))
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
	return t.vocab.spelling(id), true
}

// TokenBytes returns the bytes that a token stands for in decoded text, nil if
// id is none. They may be a part of a character. The caller must not modify
// them.
func (t *Tokenizer) TokenBytes(id int32) []byte {
	if !t.exists(id) {
		return nil
	}
	s := t.decoded[id]
	return t.vocab.data[s.start:s.end:s.end]
}

// exists reports whether id is a token.
func (t *Tokenizer) exists(id int32) bool {
	return id >= 0 && int(id) < len(t.decoded) && t.vocab.kinds[id] != absent
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
	t.added = make(map[string]*addedToken, len(tokens))
	t.addedByID = make(map[int32]*addedToken, len(tokens))
	t.numBase = len(t.vocab.kinds)
	for _, a := range tokens {
		t.added[a.content] = a
		t.addedByID[a.id] = a
		t.vocab.grow(int(a.id) + 1)
	}
	t.special = make([]bool, len(t.vocab.kinds))
	var raw, normalized []*addedToken
	for _, a := range tokens {
		if err := t.findPattern(a); err != nil {
			return err
		}
		if a.normalized {
			normalized = append(normalized, a)
		} else {
			raw = append(raw, a)
		}
		// A normalized token decodes to its normalized content, and counts as
		// special if that is the content of a special token: so the reference.
		named, ok := t.added[a.pattern]
		t.special[a.id] = ok && named.special
	}
	t.enterDecoded(tokens)
	var err error
	if t.raw, err = newAddedMatcher(raw); err != nil {
		return err
	}
	t.normalized, err = newAddedMatcher(normalized)
	return err
}

// findPattern sets what an added token is found by and decodes to.
func (t *Tokenizer) findPattern(a *addedToken) (err error) {
	if a.pattern != "" {
		return nil
	}
	a.pattern = a.content
	if a.normalized && t.normalizer != nil {
		a.pattern, err = t.normalizer.normalize(a.content)
	}
	return err
}
