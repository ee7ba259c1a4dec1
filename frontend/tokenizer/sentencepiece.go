package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// LoadSentencePiece reads a tokenizer from tokenizer.model, a model of
// SentencePiece, and, if not nil, tokenizer_config.json. It is for models that
// come without tokenizer.json.
//
// Between added tokens, text encodes as SentencePiece has it, but for the dummy
// prefix, which, as in transformers, only the beginning of the whole text gets
// unless "legacy" is true in tokenizer_config.json. Control symbols are found in
// the text and special. What surrounds a text is up to add_bos_token and
// add_eos_token, both false if the configuration does not say; T5 has its EOS
// always. All of this as in transformers 5.
//
// Errors are as of Load.
func LoadSentencePiece(model, tokenizerConfig []byte) (*Tokenizer, error) {
	const file = "tokenizer.model"
	s, err := readSentencePiece(model)
	if err != nil {
		return nil, inFile(file, err)
	}
	c, err := readConfig(tokenizerConfig)
	if err != nil {
		return nil, err
	}
	s.prefix = prependFirst
	if c.Legacy {
		s.prefix = prependAlways
	}
	if !s.addDummyPrefix || c.AddPrefixSpace != nil && !*c.AddPrefixSpace {
		s.prefix = prependNever
	}
	p, err := s.parts()
	if err != nil {
		return nil, inFile(file, err)
	}
	p.bos, p.eos = s.bos, s.eos
	t, err := p.withConfig(file, c)
	if err != nil {
		return nil, err
	}
	isT5 := strings.HasPrefix(c.Class, "T5")
	if bos, ok := t.BOS(); ok && c.AddBOS && !isT5 {
		t.template.before = []int32{bos}
	}
	if eos, ok := t.EOS(); ok && (c.AddEOS || isT5) {
		t.template.after = []int32{eos}
	}
	return t, nil
}

// sentencePiece is a vocabulary of SentencePiece.
type sentencePiece struct {
	isUnigram    bool // else BPE
	pieces       []piecesEntry
	unk          int32
	bos, eos     int32 // noToken if there is none
	byteFallback bool

	addDummyPrefix         bool
	removeExtraWhitespaces bool
	escapeWhitespaces      bool
	charsmap               []byte // nil: none

	prefix prependScheme // which texts get the dummy prefix
	// rawSymbols says that user-defined symbols are found in the text as it
	// comes, not in normalized text.
	rawSymbols bool
}

// piecesEntry is a token: its spelling, score and kind, such as tokenNormal.
type piecesEntry struct {
	piece string
	score float32
	kind  int
}

// maxPiece bounds pieces in bytes: merges come from all ways to cut one in two.
// The longest of published models have about 100.
const maxPiece = 1 << 10

// Kinds of tokens. Source: sentencepiece_model.proto, SentencePiece.Type;
// GGUF files have the same.
const (
	tokenNormal      = 1
	tokenUnknown     = 2
	tokenControl     = 3
	tokenUserDefined = 4
	tokenUnused      = 5
	tokenByte        = 6
)

// readSentencePiece reads a ModelProto. Source: sentencepiece_model.proto.
func readSentencePiece(data []byte) (*sentencePiece, error) {
	s := &sentencePiece{unk: 0, addDummyPrefix: true, removeExtraWhitespaces: true, escapeWhitespaces: true}
	modelType, unk, bos, eos := 1, 0, 1, 2
	suffix := false
	err := fields(data, func(f protoField) error {
		switch f.number {
		case 1: // pieces
			if err := f.want(protoBytes); err != nil {
				return err
			}
			if len(s.pieces) > maxTokenID {
				return fmt.Errorf("more than %d pieces", maxTokenID+1)
			}
			piece := piecesEntry{kind: tokenNormal}
			err := fields(f.bytes, piece.set)
			s.pieces = append(s.pieces, piece)
			return at(fmt.Sprintf("pieces[%d]", len(s.pieces)-1), err)
		case 2: // trainer_spec
			if err := f.want(protoBytes); err != nil {
				return err
			}
			return at("trainer_spec", fields(f.bytes, func(f protoField) error {
				switch f.number {
				case 3:
					return f.setInt(&modelType)
				case 24:
					return f.setBool(&suffix)
				case 35:
					return f.setBool(&s.byteFallback)
				case 40:
					return f.setInt(&unk)
				case 41:
					return f.setInt(&bos)
				case 42:
					return f.setInt(&eos)
				}
				return nil
			}))
		case 3: // normalizer_spec
			if err := f.want(protoBytes); err != nil {
				return err
			}
			return at("normalizer_spec", fields(f.bytes, s.setNormalizer))
		}
		return nil // about training, or decoding
	})
	if err != nil {
		return nil, err
	}
	switch {
	case modelType != 1 && modelType != 2:
		return nil, fmt.Errorf("%w: model_type %d (served: 1, UNIGRAM, and 2, BPE)", ErrUnsupported, modelType)
	case suffix:
		return nil, fmt.Errorf("%w: treat_whitespace_as_suffix", ErrUnsupported)
	case len(s.pieces) == 0:
		return nil, errors.New("no pieces: this is not a SentencePiece model")
	case unk < 0 || unk >= len(s.pieces):
		return nil, fmt.Errorf("unk_id %d is outside the vocabulary, 0 to %d", unk, len(s.pieces)-1)
	}
	s.isUnigram, s.unk = modelType == 1, int32(unk)
	s.bos, s.eos = s.named(bos), s.named(eos)
	return s, nil
}

