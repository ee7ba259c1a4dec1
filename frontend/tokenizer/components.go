package tokenizer

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The small parts of tokenizer.json: normalizer, pre_tokenizer, post_processor
// and decoder. Each is an object with a type, or null; Sequences nest. One
// table of types per part; what is not in it is refused by name.

// buildParts builds the parts that were kept as JSON; the model is read.
func (l *loader) buildParts() (err error) {
	if l.parts.normalizer, err = buildNormalizer(component{"normalizer", l.normalizer}); err != nil {
		return err
	}
	if l.template, err = buildTemplate(component{"post_processor", l.postProcessor}); err != nil {
		return err
	}
	decoder := component{"decoder", l.decoder}
	if l.vocab.byteLevel {
		return checkByteLevelDecoder(decoder)
	}
	l.parts.decoder, err = buildDecoder(decoder)
	return err
}

// component is the JSON of a part and where in the file it stands.
type component struct {
	place string // as in normalizer.normalizers[1]
	value jsontext.Value
}

// tag is the member that all parts have.
type tag struct {
	Type string `json:"type"`
}

// isNull reports whether the part is null or not there.
func (c component) isNull() bool { return c.value == nil || c.value.Kind() == 'n' }

// kind returns the type of the part.
func (c component) kind() (string, error) {
	var t tag
	err := json.Unmarshal(c.value, &t, jsontext.AllowDuplicateNames(true))
	return t.Type, at(c.place, err)
}

// decode reads the part into a struct with all members it may have.
func (c component) decode(into any) error {
	return at(c.place, unmarshalStrict(c.value, into))
}

// children returns the parts of a Sequence.
func (c component) children(member string, values []jsontext.Value) []component {
	parts := make([]component, len(values))
	for i, value := range values {
		parts[i] = component{fmt.Sprintf("%s.%s[%d]", c.place, member, i), value}
	}
	return parts
}

func (c component) unsupported(kind string, served ...string) error {
	return at(c.place, fmt.Errorf("%w: type %q (served: %s)", ErrUnsupported, kind, strings.Join(served, ", ")))
}

// patternJSON is the pattern of Split and Replace.
type patternJSON struct {
	String *string
	Regex  *string
}

func (p patternJSON) build() (matcher, error) {
	switch {
	case p.String != nil && p.Regex == nil:
		if *p.String == "" {
			return nil, fmt.Errorf("%w: an empty pattern", ErrUnsupported)
		}
		return literalMatcher(*p.String), nil
	case p.Regex != nil && p.String == nil:
		return newMatcher(*p.Regex)
	}
	return nil, errors.New("pattern is neither a String nor a Regex")
}

