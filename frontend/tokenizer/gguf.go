package tokenizer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// GGUF is a vocabulary as the metadata of a GGUF file hold it, under the keys
// tokenizer.ggml.*. A pointer is nil where the file has no such key.
type GGUF struct {
	Architecture string // general.architecture; "phi3" matters

	Model   string    // model: the kind of vocabulary
	Pre     string    // pre: the name of the pre-tokenizer; "" is none named
	Tokens  []string  // tokens, by id
	Scores  []float32 // scores, by id; nil if the kind has none
	Types   []int32   // token_type, by id; nil: all are normal
	Merges  []string  // merges, "left right", the first with rank 0
	Charmap []byte    // precompiled_charsmap

	BOS, EOS, UNK *int32 // bos_token_id, eos_token_id, unknown_token_id

	AddBOS, AddEOS         *bool // add_bos_token, add_eos_token
	AddSpacePrefix         *bool // add_space_prefix
	RemoveExtraWhitespaces *bool // remove_extra_whitespaces
}

// LoadGGUF builds the tokenizer of a GGUF file: the one that the model's own
// tokenizer.json or tokenizer.model describes, as far as the metadata say.
// Defaults of what they leave out, and the names of pre-tokenizers, are
// llama.cpp's.
//
// The kinds gpt2 (byte-level BPE), llama (BPE of SentencePiece) and t5 (Unigram
// of SentencePiece) are served; others, and pre-tokenizers of gpt2 that are not
// in the table of ggufpre.go, are refused by name.
//
// Errors are as of Load.
func LoadGGUF(g *GGUF) (*Tokenizer, error) {
	p, err := g.parts()
	if err != nil {
		return nil, inFile("GGUF vocabulary", err)
	}
	return p.withConfig("GGUF vocabulary", new(config))
}

func (g *GGUF) parts() (*parts, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	var p *parts
	var addBOS, addEOS bool // if the file does not say
	var err error
	switch g.Model {
	case "gpt2":
		p, addBOS, err = g.byteLevel()
	case "llama":
		p, err = g.sentencePiece(false)
		addBOS = true
	case "t5":
		p, err = g.sentencePiece(true)
		addEOS = true
	default:
		return nil, fmt.Errorf("%w: tokenizer.ggml.model %q (served: gpt2, llama, t5)", ErrUnsupported, g.Model)
	}
	if err != nil {
		return nil, err
	}
	p.bos, p.eos = g.idOr(g.BOS, 1), g.idOr(g.EOS, 2)
	if p.template.before, err = added("add_bos_token", "bos_token_id", g.AddBOS, addBOS, p.bos); err != nil {
		return nil, err
	}
	p.template.after, err = added("add_eos_token", "eos_token_id", g.AddEOS, addEOS, p.eos)
	return p, err
}

// idOr returns a named id; in a vocabulary of the kind llama that does not name
// it, the one that SentencePiece gives it by default.
func (g *GGUF) idOr(named *int32, usual int32) int32 {
	switch {
	case named != nil:
		return *named
	case g.Model == "llama" && int(usual) < len(g.Tokens):
		return usual
	}
	return noToken
}

// added returns what a template adds at one end.
func added(addKey, idKey string, add *bool, byDefault bool, id int32) ([]int32, error) {
	switch {
	case add != nil && *add && id == noToken:
		return nil, fmt.Errorf("tokenizer.ggml.%s is true, but there is no %s", addKey, idKey)
	case add != nil && !*add, add == nil && !byDefault, id == noToken:
		return nil, nil
	}
	return []int32{id}, nil
}

// check compares the lengths of the lists, and named ids with them.
func (g *GGUF) check() error {
	n := len(g.Tokens)
	switch {
	case n == 0:
		return errors.New("tokenizer.ggml.tokens is empty")
	case n > maxTokenID+1:
		return fmt.Errorf("tokenizer.ggml.tokens has %d tokens, more than %d", n, maxTokenID+1)
	case g.Types != nil && len(g.Types) != n:
		return fmt.Errorf("tokenizer.ggml.token_type has %d entries for %d tokens", len(g.Types), n)
	case g.Scores != nil && len(g.Scores) != n:
		return fmt.Errorf("tokenizer.ggml.scores has %d entries for %d tokens", len(g.Scores), n)
	}
	for _, named := range []struct {
		key string
		id  *int32
	}{
		{"bos_token_id", g.BOS}, {"eos_token_id", g.EOS}, {"unknown_token_id", g.UNK},
	} {
		if named.id != nil && (*named.id < 0 || int(*named.id) >= n) {
			return fmt.Errorf("tokenizer.ggml.%s is %d, outside 0 to %d", named.key, *named.id, n-1)
		}
	}
	return nil
}

