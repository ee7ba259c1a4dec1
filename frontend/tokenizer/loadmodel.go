package tokenizer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// modelFile is the member model of tokenizer.json: what all types of models
// have, read before it is known to be complete.
type modelFile struct {
	kind    string
	members []string // all but type, in the order of the file

	vocab       *vocab
	hasVocab    bool
	scores      []float64 // by id, if the vocabulary is a list
	merges      []merge
	hasMerges   bool
	mergesValue jsontext.Value // if they come before the vocabulary

	unkToken      *string
	unkID         *int64
	fuseUnk       bool
	ignoreMerges  bool
	byteFallback  bool
	subwordPrefix *string // null is allowed in a BPE
	maxInputChars int
}

// modelMembers are the members that each type of model may have.
var modelMembers = map[string][]string{
	"BPE": {"vocab", "merges", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
		"fuse_unk", "byte_fallback", "ignore_merges"},
	"Unigram":   {"vocab", "unk_id", "byte_fallback", "alpha", "nbest_size"},
	"WordPiece": {"vocab", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word"},
}

// readModel reads the member model and builds the model.
func (l *loader) readModel(d *jsontext.Decoder) error {
	stages, err := buildStages(component{"pre_tokenizer", l.preTokenizer})
	if err != nil {
		return err
	}
	byteLevel, err := endsInByteLevel(stages)
	if err != nil {
		return err
	}
	l.stages = stages
	f := &modelFile{vocab: newVocab(byteLevel), maxInputChars: 100}
	if err := members(d, func(name string) error { return f.readMember(d, name) }); err != nil {
		return err
	}
	l.vocab = f.vocab
	l.model, err = f.build()
	return err
}

// readMember reads one member.
func (f *modelFile) readMember(d *jsontext.Decoder, name string) error {
	if name == "type" {
		if err := json.UnmarshalDecode(d, &f.kind); err != nil {
			return err
		}
		return servedModel(f.kind)
	}
	f.members = append(f.members, name)
	// option reads an option that changes nothing at the given values.
	option := func(idle ...string) error {
		value, err := d.ReadValue()
		if err == nil && !slices.Contains(idle, string(value)) {
			err = fmt.Errorf("%w: model.%s %s", ErrUnsupported, name, value)
		}
		return err
	}
	switch name {
	case "vocab":
		f.hasVocab = true
		return at("model.vocab", f.readVocab(d))
	case "merges":
		f.hasMerges = true
		if f.hasVocab {
			return at("model.merges", f.readMerges(d))
		}
		return keep(d, &f.mergesValue)
	case "unk_token":
		return json.UnmarshalDecode(d, &f.unkToken)
	case "unk_id":
		return json.UnmarshalDecode(d, &f.unkID)
	case "fuse_unk":
		return json.UnmarshalDecode(d, &f.fuseUnk)
	case "ignore_merges":
		return json.UnmarshalDecode(d, &f.ignoreMerges)
	case "byte_fallback":
		return json.UnmarshalDecode(d, &f.byteFallback)
	case "max_input_chars_per_word":
		return json.UnmarshalDecode(d, &f.maxInputChars)
	case "dropout", "alpha", "nbest_size":
		return option("null", "0", "0.0")
	case "end_of_word_suffix":
		return option("null", `""`)
	case "continuing_subword_prefix":
		return json.UnmarshalDecode(d, &f.subwordPrefix)
	}
	return fmt.Errorf("%w: model.%s", ErrUnsupported, name)
}

// servedModel returns an error unless models of the type are served.
func servedModel(kind string) error {
	if modelMembers[kind] != nil {
		return nil
	}
	return fmt.Errorf(`%w: model.type %q (served: "BPE", "Unigram", "WordPiece")`, ErrUnsupported, kind)
}

// build makes the model once all of it is read.
func (f *modelFile) build() (model, error) {
	if f.kind == "" {
		f.kind = f.guessKind() // the oldest files don't name it
	}
	if err := servedModel(f.kind); err != nil {
		return nil, err
	}
	for _, name := range f.members {
		if !slices.Contains(modelMembers[f.kind], name) {
			return nil, fmt.Errorf("%w: model.%s of a %s", ErrUnsupported, name, f.kind)
		}
	}
	if !f.hasVocab {
		return nil, errors.New("model has no vocab")
	}
	if isList := f.scores != nil; isList != (f.kind == "Unigram") {
		return nil, fmt.Errorf("model.vocab of a %s has the wrong form: a Unigram's is a list of tokens and scores, any other's an object of tokens and ids", f.kind)
	}
	switch f.kind {
	case "Unigram":
		return f.buildUnigram()
	case "WordPiece":
		return f.buildWordPiece()
	}
	return f.buildBPE()
}

// guessKind tells the type of a model that doesn't name it from its members.
func (f *modelFile) guessKind() string {
	switch {
	case f.hasMerges:
		return "BPE"
	case f.scores != nil:
		return "Unigram"
	case slices.Contains(f.members, "max_input_chars_per_word"):
		return "WordPiece"
	}
	return ""
}

func (f *modelFile) buildBPE() (model, error) {
	if !f.hasMerges {
		return nil, errors.New("model has no merges")
	}
	if f.subwordPrefix != nil && *f.subwordPrefix != "" {
		return nil, fmt.Errorf("%w: model.continuing_subword_prefix %q", ErrUnsupported, *f.subwordPrefix)
	}
	if f.mergesValue != nil {
		if err := f.readMerges(newDecoder(f.mergesValue)); err != nil {
			return nil, at("model.merges", err)
		}
	}
	m := &bpe{vocab: f.vocab, unk: noToken, fuseUnk: f.fuseUnk, byteFallback: f.byteFallback, ignoreMerges: f.ignoreMerges}
	var missing int
	m.byteIDs, missing = f.vocab.byteTokens()
	if f.vocab.byteLevel {
		if missing < 0 {
			f.unkToken = nil // nothing is unknown
		} else if f.byteFallback {
			return nil, fmt.Errorf("%w: model.byte_fallback in a byte-level vocabulary without a token for byte 0x%02X", ErrUnsupported, missing)
		}
	}
	var err error
	if f.unkToken != nil {
		if m.unk, err = f.findUnk(); err != nil {
			return nil, err
		}
	}
	m.setMerges(f.merges)
	return m, nil
}

// findUnk looks up model.unk_token.
func (f *modelFile) findUnk() (int32, error) {
	if f.unkToken == nil {
		return noToken, errors.New("model has no unk_token")
	}
	id, ok := f.vocab.findSpelling([]byte(*f.unkToken))
	if !ok {
		return noToken, fmt.Errorf("model.unk_token %q is not in the vocabulary", *f.unkToken)
	}
	return id, nil
}

func (f *modelFile) buildUnigram() (model, error) {
	if f.unkID == nil {
		return nil, fmt.Errorf("%w: a Unigram without model.unk_id", ErrUnsupported)
	}
	if *f.unkID < 0 || *f.unkID >= int64(len(f.scores)) {
		return nil, fmt.Errorf("model.unk_id %d is outside the vocabulary, 0 to %d", *f.unkID, len(f.scores)-1)
	}
	if f.vocab.byteLevel {
		return nil, fmt.Errorf("%w: a Unigram with a byte-level pre_tokenizer", ErrUnsupported)
	}
	var ids []int32
	for id := range int32(len(f.scores)) {
		if len(f.vocab.bytes(id)) > 0 {
			ids = append(ids, id)
		}
	}
	return newUnigram(f.vocab, ids, f.scores, int32(*f.unkID), slices.Min(f.scores)-unkPenalty, f.byteFallback), nil
}

func (f *modelFile) buildWordPiece() (model, error) {
	if f.vocab.byteLevel {
		return nil, fmt.Errorf("%w: a WordPiece with a byte-level pre_tokenizer", ErrUnsupported)
	}
	prefix := "##"
	if f.subwordPrefix != nil {
		prefix = *f.subwordPrefix
	}
	unk, err := f.findUnk()
	if err != nil {
		return nil, err
	}
	return newWordPiece(f.vocab, prefix, f.maxInputChars, unk), nil
}

// readVocab reads model.vocab: an object of spellings to ids, or a list of
// spellings and scores, in the order of ids.
func (f *modelFile) readVocab(d *jsontext.Decoder) error {
	var spelling []byte
	if d.PeekKind() == '[' {
		f.scores = []float64{}
		return elements(d, func(i int) error {
			var score float64
			var err error
			if spelling, score, err = readScored(d, spelling[:0]); err != nil {
				return err
			}
			f.scores = append(f.scores, score)
			return f.vocab.add(spelling, int64(i))
		})
	}
	if d.PeekKind() != '{' {
		return unexpected(d, "an object")
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() == '"' {
		var err error
		if spelling, err = readString(d, spelling[:0]); err != nil {
			return err
		}
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		id, err := strconv.ParseInt(view(value), 10, 64)
		if err != nil {
			return fmt.Errorf("token %q has the id %s, which is no whole number", spelling, value)
		}
		if err := f.vocab.add(spelling, id); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// readScored reads an array of a token and its score.
func readScored(d *jsontext.Decoder, spelling []byte) (_ []byte, score float64, err error) {
	n := 0
	err = elements(d, func(i int) error {
		var err error
		switch n++; i {
		case 0:
			spelling, err = readString(d, spelling)
		case 1:
			err = json.UnmarshalDecode(d, &score)
		default:
			err = d.SkipValue()
		}
		return err
	})
	if err == nil && n != 2 {
		err = fmt.Errorf("an array of %d is not a token and its score", n)
	}
	return spelling, score, err
}

// readMerges reads model.merges, an array of "left right" or ["left", "right"],
// the first of which has rank 0.
func (f *modelFile) readMerges(d *jsontext.Decoder) error {
	var (
		left, right []byte
		scratch     []byte // "left right"
		joined      []byte
	)
	return elements(d, func(i int) error {
		var err error
		if d.PeekKind() == '[' {
			left, right, err = readPair(d, left[:0], right[:0])
		} else {
			if scratch, err = readString(d, scratch[:0]); err == nil && bytes.HasPrefix(scratch, []byte("#version")) {
				return nil // the first line of merges.txt
			}
			var found bool
			left, right, found = bytes.Cut(scratch, []byte(" "))
			if err == nil && (!found || bytes.IndexByte(right, ' ') >= 0) {
				err = fmt.Errorf("%q is not two tokens", scratch)
			}
		}
		if err != nil {
			return err
		}
		joined = append(append(joined[:0], left...), right...)
		merge, err := f.vocab.mergeOf(left, right, joined)
		merge.rank = uint32(len(f.merges))
		f.merges = append(f.merges, merge)
		return err
	})
}

// readPair reads an array of two strings.
func readPair(d *jsontext.Decoder, left, right []byte) ([]byte, []byte, error) {
	n := 0
	err := elements(d, func(i int) error {
		var err error
		switch n++; i {
		case 0:
			left, err = readString(d, left)
		case 1:
			right, err = readString(d, right)
		default:
			err = d.SkipValue()
		}
		return err
	})
	if err == nil && n != 2 {
		err = fmt.Errorf("an array of %d is not two tokens", n)
	}
	return left, right, err
}

// mergeOf looks up the tokens of a merge by their spellings.
func (v *vocab) mergeOf(left, right, joined []byte) (out merge, err error) {
	find := func(spelling []byte) int32 {
		id, ok := v.findSpelling(spelling)
		if !ok && err == nil {
			err = fmt.Errorf("the merge of %q and %q needs the token %q, which is not in the vocabulary", left, right, spelling)
		}
		return id
	}
	out = merge{left: find(left), right: find(right), merged: find(joined)}
	return out, err
}
