package tokenizer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Load reads a tokenizer from tokenizer.json and, if not nil,
// tokenizer_config.json, which names the tokens that begin and end a text and
// may add to the added tokens.
//
// Errors wrap ErrInvalid or ErrUnsupported: a file that asks for anything that
// is not served is refused here, by the name and place of it.
//
// Not applied, as in transformers since version 5, when it encodes a prompt:
// truncation and padding of tokenizer.json; add_bos_token, add_eos_token and
// clean_up_tokenization_spaces of tokenizer_config.json. What surrounds a text
// is the post_processor's business alone.
func Load(tokenizerJSON, tokenizerConfig []byte) (*Tokenizer, error) {
	var l loader
	if err := l.read(tokenizerJSON); err != nil {
		return nil, inFile("tokenizer.json", err)
	}
	t := &Tokenizer{model: l.model, bos: noToken, eos: noToken}
	if err := l.assemble(t); err != nil {
		return nil, inFile("tokenizer.json", err)
	}
	if err := checkAdded(l.added, l.model.vocab); err != nil {
		return nil, inFile("tokenizer.json", err)
	}
	config := new(config)
	if tokenizerConfig != nil {
		var err error
		if config, err = readConfig(tokenizerConfig); err != nil {
			return nil, inFile("tokenizer_config.json", err)
		}
		if l.added, err = config.amend(l.added, l.model.vocab); err != nil {
			return nil, inFile("tokenizer_config.json", err)
		}
		if err := checkAdded(l.added, l.model.vocab); err != nil {
			return nil, inFile("tokenizer_config.json", err)
		}
	}
	if err := t.enterAdded(l.added); err != nil {
		return nil, inFile("tokenizer.json", err)
	}
	if err := t.checkTemplate(); err != nil {
		return nil, inFile("tokenizer.json", err)
	}
	if err := config.name(t); err != nil {
		return nil, inFile("tokenizer_config.json", err)
	}
	return t, nil
}

// inFile names the file an error is about. What is not known to be unsupported
// is invalid.
func inFile(name string, err error) error {
	kind := ErrInvalid
	if errors.Is(err, ErrUnsupported) {
		kind = ErrUnsupported
	}
	return &LoadError{File: name, Kind: kind, Err: err}
}

// LoadError says why a file was refused. It wraps ErrInvalid or ErrUnsupported.
type LoadError struct {
	File string // tokenizer.json or tokenizer_config.json
	Kind error  // ErrInvalid or ErrUnsupported
	Err  error
}

func (e *LoadError) Error() string {
	if errors.Is(e.Err, e.Kind) {
		return e.File + ": " + e.Err.Error()
	}
	return fmt.Sprintf("%s: %v: %v", e.File, e.Kind, e.Err)
}

func (e *LoadError) Unwrap() []error { return []error{e.Kind, e.Err} }

// at says where in a file an error is.
func at(place string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", place, err)
}

// loader holds tokenizer.json in parts. The small parts are kept as JSON, the
// model, which is all but all of the file, is read as it comes.
type loader struct {
	model         *bpe
	added         []*addedToken
	normalizer    jsontext.Value
	preTokenizer  jsontext.Value
	postProcessor jsontext.Value
	decoder       jsontext.Value
}

// newDecoder reads JSON as Python does: of two members with one name the later
// counts. The decoder's own check would keep all names of a vocabulary.
func newDecoder(data []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))
}

// read parses the file and builds the model.
func (l *loader) read(data []byte) error {
	d := newDecoder(data)
	err := members(d, func(name string) error {
		switch name {
		case "model":
			return l.readModel(d)
		case "added_tokens":
			return l.readAdded(d)
		case "normalizer":
			return keep(d, &l.normalizer)
		case "pre_tokenizer":
			return keep(d, &l.preTokenizer)
		case "post_processor":
			return keep(d, &l.postProcessor)
		case "decoder":
			return keep(d, &l.decoder)
		case "truncation", "padding":
			return d.SkipValue()
		case "version":
			version, err := d.ReadToken()
			if err == nil && (version.Kind() != '"' || version.String() != "1.0") {
				err = fmt.Errorf("%w: version %s (served: \"1.0\")", ErrUnsupported, version)
			}
			return err
		}
		return fmt.Errorf("%w: member %q", ErrUnsupported, name)
	})
	if err != nil {
		return err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return errors.New("there is more after the first JSON value")
	}
	if l.model == nil {
		return errors.New("no model")
	}
	return nil
}