// named returns an id that may be none.
func (s *sentencePiece) named(id int) int32 {
	if id < 0 || id >= len(s.pieces) || s.pieces[id].kind != tokenControl {
		return noToken
	}
	return int32(id)
}

// set sets a field of a SentencePiece message.
func (p *piecesEntry) set(f protoField) error {
	switch f.number {
	case 1:
		return f.setString(&p.piece)
	case 2:
		return f.setFloat(&p.score)
	case 3:
		return f.setInt(&p.kind)
	}
	return nil
}

// setNormalizer sets a field of the NormalizerSpec.
func (s *sentencePiece) setNormalizer(f protoField) error {
	switch f.number {
	case 2:
		if len(f.bytes) > 0 {
			s.charsmap = f.bytes
		}
		return f.want(protoBytes)
	case 3:
		return f.setBool(&s.addDummyPrefix)
	case 4:
		return f.setBool(&s.removeExtraWhitespaces)
	case 5:
		return f.setBool(&s.escapeWhitespaces)
	}
	return nil
}

// parts builds the tokenizer, but for what surrounds a text.
func (s *sentencePiece) parts() (*parts, error) {
	v := newVocab(false)
	p := &parts{vocab: v, decoder: s.decoder(), bos: noToken, eos: noToken}
	var symbols []string // user-defined, found in normalized text
	for id, piece := range s.pieces {
		if piece.piece == "" {
			continue
		}
		if len(piece.piece) > maxPiece {
			return nil, fmt.Errorf("piece %d has %d bytes, more than %d", id, len(piece.piece), maxPiece)
		}
		if !utf8.ValidString(piece.piece) {
			return nil, fmt.Errorf("piece %d, %q, is not UTF-8", id, piece.piece)
		}
		if math.IsNaN(float64(piece.score)) || math.IsInf(float64(piece.score), 0) {
			return nil, fmt.Errorf("piece %d, %q, has the score %v", id, piece.piece, piece.score)
		}
		if err := v.add([]byte(piece.piece), int64(id)); err != nil {
			return nil, err
		}
		switch piece.kind {
		case tokenControl, tokenUnknown:
			p.added = append(p.added, &addedToken{id: int32(id), content: piece.piece, special: true})
		case tokenUserDefined:
			if s.isUnigram && !s.rawSymbols {
				continue // found for its score
			}
			a := &addedToken{id: int32(id), content: piece.piece}
			if !s.rawSymbols {
				a.normalized, a.pattern = true, piece.piece
				symbols = append(symbols, piece.piece)
			}
			p.added = append(p.added, a)
		}
	}
	var err error
	if p.normalizer, err = s.normalizer(symbols); err != nil {
		return nil, err
	}
	if s.prefix != prependNever {
		p.prefix = dummyPrefix{" ", s.prefix}
		if s.escapeWhitespaces {
			p.prefix.text = escapedSpace
		}
	}
	if s.isUnigram {
		p.model, err = s.unigram(v)
	} else {
		p.model, err = s.bpe(v)
	}
	return p, err
}

// decoder is what transformers' converters give such a tokenizer.
func (s *sentencePiece) decoder() *textDecoder {
	d := &textDecoder{before: []tokenDecoder{replaceDecoder{escapedSpace, " "}}, byteFallback: s.byteFallback}
	if s.prefix != prependNever {
		d.lead = leadingStrip{' ', 1}
	}
	return d
}

