package modelfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Generation holds a model's own sampling defaults, which a request's fields
// override. A nil pointer means that the model says nothing.
//
// Values are taken as written: transformers 4 would drop those that equal its
// own defaults (top_k = 50 among them), transformers 5 does not.
//
// Source: vllm/config/model.py, get_diff_sampling_param.
type Generation struct {
	Temperature       *float64 // ≥ 0
	TopP              *float64 // (0, 1]
	TopK              *int     // 0 or -1: all
	MinP              *float64 // [0, 1]
	RepetitionPenalty *float64 // > 0
	MaxNewTokens      *int     // the server's cap on max_tokens

	eosTokenIDs []int32
}

// generationKeys are what --override-generation-config may set.
var generationKeys = []string{"temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_new_tokens"}

// readGeneration reads generation_config.json and lays override over it.
// defaults false leaves out the file's sampling defaults but not its EOS IDs,
// as vLLM does for --generation-config vllm.
func readGeneration(where string, data, override []byte, defaults bool, vocab int) (Generation, error) {
	var g Generation
	o := &object{where: where, errs: new([]error)}
	if data != nil {
		var err error
		if o, err = parseObject(where, data); err != nil {
			return g, err
		}
	}
	g.eosTokenIDs = o.tokenIDs("eos_token_id", vocab)
	if !defaults {
		o.keys = nil
	}
	g.read(o)
	if err := o.err(); err != nil {
		return g, err
	}
	return g, g.override(override)
}

func (g *Generation) override(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	o, err := parseObject("--override-generation-config", data)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(o.keys)) {
		if !slices.Contains(generationKeys, key) {
			o.refuse(key, fmt.Sprintf("the keys are %v", generationKeys))
		}
	}
	g.read(o)
	return o.err()
}

// read takes over what o says; null takes a default back.
func (g *Generation) read(o *object) {
	o.numberIn("temperature", &g.Temperature, "at least 0", func(v float64) bool { return v >= 0 })
	o.numberIn("top_p", &g.TopP, "above 0 and at most 1", func(v float64) bool { return v > 0 && v <= 1 })
	o.numberIn("min_p", &g.MinP, "between 0 and 1", func(v float64) bool { return v >= 0 && v <= 1 })
	o.numberIn("repetition_penalty", &g.RepetitionPenalty, "above 0", func(v float64) bool { return v > 0 })
	o.countIn("top_k", &g.TopK, "-1 or more", -1)
	o.countIn("max_new_tokens", &g.MaxNewTokens, "at least 1", 1)
}

func (o *object) numberIn(key string, dst **float64, want string, ok func(float64) bool) {
	if _, present := o.keys[key]; !present {
		return
	}
	*dst = nil
	var v float64
	if !o.decode(key, &v, "a number "+want) {
		return
	}
	if !ok(v) {
		o.invalid(key, want)
		return
	}
	*dst = &v
}

func (o *object) countIn(key string, dst **int, want string, least int) {
	if _, present := o.keys[key]; !present {
		return
	}
	*dst = nil
	if !o.has(key) {
		return
	}
	v := o.int(key, least)
	if v < least || v > math.MaxInt32 {
		o.invalid(key, want)
		return
	}
	*dst = &v
}

// EOSTokenIDs returns the IDs that end a sequence, without duplicates. The
// first is the one that the engine stops on (the tokenizer's eos_token, else
// the first that the configs name); the others, generation_config.json's,
// belong to a request's stop_token_ids. Empty if the model names none.
//
// Source: vllm/sampling_params.py, update_from_generation_config.
func (m *Model) EOSTokenIDs() []int32 { return slices.Clone(m.eos) }

func (m *Model) collectEOS() error {
	var ids []int32
	content, err := eosToken(m.TokenizerConfigJSON)
	if err != nil {
		return err
	}
	if content != "" && m.TokenizerJSON != nil {
		id, err := tokenID(m.TokenizerJSON, content)
		if err != nil {
			return err
		}
		if id >= int64(m.Config.VocabSize) {
			return fmt.Errorf("tokenizer.json: %w: eos_token %q has ID %d, config.json's vocab_size is %d",
				ErrInvalid, content, id, m.Config.VocabSize)
		}
		if id >= 0 {
			ids = append(ids, int32(id))
		}
	}
	extra := m.Generation.eosTokenIDs
	if !m.hasGenerationConfig {
		extra = m.Config.eosTokenIDs
	}
	if len(ids) == 0 && len(m.Config.eosTokenIDs) > 0 {
		ids = append(ids, m.Config.eosTokenIDs[0])
	}
	for _, id := range extra {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	m.eos = ids
	return nil
}

// eosToken returns the text of a tokenizer_config.json's eos_token: a string
// or an AddedToken object; "" if there is none.
func eosToken(data []byte) (string, error) {
	if data == nil {
		return "", nil
	}
	o, err := parseObject("tokenizer_config.json", data)
	if err != nil {
		return "", err
	}
	content := ""
	if o.has("eos_token") && o.keys["eos_token"].Kind() == '{' {
		content = o.object("eos_token").string("content", "")
	} else {
		content = o.string("eos_token", "")
	}
	return content, o.err()
}

// tokenID finds a token in tokenizer.json: among the added tokens, else in the
// vocabulary; -1 if it is in neither. It reads the file as a stream and stops
// at the first hit, because decoding a large vocabulary takes a second.
func tokenID(tokenizerJSON []byte, content string) (int64, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(tokenizerJSON), jsontext.AllowDuplicateNames(true))
	id := int64(-1)
	err := eachMember(d, func(name string) error {
		switch {
		case name == "added_tokens":
			return findAdded(d, content, &id)
		case name == "model" && d.PeekKind() == '{':
			return eachMember(d, func(name string) error {
				if name == "vocab" && d.PeekKind() == '{' {
					return findInVocab(d, content, &id)
				}
				return d.SkipValue()
			})
		}
		return d.SkipValue()
	})
	if err != nil && !errors.Is(err, errFound) {
		return -1, fmt.Errorf("tokenizer.json: %w: %v", ErrInvalid, err)
	}
	return id, nil
}

// errFound ends a walk early.
var errFound = errors.New("found")

// eachMember reads an object and calls f before each value, which f consumes.
func eachMember(d *jsontext.Decoder, f func(name string) error) error {
	if kind := d.PeekKind(); kind != '{' {
		return fmt.Errorf("an object was expected, not %v", kind)
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

func findAdded(d *jsontext.Decoder, content string, id *int64) error {
	var tokens []struct {
		ID      int64  `json:"id"`
		Content string `json:"content"`
	}
	if err := json.UnmarshalDecode(d, &tokens); err != nil {
		return err
	}
	for _, t := range tokens {
		if t.Content == content {
			*id = t.ID
			return errFound
		}
	}
	return nil
}

func findInVocab(d *jsontext.Decoder, content string, id *int64) error {
	return eachMember(d, func(name string) error {
		if name != content {
			return d.SkipValue()
		}
		if err := json.UnmarshalDecode(d, id); err != nil {
			return err
		}
		return errFound
	})
}

// readOptional returns nil for a file that is not there.
func readOptional(fsys fs.FS, name string) ([]byte, error) {
	data, err := fs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}