// kindOf returns the kind of a token, such as tokenNormal.
func (g *GGUF) kindOf(id int) int {
	if g.Types == nil {
		return tokenNormal
	}
	return int(g.Types[id])
}

// isPadding reports whether a token only fills the list up to the rows of the
// embedding: converters write the id in its name.
func (g *GGUF) isPadding(id int) bool {
	return g.kindOf(id) == tokenUnused && g.Tokens[id] == fmt.Sprintf("[PAD%d]", id)
}

// byteLevel builds the tokenizer of the kind gpt2.
func (g *GGUF) byteLevel() (p *parts, addBOS bool, err error) {
	pre, err := ggufPreOf(g.Pre)
	if err != nil {
		return nil, false, err
	}
	p = &parts{vocab: newVocab(true)}
	if p.stages, err = pre.stages(); err != nil {
		return nil, false, err
	}
	if pre.nfc {
		p.normalizer = canonicalForm{compose: true}
	}
	for id, token := range g.Tokens {
		switch kind := g.kindOf(id); {
		case g.isPadding(id):
		case kind == tokenControl, kind == tokenUserDefined, kind == tokenUnknown:
			p.added = append(p.added, &addedToken{id: int32(id), content: token, special: kind != tokenUserDefined})
		default:
			if err := p.vocab.add([]byte(token), int64(id)); err != nil {
				return nil, false, err
			}
		}
	}
	// Bytes without a token are dropped: the unknown token that the file may
	// name is not the model's, which has none in files of this kind.
	m := &bpe{vocab: p.vocab, unk: noToken, ignoreMerges: pre.ignoreMerges}
	m.byteIDs, _ = p.vocab.byteTokens()
	merges := make([]merge, len(g.Merges))
	for i, s := range g.Merges {
		if merges[i], err = p.vocab.parseMerge(s, uint32(i)); err != nil {
			return nil, false, at(fmt.Sprintf("tokenizer.ggml.merges[%d]", i), err)
		}
	}
	m.setMerges(merges)
	p.model = m
	return p, pre.addBOS, nil
}

// parseMerge reads a merge as it stands in one string.
func (v *vocab) parseMerge(s string, rank uint32) (merge, error) {
	left, right, found := strings.Cut(s, " ")
	if !found || strings.Contains(right, " ") {
		return merge{}, fmt.Errorf("%q is not two tokens", s)
	}
	m, err := v.mergeOf([]byte(left), []byte(right), []byte(left+right))
	m.rank = rank
	return m, err
}

// sentencePiece builds the tokenizer of the kinds llama and t5.
func (g *GGUF) sentencePiece(isUnigram bool) (*parts, error) {
	if g.Scores == nil {
		return nil, fmt.Errorf("no tokenizer.ggml.scores, which the kind %s needs", g.Model)
	}
	s := &sentencePiece{
		isUnigram: isUnigram, escapeWhitespaces: true, rawSymbols: true, prefix: prependAlways,
		removeExtraWhitespaces: isUnigram && g.RemoveExtraWhitespaces != nil && *g.RemoveExtraWhitespaces,
	}
	if isUnigram {
		s.charsmap = g.Charmap
	}
	if g.AddSpacePrefix != nil && !*g.AddSpacePrefix {
		s.prefix = prependNever
	}
	if g.UNK != nil {
		s.unk = *g.UNK
	}
	for id, token := range g.Tokens {
		kind := g.kindOf(id)
		if g.isPadding(id) {
			token = ""
		}
		s.byteFallback = s.byteFallback || kind == tokenByte
		s.pieces = append(s.pieces, piecesEntry{token, g.Scores[id], kind})
	}
	p, err := s.parts()
	if err != nil {
		return nil, err
	}
	if g.Architecture == "phi3" {
		stripAfterSpecial(p.added)
	}
	return p, nil
}

// stripAfterSpecial lets special tokens take the white space after them, as
// those of Phi-3 do; GGUF files do not say so. Source: llama.cpp,
// llama-vocab.cpp.
func stripAfterSpecial(tokens []*addedToken) {
	for _, a := range tokens {
		a.rstrip = a.special && !slices.Contains([]string{"<unk>", "<s>", "<|endoftext|>"}, a.content)
	}
}
