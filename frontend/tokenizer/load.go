package tokenizer

import (
	"bytes"
	"errors"
	"fmt"
	"io"

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
	l := loader{parts: parts{bos: noToken, eos: noToken}}
	if err := l.read(tokenizerJSON); err != nil {
		return nil, inFile("tokenizer.json", err)
	}
	c, err := readConfig(tokenizerConfig)
	if err != nil {
		return nil, err
	}
	return l.parts.withConfig("tokenizer.json", c)
}

// withConfig assembles the parts that file describes, as tokenizer_config.json
// changes them.
func (p *parts) withConfig(file string, c *config) (*Tokenizer, error) {
	if err := checkAdded(p.added, p.vocab); err != nil {
		return nil, inFile(file, err)
	}
	var err error
	if p.added, err = c.amend(p.added, p.vocab); err == nil {
		err = checkAdded(p.added, p.vocab)
	}
	if err != nil {
		return nil, inFile("tokenizer_config.json", err)
	}
	t, err := p.assemble()
	if err != nil {
		return nil, inFile(file, err)
	}
	if err := c.name(t); err != nil {
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
	File string // tokenizer.json, tokenizer_config.json, tokenizer.model or "GGUF vocabulary"
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

// loader holds tokenizer.json in parts. The small ones are kept as JSON; the
// model, which is all but all of the file, is read as it comes, if what says
// whether its vocabulary is byte-level came before.
type loader struct {
	parts

	hasModel      bool
	modelValue    jsontext.Value // if it came before the pre_tokenizer
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
			l.hasModel = true
			if l.preTokenizer == nil {
				return keep(d, &l.modelValue)
			}
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
	if !l.hasModel {
		return errors.New("no model")
	}
	if l.modelValue != nil {
		if err := l.readModel(newDecoder(l.modelValue)); err != nil {
			return err
		}
	}
	return l.buildParts()
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
