package modelfile

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
)

// GGUFVocabulary is the tokenizer in a GGUF file's metadata, as it stands
// there. Slices are nil, and pointers too, where the file says nothing.
type GGUFVocabulary struct {
	Model  string    // tokenizer.ggml.model: "gpt2", "llama", "t5", "bert", …
	Pre    string    // tokenizer.ggml.pre: which pre-tokenizer
	Tokens []string  // by ID
	Scores []float32 // [len(Tokens)]
	Types  []int32   // [len(Tokens)]: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
	Merges []string  // "left right", best first

	// IDs of special tokens, -1 where there is none.
	BOS, EOS, EOT, EOM, Unk, Sep, Pad, Mask int32

	AddBOS, AddEOS, AddSep, AddSpacePrefix, RemoveExtraWhitespaces *bool
	PrecompiledCharsmap                                            []byte // as in SentencePiece
}

// ggufSpecial are the special tokens, named as tokenizer_config.json does.
var ggufSpecial = []struct {
	key, name string
	id        func(*GGUFVocabulary) *int32
}{
	{"bos_token_id", "bos_token", func(v *GGUFVocabulary) *int32 { return &v.BOS }},
	{"eos_token_id", "eos_token", func(v *GGUFVocabulary) *int32 { return &v.EOS }},
	{"eot_token_id", "", func(v *GGUFVocabulary) *int32 { return &v.EOT }},
	{"eom_token_id", "", func(v *GGUFVocabulary) *int32 { return &v.EOM }},
	{"unknown_token_id", "unk_token", func(v *GGUFVocabulary) *int32 { return &v.Unk }},
	{"seperator_token_id", "sep_token", func(v *GGUFVocabulary) *int32 { return &v.Sep }}, // the format's spelling
	{"padding_token_id", "pad_token", func(v *GGUFVocabulary) *int32 { return &v.Pad }},
	{"mask_token_id", "mask_token", func(v *GGUFVocabulary) *int32 { return &v.Mask }},
}

// ggufEnds are texts of tokens that end a turn. A file names one end, and chat
// models often have another; llama.cpp stops at these, and so do we, where the
// vocabulary marks them as special.
// Source: src/llama-vocab.cpp of llama.cpp.
var ggufEnds = []string{"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<|eom_id|>", "<EOT>", "_<EOT>"}

const (
	ggufControl     = 3
	ggufUserDefined = 4
)

// vocabulary reads the tokenizer; nil if there is none.
func (g *ggufFile) vocabulary() (*GGUFVocabulary, error) {
	const prefix = "tokenizer.ggml."
	if !g.has(prefix + "tokens") {
		return nil, nil
	}
	v := &GGUFVocabulary{
		Model:                  g.string(prefix+"model", ""),
		Pre:                    g.string(prefix+"pre", ""),
		Tokens:                 g.strings(prefix + "tokens"),
		Merges:                 g.strings(prefix + "merges"),
		AddBOS:                 g.bool(prefix + "add_bos_token"),
		AddEOS:                 g.bool(prefix + "add_eos_token"),
		AddSep:                 g.bool(prefix + "add_sep_token"),
		AddSpacePrefix:         g.bool(prefix + "add_space_prefix"),
		RemoveExtraWhitespaces: g.bool(prefix + "remove_extra_whitespaces"),
		PrecompiledCharsmap:    slices.Clone(g.bytes(prefix + "precompiled_charsmap")),
	}
	v.Scores = numbers[float32](&g.metadata, prefix+"scores", len(v.Tokens))
	v.Types = numbers[int32](&g.metadata, prefix+"token_type", len(v.Tokens))
	for _, s := range ggufSpecial {
		*s.id(v) = g.tokenID(prefix+s.key, len(v.Tokens))
	}
	return v, g.err()
}

// tokenID reads an ID below n; -1 if there is none. Files say "none" with the
// largest uint32, too.
func (g *ggufFile) tokenID(key string, n int) int32 {
	v, ok := g.values[key]
	if !ok {
		return -1
	}
	id, ok := v.int()
	if ok && (id == -1 || id == 1<<32-1) {
		return -1
	}
	if !ok || id < 0 || id >= int64(n) {
		g.invalid(key, fmt.Sprintf("a token ID below %d", n))
		return -1
	}
	return int32(id)
}

// eosTokenIDs are the tokens that end a sequence: the file's own first.
func (g *ggufFile) eosTokenIDs(vocab int) []int32 {
	var ids []int32
	add := func(id int32) {
		if id >= 0 && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, key := range []string{"eos_token_id", "eot_token_id", "eom_token_id"} {
		add(g.tokenID("tokenizer.ggml."+key, vocab))
	}
	v, ok := g.values["tokenizer.ggml.token_type"]
	tokens := g.values["tokenizer.ggml.tokens"]
	if !ok || v.kind != ggufArray || v.count != tokens.count {
		return ids
	}
	tokens.eachString(func(i int, text []byte) {
		if t, _ := v.at(i).int(); (t == ggufControl || t == ggufUserDefined) && slices.Contains(ggufEnds, string(text)) {
			add(int32(i))
		}
	})
	return ids
}

const ggufTemplate = "tokenizer.chat_template"

// chatTemplates returns the templates that the file names beside the default,
// as tokenizer_config.json lists them; nil if it has the default at most.
func (g *ggufFile) chatTemplates() []map[string]string {
	names := g.strings("tokenizer.chat_templates")
	if len(names) == 0 {
		return nil
	}
	list := []map[string]string{{"name": "default", "template": g.string(ggufTemplate, "")}}
	for _, name := range names {
		key := ggufTemplate + "." + name
		if !g.has(key) {
			g.missing(key)
		}
		list = append(list, map[string]string{"name": name, "template": g.string(key, "")})
	}
	return list
}

// tokenizerConfig says in tokenizer_config.json's words what the metadata
// knows of it.
func (g *ggufFile) tokenizerConfig(v *GGUFVocabulary) ([]byte, error) {
	config := map[string]any{}
	if list := g.chatTemplates(); list != nil {
		config["chat_template"] = list
	}
	for _, s := range ggufSpecial {
		if id := *s.id(v); id >= 0 && s.name != "" {
			config[s.name] = v.Tokens[id]
		}
	}
	for name, value := range map[string]*bool{"add_bos_token": v.AddBOS, "add_eos_token": v.AddEOS} {
		if value != nil {
			config[name] = *value
		}
	}
	return json.Marshal(config, json.Deterministic(true))
}

// ggufSampling has the keys of generation_config.json that metadata can hold.
var ggufSampling = map[string]string{
	"general.sampling.temp":           "temperature",
	"general.sampling.top_p":          "top_p",
	"general.sampling.top_k":          "top_k",
	"general.sampling.min_p":          "min_p",
	"general.sampling.penalty_repeat": "repetition_penalty",
}

// generation returns the sampling defaults as a generation_config.json.
func (g *ggufFile) generation() ([]byte, error) {
	config := map[string]any{}
	for key, name := range ggufSampling {
		if v, ok := g.values[key]; ok {
			f, ok := v.float()
			if !ok {
				g.invalid(key, "a number")
			}
			config[name] = float32(f) // the shortest text that is this float32
		}
	}
	if err := g.err(); err != nil {
		return nil, err
	}
	return json.Marshal(config, json.Deterministic(true))
}