// members calls f for each member of the object that is next; f must consume
// the value.
func members(d *jsontext.Decoder, f func(name string) error) error {
	if kind := d.PeekKind(); kind != '{' {
		return unexpected(d, "an object")
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		if err := f(name.String()); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// elements calls f for each element of the array that is next; f must consume
// it.
func elements(d *jsontext.Decoder, f func(i int) error) error {
	if kind := d.PeekKind(); kind != '[' {
		return unexpected(d, "an array")
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for i := 0; d.PeekKind() != ']'; i++ {
		if d.PeekKind() == 0 {
			break
		}
		if err := f(i); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// unexpected reports that the next value is not what was wanted, or why there
// is none.
func unexpected(d *jsontext.Decoder, want string) error {
	token, err := d.ReadToken()
	if err != nil {
		return err
	}
	return fmt.Errorf("%s holds %s where %s belongs", placeOf(d), token, want)
}

// placeOf returns where the decoder is, as in /model/vocab.
func placeOf(d *jsontext.Decoder) string {
	if p := d.StackPointer(); p != "" {
		return string(p)
	}
	return "the file"
}

// keep stores the next value.
func keep(d *jsontext.Decoder, v *jsontext.Value) error {
	value, err := d.ReadValue()
	*v = value.Clone()
	return err
}

// readString appends the string that is next to dst.
func readString(d *jsontext.Decoder, dst []byte) ([]byte, error) {
	if d.PeekKind() != '"' {
		return dst, unexpected(d, "a string")
	}
	value, err := d.ReadValue()
	if err != nil {
		return dst, err
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return append(dst, value[1:len(value)-1]...), nil
	}
	return jsontext.AppendUnquote(dst, value)
}

// readModel reads the member model.
func (l *loader) readModel(d *jsontext.Decoder) error {
	m := &bpe{vocab: newVocab(), cache: newWordCache(), unk: noToken}
	var (
		kind         string
		hasVocab     bool
		unkToken     *string
		byteFallback bool
		mergesValue  jsontext.Value // if they come before the vocabulary
		hasMerges    bool
	)
	// option reads an option that changes nothing at the given values.
	option := func(name string, idle ...string) error {
		value, err := d.ReadValue()
		if err == nil && !slices.Contains(idle, string(value)) {
			err = fmt.Errorf("%w: model.%s %s", ErrUnsupported, name, value)
		}
		return err
	}
	err := members(d, func(name string) error {
		switch name {
		case "type":
			if err := json.UnmarshalDecode(d, &kind); err != nil {
				return err
			}
			return servedModel(kind)
		case "vocab":
			hasVocab = true
			return at("model.vocab", m.readVocab(d))
		case "merges":
			hasMerges = true
			if hasVocab {
				return at("model.merges", m.readMerges(d))
			}
			return keep(d, &mergesValue)
		case "unk_token":
			return json.UnmarshalDecode(d, &unkToken)
		case "fuse_unk":
			return json.UnmarshalDecode(d, &m.fuseUnk)
		case "ignore_merges":
			return json.UnmarshalDecode(d, &m.ignoreMerges)
		case "dropout":
			return option(name, "null", "0", "0.0")
		case "continuing_subword_prefix", "end_of_word_suffix":
			return option(name, "null", `""`)
		case "byte_fallback":
			return json.UnmarshalDecode(d, &byteFallback)
		}
		return fmt.Errorf("%w: model.%s", ErrUnsupported, name)
	})
	if err != nil {
		return err
	}
	if kind == "" && !hasMerges { // the oldest files don't name BPE
		return servedModel(kind)
	}
	if !hasVocab || !hasMerges {
		return errors.New("model has no vocab or no merges")
	}
	if mergesValue != nil {
		if err := m.readMerges(newDecoder(mergesValue)); err != nil {
			return at("model.merges", err)
		}
	}
	l.model = m
	return m.complete(unkToken, byteFallback)
}

// servedModel returns an error unless models of the type are served.
func servedModel(kind string) error {
	if kind == "BPE" {
		return nil
	}
	return fmt.Errorf("%w: model.type %q (served: \"BPE\")", ErrUnsupported, kind)
}

// readVocab reads model.vocab, an object of spellings to ids.
func (m *bpe) readVocab(d *jsontext.Decoder) error {
	if d.PeekKind() != '{' {
		return unexpected(d, "an object")
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	var spelling []byte
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
		if err := m.vocab.add(spelling, id); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// merge is an entry of model.merges, by ids.
type merge struct{ left, right, merged int32 }

// readMerges reads model.merges, an array of "left right" or ["left", "right"],
// the first of which has rank 0.
func (m *bpe) readMerges(d *jsontext.Decoder) error {
	var (
		merges      []merge
		left, right []byte
		scratch     []byte // "left right"
		joined      []byte
	)
	err := elements(d, func(i int) error {
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
		merge, err := m.mergeOf(left, right, joined)
		merges = append(merges, merge)
		return err
	})
	if err != nil {
		return err
	}
	m.merges = newMergeTable(len(merges))
	for rank, merge := range merges {
		m.merges.put(merge.left, merge.right, uint32(rank), merge.merged)
	}
	return nil
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
func (m *bpe) mergeOf(left, right, joined []byte) (out merge, err error) {
	find := func(spelling []byte) int32 {
		id, ok := m.vocab.findSpelling(spelling)
		if !ok && err == nil {
			err = fmt.Errorf("the merge of %q and %q needs the token %q, which is not in the vocabulary", left, right, spelling)
		}
		return id
	}
	out = merge{find(left), find(right), find(joined)}
	return out, err
}

// complete derives from vocabulary and options what encoding needs.
func (m *bpe) complete(unkToken *string, byteFallback bool) error {
	missing := -1
	for b := range m.byteIDs {
		id, ok := m.vocab.find(string([]byte{byte(b)}))
		if !ok {
			id, missing = noToken, b
		}
		m.byteIDs[b] = id
	}
	if missing < 0 {
		return nil // nothing is unknown, and nothing falls back
	}
	if byteFallback {
		return fmt.Errorf("%w: model.byte_fallback in a vocabulary without a token for byte 0x%02X", ErrUnsupported, missing)
	}
	if unkToken != nil {
		var ok bool
		if m.unk, ok = m.vocab.findSpelling([]byte(*unkToken)); !ok {
			return fmt.Errorf("model.unk_token %q is not in the vocabulary", *unkToken)
		}
	}
	return nil
}

// addedJSON is an entry of added_tokens. Every member is required.
type addedJSON struct {
	ID         *int64  `json:"id"`
	Content    *string `json:"content"`
	SingleWord *bool   `json:"single_word"`
	LStrip     *bool   `json:"lstrip"`
	RStrip     *bool   `json:"rstrip"`
	Normalized *bool   `json:"normalized"`
	Special    *bool   `json:"special"`
}

// readAdded reads the member added_tokens.
func (l *loader) readAdded(d *jsontext.Decoder) error {
	return elements(d, func(i int) error {
		place := fmt.Sprintf("added_tokens[%d]", i)
		var a addedJSON
		value, err := d.ReadValue()
		if err == nil {
			err = unmarshalStrict(value, &a)
		}
		if err != nil {
			return at(place, err)
		}
		if a.ID == nil || a.Content == nil || a.SingleWord == nil || a.LStrip == nil || a.RStrip == nil || a.Normalized == nil || a.Special == nil {
			return fmt.Errorf("%s lacks one of id, content, single_word, lstrip, rstrip, normalized, special", place)
		}
		if *a.ID < 0 || *a.ID > maxTokenID {
			return fmt.Errorf("%s: token %q has id %d, outside 0 to %d", place, *a.Content, *a.ID, maxTokenID)
		}
		l.added = append(l.added, &addedToken{
			id: int32(*a.ID), content: *a.Content, singleWord: *a.SingleWord,
			lstrip: *a.LStrip, rstrip: *a.RStrip, normalized: *a.Normalized, special: *a.Special,
		})
		return nil
	})
}

// unmarshalStrict decodes a small part of the file; a member it doesn't know is
// unsupported.
func unmarshalStrict(value jsontext.Value, into any) error {
	err := json.Unmarshal(value, into, json.RejectUnknownMembers(true), jsontext.AllowDuplicateNames(true))
	if s := (*json.SemanticError)(nil); errors.As(err, &s) && errors.Is(s, json.ErrUnknownName) {
		return fmt.Errorf("%w: member %s", ErrUnsupported, s.JSONPointer.LastToken())
	}
	return err
}

// checkAdded makes sure that ids and contents of the added tokens and the
// vocabulary agree. The reference renumbers tokens that don't; the weights
// would not follow.
func checkAdded(tokens []*addedToken, v *vocab) error {
	byID := map[int32]*addedToken{}
	byContent := map[string]*addedToken{}
	for _, a := range tokens {
		if a.content == "" {
			return fmt.Errorf("added token %d is empty", a.id)
		}
		if other, ok := byID[a.id]; ok {
			return fmt.Errorf("added tokens %q and %q have the same id %d", other.content, a.content, a.id)
		}
		if other, ok := byContent[a.content]; ok {
			return fmt.Errorf("added token %q has two ids, %d and %d", a.content, other.id, a.id)
		}
		byID[a.id], byContent[a.content] = a, a
		if id, ok := v.findSpelling([]byte(a.content)); ok && id != a.id {
			return fmt.Errorf("added token %q has id %d, but %d in the vocabulary", a.content, a.id, id)
		} else if !ok && int(a.id) < len(v.kinds) && v.kinds[a.id] != absent {
			return fmt.Errorf("added token %q has the id %d of the vocabulary's %q", a.content, a.id, v.spelling(a.id))
		}
	}
	return nil
}