// buildNormalizer returns the normalizer, nil if there is none.
func buildNormalizer(c component) (normalizer, error) {
	if c.isNull() {
		return nil, nil
	}
	kind, err := c.kind()
	if err != nil {
		return nil, err
	}
	switch kind {
	case "NFC", "NFD":
		var v struct{ tag }
		return canonicalForm{compose: kind == "NFC"}, c.decode(&v)
	case "NFKC", "NFKD":
		var v struct{ tag }
		return compatibleForm{compose: kind == "NFKC"}, c.decode(&v)
	case "Lowercase":
		var v struct{ tag }
		return lowercase{}, c.decode(&v)
	case "StripAccents":
		var v struct{ tag }
		return stripAccents{}, c.decode(&v)
	case "Nmt":
		var v struct{ tag }
		return nmt{}, c.decode(&v)
	case "BertNormalizer":
		var v struct {
			tag
			CleanText          bool  `json:"clean_text"`
			HandleChineseChars bool  `json:"handle_chinese_chars"`
			StripAccents       *bool `json:"strip_accents"` // default: as lowercase
			Lowercase          bool  `json:"lowercase"`
		}
		err := c.decode(&v)
		n := bertNormalizer{v.CleanText, v.HandleChineseChars, v.Lowercase, v.Lowercase}
		if v.StripAccents != nil {
			n.stripAccents = *v.StripAccents
		}
		return n, err
	case "Precompiled":
		var v struct {
			tag
			Charsmap []byte `json:"precompiled_charsmap"` // in base64
		}
		if err := c.decode(&v); err != nil {
			return nil, err
		}
		m, err := newCharsMap(v.Charsmap)
		return precompiled{m}, at(c.place, err)
	case "Prepend":
		var v struct {
			tag
			Prepend string `json:"prepend"`
		}
		err := c.decode(&v)
		return prepend(v.Prepend), err
	case "Replace":
		var v struct {
			tag
			Pattern patternJSON `json:"pattern"`
			Content string      `json:"content"`
		}
		if err := c.decode(&v); err != nil {
			return nil, err
		}
		m, err := v.Pattern.build()
		return replace{m, v.Content}, at(c.place, err)
	case "Strip":
		var v struct {
			tag
			StripLeft  bool `json:"strip_left"`
			StripRight bool `json:"strip_right"`
		}
		err := c.decode(&v)
		return strip{v.StripLeft, v.StripRight}, err
	case "Sequence":
		var v struct {
			tag
			Normalizers []jsontext.Value `json:"normalizers"`
		}
		if err := c.decode(&v); err != nil {
			return nil, err
		}
		return buildNormalizers(c.children("normalizers", v.Normalizers))
	}
	return nil, c.unsupported(kind, "BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Precompiled",
		"Prepend", "Replace", "Strip", "StripAccents", "Sequence")
}

func buildNormalizers(parts []component) (normalizer, error) {
	var sequence normalizers
	for _, part := range parts {
		n, err := buildNormalizer(part)
		if err != nil {
			return nil, err
		}
		if n != nil {
			sequence = append(sequence, n)
		}
	}
	if sequence == nil {
		return nil, nil
	}
	return sequence, nil
}

// buildStages returns the stages of the pre-tokenizer, Sequences flattened.
func buildStages(c component) ([]stage, error) {
	if c.isNull() {
		return nil, nil
	}
	kind, err := c.kind()
	if err != nil {
		return nil, err
	}
	switch kind {
	case "ByteLevel":
		v, err := c.decodeByteLevel()
		return []stage{v}, err
	case "Digits":
		var v struct {
			tag
			IndividualDigits bool `json:"individual_digits"`
		}
		behavior := contiguous
		err := c.decode(&v)
		if v.IndividualDigits {
			behavior = isolated
		}
		return []stage{&splitStage{matcher: characterMatcher(isNumeric), behavior: behavior}}, err
	case "Split":
		st, err := buildSplit(c)
		return []stage{st}, err
	case "Metaspace":
		m, err := c.decodeMetaspace()
		return []stage{metaspaceStage{m.replacement, m.prepend, m.split}}, err
	case "BertPreTokenizer":
		var v struct{ tag }
		return []stage{
			&splitStage{matcher: characterMatcher(isSpace), behavior: removed},
			&splitStage{matcher: characterMatcher(isPunctuation), behavior: isolated},
		}, c.decode(&v)
	case "Punctuation":
		v := struct {
			tag
			Behavior splitBehavior `json:"behavior"`
		}{Behavior: isolated}
		if err := c.decode(&v); err != nil {
			return nil, err
		}
		return []stage{&splitStage{matcher: characterMatcher(isPunctuation), behavior: v.Behavior}}, at(c.place, v.Behavior.check())
	case "WhitespaceSplit":
		var v struct{ tag }
		return []stage{&splitStage{matcher: characterMatcher(isSpace), behavior: removed}}, c.decode(&v)
	case "Whitespace":
		var v struct{ tag }
		return []stage{&splitStage{matcher: wordMatcher{}, behavior: removed, invert: true}}, c.decode(&v)
	case "CharDelimiterSplit":
		var v struct {
			tag
			Delimiter string `json:"delimiter"`
		}
		if err := c.decode(&v); err != nil {
			return nil, err
		}
		if utf8.RuneCountInString(v.Delimiter) != 1 {
			return nil, at(c.place, fmt.Errorf("delimiter %q is not one character", v.Delimiter))
		}
		return []stage{&splitStage{matcher: literalMatcher(v.Delimiter), behavior: removed}}, nil
	case "Sequence":
		var v struct {
			tag
			PreTokenizers []jsontext.Value `json:"pretokenizers"`
		}
		if err := c.decode(&v); err != nil {
			return nil, err
		}
		var stages []stage
		for _, part := range c.children("pretokenizers", v.PreTokenizers) {
			more, err := buildStages(part)
			if err != nil {
				return nil, err
			}
			stages = append(stages, more...)
		}
		return stages, nil
	}
	return nil, c.unsupported(kind, "BertPreTokenizer", "ByteLevel", "CharDelimiterSplit", "Digits", "Metaspace",
		"Punctuation", "Split", "Whitespace", "WhitespaceSplit", "Sequence")
}

