package tokenizer

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// config is the part of tokenizer_config.json that tokenization depends on.
type config struct {
	BOS                namedToken            `json:"bos_token"`
	EOS                namedToken            `json:"eos_token"`
	Unk                namedToken            `json:"unk_token"`
	Sep                namedToken            `json:"sep_token"`
	Pad                namedToken            `json:"pad_token"`
	Cls                namedToken            `json:"cls_token"`
	Mask               namedToken            `json:"mask_token"`
	Additional         namedTokens           `json:"additional_special_tokens"`
	Extra              namedTokens           `json:"extra_special_tokens"`
	AddedTokens        map[string]namedToken `json:"added_tokens_decoder"`
	SplitSpecialTokens bool                  `json:"split_special_tokens"`

	// Only where there is no tokenizer.json, which says the same.
	Class          string `json:"tokenizer_class"`
	AddBOS         bool   `json:"add_bos_token"`
	AddEOS         bool   `json:"add_eos_token"`
	AddPrefixSpace *bool  `json:"add_prefix_space"`
	Legacy         bool   `json:"legacy"`
}

// namedToken is a token given by its content, or by an object that also says
// how it is found.
type namedToken struct {
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized *bool  `json:"normalized"` // default: unless special
	Special    bool   `json:"special"`
}

func (n *namedToken) UnmarshalJSON(data []byte) error {
	if jsontext.Value(data).Kind() == '{' {
		type object namedToken
		return json.Unmarshal(data, (*object)(n))
	}
	return json.Unmarshal(data, &n.Content)
}

// added returns the added token that n describes.
func (n namedToken) added(id int32) *addedToken {
	normalized := !n.Special
	if n.Normalized != nil {
		normalized = *n.Normalized
	}
	return &addedToken{
		id: id, content: n.Content, singleWord: n.SingleWord,
		lstrip: n.LStrip, rstrip: n.RStrip, normalized: normalized, special: n.Special,
	}
}

// namedTokens is a list of tokens, or an object whose values are tokens.
type namedTokens []namedToken

func (ns *namedTokens) UnmarshalJSON(data []byte) error {
	if jsontext.Value(data).Kind() != '{' {
		return json.Unmarshal(data, (*[]namedToken)(ns))
	}
	var byName map[string]namedToken
	err := json.Unmarshal(data, &byName)
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		*ns = append(*ns, byName[name])
	}
	return err
}

// readConfig reads tokenizer_config.json; nil is an empty one.
func readConfig(data []byte) (*config, error) {
	c := new(config)
	if data == nil {
		return c, nil
	}
	err := json.Unmarshal(data, c, jsontext.AllowDuplicateNames(true))
	if err == nil && c.SplitSpecialTokens {
		err = fmt.Errorf("%w: split_special_tokens", ErrUnsupported)
	}
	if err != nil {
		return nil, inFile("tokenizer_config.json", err)
	}
	return c, nil
}

// amend returns the added tokens as the configuration changes them, as
// transformers does: added_tokens_decoder overrides, and the tokens it names
// are special. A named token that the vocabulary lacks is left out, where
// transformers would give it an id that the model does not have.
func (c *config) amend(tokens []*addedToken, v *vocab) ([]*addedToken, error) {
	byContent := map[string]*addedToken{}
	for _, a := range tokens {
		byContent[a.content] = a
	}
	put := func(a *addedToken) {
		if known, ok := byContent[a.content]; ok {
			*known = *a
			return
		}
		byContent[a.content] = a
		tokens = append(tokens, a)
	}
	for _, key := range slices.Sorted(maps.Keys(c.AddedTokens)) {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || id < 0 || id > maxTokenID {
			return nil, fmt.Errorf("added_tokens_decoder has the id %q, outside 0 to %d", key, maxTokenID)
		}
		if known, ok := byContent[c.AddedTokens[key].Content]; ok && known.id != int32(id) {
			return nil, fmt.Errorf("added_tokens_decoder gives %q the id %d, tokenizer.json %d", known.content, id, known.id)
		}
		put(c.AddedTokens[key].added(int32(id)))
	}
	named := slices.Concat([]namedToken{c.BOS, c.EOS, c.Unk, c.Sep, c.Pad, c.Cls, c.Mask}, c.Additional, c.Extra)
	for _, n := range named {
		if known, ok := byContent[n.Content]; ok {
			known.special = true
		} else if id, ok := v.findSpelling([]byte(n.Content)); ok && n.Content != "" {
			n.Special = true
			put(n.added(id))
		}
	}
	return tokens, nil
}

// name sets the tokens that begin and end a text.
func (c *config) name(t *Tokenizer) error {
	for _, n := range []struct {
		member string
		token  namedToken
		id     *int32
	}{{"bos_token", c.BOS, &t.bos}, {"eos_token", c.EOS, &t.eos}} {
		if n.token.Content == "" {
			continue
		}
		id, ok := t.TokenToID(n.token.Content)
		if !ok {
			return fmt.Errorf("%s %q is not in the vocabulary", n.member, n.token.Content)
		}
		*n.id = id
	}
	return nil
}