// bpe builds the model of scored merges: two tokens merge if what they are
// together is a token, that with the highest score first.
func (s *sentencePiece) bpe(v *vocab) (*bpe, error) {
	m := &bpe{vocab: v, unk: s.unk, fuseUnk: true, byteFallback: s.byteFallback}
	var missing int
	if m.byteIDs, missing = v.byteTokens(); s.byteFallback && missing >= 0 {
		return nil, fmt.Errorf("byte_fallback, but no piece <0x%02X>", missing)
	}
	normal := func(spelling string) (int32, bool) {
		id, ok := v.find(spelling)
		return id, ok && s.pieces[id].kind == tokenNormal
	}
	var merges []merge
	for id, piece := range s.pieces {
		if piece.kind != tokenNormal {
			continue
		}
		for i := range piece.piece {
			left, ok := normal(piece.piece[:i])
			if !ok { // among others, where i is 0
				continue
			}
			if right, ok := normal(piece.piece[i:]); ok {
				merges = append(merges, merge{left: left, right: right, merged: int32(id)})
			}
		}
	}
	slices.SortStableFunc(merges, func(a, b merge) int {
		switch x, y := s.pieces[a.merged].score, s.pieces[b.merged].score; {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	for i := range merges[min(1, len(merges)):] { // equal scores have equal ranks
		merges[i+1].rank = merges[i].rank
		if s.pieces[merges[i+1].merged].score != s.pieces[merges[i].merged].score {
			merges[i+1].rank++
		}
	}
	m.setMerges(merges)
	return m, nil
}

// unigram builds the Unigram model.
func (s *sentencePiece) unigram(v *vocab) (*unigram, error) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, piece := range s.pieces {
		if piece.kind == tokenNormal {
			low, high = min(low, float64(piece.score)), max(high, float64(piece.score))
		}
	}
	if low > high {
		return nil, errors.New("no normal pieces")
	}
	var ids []int32
	scores := make([]float64, len(s.pieces))
	for id, piece := range s.pieces {
		switch {
		case piece.piece == "":
			continue
		case piece.kind == tokenNormal:
			scores[id] = float64(piece.score)
		case piece.kind == tokenUserDefined: // so that it is chosen
			scores[id] = float64(len(piece.piece))*high - 0.1
		default:
			continue
		}
		ids = append(ids, int32(id))
	}
	m := newUnigram(v, ids, scores, s.unk, low-unkPenalty, s.byteFallback)
	m.allowCuts()
	return m, nil
}

// normalizer returns what SentencePiece does to a text, but for the prefix.
func (s *sentencePiece) normalizer(symbols []string) (normalizer, error) {
	slices.Sort(symbols)
	n := &pieceNormalizer{symbols: newPrefixTable(symbols), trim: s.removeExtraWhitespaces, space: " "}
	if s.escapeWhitespaces {
		n.space = escapedSpace
	}
	if s.charsmap != nil {
		var err error
		if n.charsmap, err = newCharsMap(s.charsmap); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// pieceNormalizer is SentencePiece's normalizer without the dummy prefix.
// Source: SentencePiece normalizer.cc, Normalizer::Normalize.
type pieceNormalizer struct {
	symbols  prefixTable // user-defined symbols, which stay as they are
	charsmap *charsMap   // nil: characters stay as they are
	trim     bool        // spaces at the ends go, and several become one
	space    string      // what a space becomes
}

func (n *pieceNormalizer) normalize(s string) (string, error) {
	if n.charsmap == nil && !n.trim {
		return strings.ReplaceAll(s, " ", n.space), nil
	}
	out := make([]byte, 0, len(s)+len(s)/4)
	afterSpace := n.trim
	for s != "" {
		part, length := n.prefix(s)
		s = s[length:]
		if afterSpace {
			part = strings.TrimLeft(part, " ")
		}
		out = append(out, strings.ReplaceAll(part, " ", n.space)...)
		if part != "" {
			afterSpace = n.trim && strings.HasSuffix(part, " ")
		}
	}
	for n.trim && strings.HasSuffix(view(out), n.space) {
		out = out[:len(out)-len(n.space)]
	}
	return string(out), nil
}

// prefix returns what the beginning of s becomes, and its length.
func (n *pieceNormalizer) prefix(s string) (part string, length int) {
	for walk := n.symbols.walk(s); ; {
		if _, ok := walk.next(); !ok {
			break
		}
		length = walk.depth
	}
	if length > 0 {
		return s[:length], length
	}
	if n.charsmap != nil {
		if replacement, length := n.charsmap.match(s, true); length > 0 {
			return string(replacement), length
		}
	}
	length = runeLen(s)
	return s[:length], length
}