// decodeByteLevel reads a ByteLevel, which is a pre-tokenizer, a post-processor
// and a decoder, with the same members.
func (c component) decodeByteLevel() (byteLevelStage, error) {
	v := struct {
		tag
		AddPrefixSpace bool `json:"add_prefix_space"`
		TrimOffsets    bool `json:"trim_offsets"` // about offsets, which we don't give
		UseRegex       bool `json:"use_regex"`
	}{UseRegex: true}
	err := c.decode(&v)
	return byteLevelStage{v.AddPrefixSpace, v.UseRegex}, err
}

// metaspace is a Metaspace, which is a pre-tokenizer and a decoder, with the
// same members.
type metaspace struct {
	replacement string
	prepend     prependScheme
	split       bool
}

func (c component) decodeMetaspace() (metaspace, error) {
	v := struct {
		tag
		Replacement    string        `json:"replacement"`
		AddPrefixSpace *bool         `json:"add_prefix_space"` // the old way to say what prepend_scheme does
		PrependScheme  prependScheme `json:"prepend_scheme"`
		Split          *bool         `json:"split"`
		StrRep         string        `json:"str_rep"` // what replacement says
	}{PrependScheme: prependAlways}
	if err := c.decode(&v); err != nil {
		return metaspace{}, err
	}
	m := metaspace{v.Replacement, v.PrependScheme, v.Split == nil || *v.Split}
	if utf8.RuneCountInString(v.Replacement) != 1 {
		return m, at(c.place, fmt.Errorf("replacement %q is not one character", v.Replacement))
	}
	switch m.prepend {
	case prependAlways, prependFirst, prependNever:
	default:
		return m, at(c.place, fmt.Errorf("%w: prepend_scheme %q", ErrUnsupported, m.prepend))
	}
	if v.AddPrefixSpace != nil && !*v.AddPrefixSpace && m.prepend != prependNever {
		return m, at(c.place, fmt.Errorf("add_prefix_space is false, but prepend_scheme is %q", m.prepend))
	}
	return m, nil
}

func buildSplit(c component) (*splitStage, error) {
	var v struct {
		tag
		Pattern  patternJSON   `json:"pattern"`
		Behavior splitBehavior `json:"behavior"`
		Invert   bool          `json:"invert"`
	}
	if err := c.decode(&v); err != nil {
		return nil, err
	}
	if err := v.Behavior.check(); err != nil {
		return nil, at(c.place, err)
	}
	m, err := v.Pattern.build()
	return &splitStage{m, v.Behavior, v.Invert}, at(c.place, err)
}

// endsInByteLevel reports whether the words that the model gets are bytes. If
// so ByteLevel is the last stage: it spells bytes as characters, which a stage
// after it would see.
func endsInByteLevel(stages []stage) (bool, error) {
	for i, st := range stages {
		if _, ok := st.(byteLevelStage); ok && i < len(stages)-1 {
			return false, fmt.Errorf("%w: a pre_tokenizer with a ByteLevel that is not its last stage", ErrUnsupported)
		} else if ok {
			return true, nil
		}
	}
	return false, nil
}
