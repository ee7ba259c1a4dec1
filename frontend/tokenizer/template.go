package tokenizer

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

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
