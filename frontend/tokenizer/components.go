package tokenizer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The small parts of tokenizer.json: normalizer, pre_tokenizer, post_processor
// and decoder. Each is an object with a type, or null; Sequences nest. One
// table of types per part; what is not in it is refused by name.

// assemble builds the parts of t from the file.
func (l *loader) assemble(t *Tokenizer) error {
	var err error
	if t.normalizer, err = buildNormalizer(component{"normalizer", l.normalizer}); err != nil {
		return err
	}
	stages, err := buildStages(component{"pre_tokenizer", l.preTokenizer})
	if err != nil {
		return err
	}
	if err := checkByteLevelLast(stages); err != nil {
		return err
	}
	t.pre = newPreTokenizer(stages)
	if t.template, err = buildTemplate(component{"post_processor", l.postProcessor}); err != nil {
		return err
	}
	return checkDecoder(component{"decoder", l.decoder})
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
	return nil, c.unsupported(kind, "NFC", "NFD", "Prepend", "Replace", "Strip", "Sequence")
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
		return []stage{&splitStage{matcher: numericMatcher{}, behavior: behavior}}, err
	case "Split":
		st, err := buildSplit(c)
		return []stage{st}, err
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
	return nil, c.unsupported(kind, "ByteLevel", "Digits", "Split", "Sequence")
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
	switch v.Behavior {
	case isolated, removed, contiguous, mergedWithPrevious, mergedWithNext:
	default:
		return nil, at(c.place, fmt.Errorf("%w: behavior %q", ErrUnsupported, v.Behavior))
	}
	m, err := v.Pattern.build()
	return &splitStage{m, v.Behavior, v.Invert}, at(c.place, err)
}

// checkByteLevelLast makes sure that the words the model gets are bytes:
// ByteLevel spells them as characters, which a stage after it would see.
func checkByteLevelLast(stages []stage) error {
	for i, st := range stages {
		if _, ok := st.(byteLevelStage); ok != (i == len(stages)-1) {
			return fmt.Errorf("%w: a pre_tokenizer with a ByteLevel that is not its last stage, or with none", ErrUnsupported)
		}
	}
	if len(stages) == 0 {
		return fmt.Errorf("%w: no pre_tokenizer (served: those that end in ByteLevel)", ErrUnsupported)
	}
	return nil
}

// buildTemplate returns what the post-processor adds around a single text.
func buildTemplate(c component) (template, error) {
	if c.isNull() {
		return template{}, nil
	}
	kind, err := c.kind()
	if err != nil {
		return template{}, err
	}
	switch kind {
	case "ByteLevel": // about offsets
		_, err := c.decodeByteLevel()
		return template{}, err
	case "TemplateProcessing":
		return c.decodeTemplate()
	case "BertProcessing", "RobertaProcessing":
		var v struct {
			tag
			Sep            namedID `json:"sep"`
			Cls            namedID `json:"cls"`
			TrimOffsets    bool    `json:"trim_offsets"`
			AddPrefixSpace bool    `json:"add_prefix_space"`
		}
		err := c.decode(&v)
		return template{[]int32{v.Cls.id}, []int32{v.Sep.id}}, err
	case "Sequence":
		var v struct {
			tag
			Processors []jsontext.Value `json:"processors"`
		}
		if err := c.decode(&v); err != nil {
			return template{}, err
		}
		var out template
		for _, part := range c.children("processors", v.Processors) {
			t, err := buildTemplate(part)
			if err != nil {
				return template{}, err
			}
			if !out.isEmpty() && !t.isEmpty() {
				return template{}, at(part.place, fmt.Errorf("%w: a second template", ErrUnsupported))
			}
			if !t.isEmpty() {
				out = t
			}
		}
		return out, nil
	}
	return template{}, c.unsupported(kind, "ByteLevel", "TemplateProcessing", "BertProcessing", "RobertaProcessing", "Sequence")
}

// namedID is ["token", id].
type namedID struct{ id int32 }

func (n *namedID) UnmarshalJSON(data []byte) error {
	var pair []jsontext.Value
	if err := json.Unmarshal(data, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return fmt.Errorf("%s is not a token and its id", data)
	}
	return json.Unmarshal(pair[1], &n.id)
}

// decodeTemplate reads a TemplateProcessing. Only the template for one text is
// used: a prompt is never a pair.
func (c component) decodeTemplate() (template, error) {
	type reference struct {
		ID     string `json:"id"`
		TypeID int    `json:"type_id"`
	}
	var v struct {
		tag
		Single []struct {
			SpecialToken *reference
			Sequence     *reference
		} `json:"single"`
		Pair          jsontext.Value `json:"pair"`
		SpecialTokens map[string]struct {
			ID     string   `json:"id"`
			IDs    []int32  `json:"ids"`
			Tokens []string `json:"tokens"`
		} `json:"special_tokens"`
	}
	if err := c.decode(&v); err != nil {
		return template{}, err
	}
	var (
		out  template
		text int // pieces that stand for the text
	)
	for i, piece := range v.Single {
		switch {
		case piece.Sequence != nil && piece.Sequence.ID == "A":
			text++
		case piece.SpecialToken != nil:
			token, ok := v.SpecialTokens[piece.SpecialToken.ID]
			if !ok {
				return out, at(c.place, fmt.Errorf("single[%d] names %q, which is not in special_tokens", i, piece.SpecialToken.ID))
			}
			if text == 0 {
				out.before = append(out.before, token.IDs...)
			} else {
				out.after = append(out.after, token.IDs...)
			}
		default:
			return out, at(c.place, fmt.Errorf("%w: single[%d]", ErrUnsupported, i))
		}
	}
	if text != 1 {
		return out, at(c.place, fmt.Errorf("%w: single has the text %d times", ErrUnsupported, text))
	}
	return out, nil
}

// checkDecoder makes sure that the decoder is ByteLevel, perhaps followed by
// Fuse, which then has nothing left to do.
func checkDecoder(c component) error {
	if c.isNull() {
		return at(c.place, fmt.Errorf("%w: none (served: ByteLevel)", ErrUnsupported))
	}
	kind, err := c.kind()
	if err != nil {
		return err
	}
	switch kind {
	case "ByteLevel":
		_, err := c.decodeByteLevel()
		return err
	case "Sequence":
		var v struct {
			tag
			Decoders []jsontext.Value `json:"decoders"`
		}
		if err := c.decode(&v); err != nil {
			return err
		}
		parts := c.children("decoders", v.Decoders)
		if len(parts) == 0 {
			return at(c.place, fmt.Errorf("%w: an empty Sequence (served: ByteLevel)", ErrUnsupported))
		}
		for _, part := range parts[1:] {
			if kind, err := part.kind(); err != nil || kind != "Fuse" {
				return errors.Join(err, part.unsupported(kind, "Fuse"))
			}
		}
		return checkDecoder(parts[0])
	}
	return c.unsupported(kind, "ByteLevel", "Sequence")
}
