package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// object builds JSON objects in tests.
type object = map[string]any

// minimal returns a tokenizer.json of three letters and two merges, with some
// of its parts replaced; a nil part is left out.
func minimal(parts object) []byte {
	byteLevel := object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	file := object{
		"version":        "1.0",
		"truncation":     nil,
		"padding":        nil,
		"added_tokens":   []object{},
		"normalizer":     nil,
		"pre_tokenizer":  byteLevel,
		"post_processor": nil,
		"decoder":        byteLevel,
		"model":          modelOf(nil),
	}
	return merged(file, parts)
}

// modelOf returns the model of minimal, with some members replaced.
func modelOf(members object) json.RawMessage {
	return merged(object{
		"type":   "BPE",
		"vocab":  object{"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4},
		"merges": []string{"a b", "ab c"},
	}, members)
}

func merged(base, changes object) []byte {
	maps.Copy(base, changes)
	maps.DeleteFunc(base, func(name string, value any) bool {
		_, changed := changes[name]
		return changed && value == nil
	})
	data, err := json.Marshal(base)
	if err != nil {
		panic(err)
	}
	return data
}

// addedOf returns an entry of added_tokens, with some members replaced.
func addedOf(id int, content string, members object) object {
	entry := object{"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}
	maps.Copy(entry, members)
	return entry
}

func split1(pattern any, behavior string) object {
	return object{"type": "Sequence", "pretokenizers": []object{
		{"type": "Split", "pattern": pattern, "behavior": behavior, "invert": false},
		{"type": "ByteLevel", "add_prefix_space": false},
	}}
}

func TestLoadErrors(t *testing.T) {
	valid := minimal(nil)
	for _, tt := range []struct {
		name string
		json []byte
		kind error
		want string // in the message
	}{
		{"empty", nil, ErrInvalid, "EOF"},
		{"truncated", valid[:len(valid)-20], ErrInvalid, "EOF"},
		{"not an object", []byte("[]"), ErrInvalid, "the file holds [ where an object belongs"},
		{"two values", append(slices.Clone(valid), "{}"...), ErrInvalid, "more after"},
		{"invalid UTF-8", []byte("{\"\xff\":1}"), ErrInvalid, "UTF-8"},
		{"version", minimal(object{"version": "2.0"}), ErrUnsupported, "version"},
		{"unknown member", minimal(object{"novelty": 1}), ErrUnsupported, `member "novelty"`},
		{"no model", minimal(object{"model": nil}), ErrInvalid, "no model"},

		{"model type", minimal(object{"model": modelOf(object{"type": "WordLevel"})}), ErrUnsupported, `model.type "WordLevel" (served: "BPE", "Unigram", "WordPiece")`},
		{"no vocab", minimal(object{"model": modelOf(object{"vocab": nil})}), ErrInvalid, "no vocab"},
		{"no merges", minimal(object{"model": modelOf(object{"merges": nil})}), ErrInvalid, "no merges"},
		{"neither type nor merges", minimal(object{"model": modelOf(object{"type": nil, "merges": nil})}), ErrUnsupported, "model.type"},
		{"vocab is a list", minimal(object{"model": modelOf(object{"vocab": []string{}})}), ErrInvalid, "model.vocab of a BPE has the wrong form"},
		{"vocab is a number", minimal(object{"model": modelOf(object{"vocab": 1})}), ErrInvalid, "/vocab holds 1 where an object belongs"},
		{"id is no number", minimal(object{"model": modelOf(object{"vocab": object{"a": "0"}})}), ErrInvalid, "no whole number"},
		{"id is a fraction", minimal(object{"model": modelOf(object{"vocab": object{"a": 0.5}})}), ErrInvalid, "no whole number"},
		{"negative id", minimal(object{"model": modelOf(object{"vocab": object{"a": -1}})}), ErrInvalid, "-1, outside 0 to 4194303"},
		{"huge id", minimal(object{"model": modelOf(object{"vocab": object{"a": 1 << 31}})}), ErrInvalid, "outside 0 to 4194303"},
		{"same id twice", minimal(object{"model": modelOf(object{"vocab": object{"a": 1, "b": 1}})}), ErrInvalid, "have the same id 1"},
		{"same token twice", []byte(`{"model":{"type":"BPE","vocab":{"a":0,"a":1},"merges":[]}}`), ErrInvalid, `"a" has two ids, 0 and 1`},
		{"merge of an unknown token", minimal(object{"model": modelOf(object{"merges": []string{"a z"}})}), ErrInvalid, `needs the token "z"`},
		{"merge to an unknown token", minimal(object{"model": modelOf(object{"merges": []string{"b a"}})}), ErrInvalid, `needs the token "ba"`},
		{"merge of one", minimal(object{"model": modelOf(object{"merges": []string{"ab"}})}), ErrInvalid, `"ab" is not two tokens`},
		{"merge of three", minimal(object{"model": modelOf(object{"merges": []string{"a b c"}})}), ErrInvalid, "not two tokens"},
		{"merge pair of one", minimal(object{"model": modelOf(object{"merges": [][]string{{"a"}}})}), ErrInvalid, "an array of 1"},
		{"merge pair of three", minimal(object{"model": modelOf(object{"merges": [][]string{{"a", "b", "c"}}})}), ErrInvalid, "an array of 3"},
		{"merge is a number", minimal(object{"model": modelOf(object{"merges": []int{1}})}), ErrInvalid, "holds 1 where a string belongs"},
		{"dropout", minimal(object{"model": modelOf(object{"dropout": 0.1})}), ErrUnsupported, "model.dropout 0.1"},
		{"prefix", minimal(object{"model": modelOf(object{"continuing_subword_prefix": "##"})}), ErrUnsupported, "model.continuing_subword_prefix"},
		{"suffix", minimal(object{"model": modelOf(object{"end_of_word_suffix": "</w>"})}), ErrUnsupported, "model.end_of_word_suffix"},
		{"byte fallback", minimal(object{"model": modelOf(object{"byte_fallback": true})}), ErrUnsupported, "model.byte_fallback"},
		{"unknown model option", minimal(object{"model": modelOf(object{"novelty": 1})}), ErrUnsupported, "model.novelty"},
		{"unk not there", minimal(object{"model": modelOf(object{"unk_token": "<unk>"})}), ErrInvalid, `unk_token "<unk>" is not in the vocabulary`},

		{"added lacks a member", minimal(object{"added_tokens": []object{{"id": 5, "content": "x"}}}), ErrInvalid, "added_tokens[0] lacks"},
		{"added has a new member", minimal(object{"added_tokens": []object{addedOf(5, "x", object{"color": 1})}}), ErrUnsupported, "member color"},
		{"added is empty", minimal(object{"added_tokens": []object{addedOf(5, "", nil)}}), ErrInvalid, "is empty"},
		{"added ids alike", minimal(object{"added_tokens": []object{addedOf(5, "x", nil), addedOf(5, "y", nil)}}), ErrInvalid, "same id 5"},
		{"added contents alike", minimal(object{"added_tokens": []object{addedOf(5, "x", nil), addedOf(6, "x", nil)}}), ErrInvalid, "two ids"},
		{"added contradicts the vocabulary", minimal(object{"added_tokens": []object{addedOf(5, "ab", nil)}}), ErrInvalid, "has id 5, but 3"},
		{"added takes another's id", minimal(object{"added_tokens": []object{addedOf(3, "x", nil)}}), ErrInvalid, `the id 3 of the vocabulary's "ab"`},
		{"added id is huge", minimal(object{"added_tokens": []object{addedOf(1<<30, "x", nil)}}), ErrInvalid, "outside 0 to"},
		{
			"added alike when normalized",
			minimal(object{"normalizer": object{"type": "NFC"}, "added_tokens": []object{
				addedOf(5, "é", object{"normalized": true}), addedOf(6, "e\u0301", object{"normalized": true}),
			}}),
			ErrInvalid, "the same when normalized",
		},
		{
			"added vanishes when normalized",
			minimal(object{"normalizer": object{"type": "Strip", "strip_left": true, "strip_right": true}, "added_tokens": []object{
				addedOf(5, " ", object{"normalized": true}),
			}}),
			ErrInvalid, "empty when normalized",
		},

		{"normalizer", minimal(object{"normalizer": object{"type": "Uppercase"}}), ErrUnsupported, `normalizer: not supported: type "Uppercase" (served: BertNormalizer`},
		{"nested normalizer", minimal(object{"normalizer": object{"type": "Sequence", "normalizers": []object{{"type": "NFC"}, {"type": "ByteLevel"}}}}), ErrUnsupported, `normalizer.normalizers[1]: not supported: type "ByteLevel"`},
		{"normalizer option", minimal(object{"normalizer": object{"type": "NFC", "x": 1}}), ErrUnsupported, "member x"},
		{"normalizer without type", minimal(object{"normalizer": object{}}), ErrUnsupported, `type ""`},
		{"replace nothing", minimal(object{"normalizer": object{"type": "Replace", "pattern": object{"String": ""}, "content": "x"}}), ErrUnsupported, "empty pattern"},

		{"no pre-tokenizer", minimal(object{"pre_tokenizer": nil}), ErrUnsupported, `decoder: not supported: type "ByteLevel" (served: ByteFallback,`},
		{"pre-tokenizer", minimal(object{"pre_tokenizer": object{"type": "UnicodeScripts"}}), ErrUnsupported, `pre_tokenizer: not supported: type "UnicodeScripts"`},
		{"pre-tokenizer without ByteLevel", minimal(object{"pre_tokenizer": object{"type": "Digits", "individual_digits": true}}), ErrUnsupported, "ByteLevel"},
		{"ByteLevel in the middle", minimal(object{"pre_tokenizer": object{"type": "Sequence", "pretokenizers": []object{{"type": "ByteLevel"}, {"type": "Digits"}}}}), ErrUnsupported, "not its last stage"},
		{"split behavior", minimal(object{"pre_tokenizer": split1(object{"String": "a"}, "Doubled")}), ErrUnsupported, `behavior "Doubled"`},
		{"split without pattern", minimal(object{"pre_tokenizer": split1(object{}, "Isolated")}), ErrInvalid, "neither a String nor a Regex"},
		{"split pattern", minimal(object{"pre_tokenizer": split1(object{"Regex": `a\bb`}, "Isolated")}), ErrUnsupported, `pretokenizers[0]: not supported: \b`},

		{"post-processor", minimal(object{"post_processor": object{"type": "Novel"}}), ErrUnsupported, `post_processor: not supported: type "Novel"`},
		{"template id", minimal(object{"post_processor": object{"type": "RobertaProcessing", "sep": []any{"x", 99}, "cls": []any{"a", 0}}}), ErrInvalid, "adds the id 99"},
		{"template pair", minimal(object{"post_processor": object{"type": "RobertaProcessing", "sep": []any{"x"}, "cls": []any{"a", 0}}}), ErrInvalid, "not a token and its id"},
		{
			"two templates",
			minimal(object{"post_processor": object{"type": "Sequence", "processors": []object{
				{"type": "BertProcessing", "sep": []any{"b", 1}, "cls": []any{"a", 0}},
				{"type": "BertProcessing", "sep": []any{"b", 1}, "cls": []any{"a", 0}},
			}}}),
			ErrUnsupported, "processors[1]: not supported: a second template",
		},
		{
			"template names what is not there",
			minimal(object{"post_processor": object{"type": "TemplateProcessing", "single": []object{{"SpecialToken": object{"id": "x", "type_id": 0}}}, "pair": []object{}, "special_tokens": object{}}}),
			ErrInvalid, `single[0] names "x"`,
		},
		{
			"template without text",
			minimal(object{"post_processor": object{"type": "TemplateProcessing", "single": []object{}, "pair": []object{}, "special_tokens": object{}}}),
			ErrUnsupported, "the text 0 times",
		},

		{"no decoder", minimal(object{"decoder": nil}), ErrUnsupported, "decoder: not supported: none"},
		{"decoder", minimal(object{"decoder": object{"type": "WordPiece"}}), ErrUnsupported, `decoder: not supported: type "WordPiece"`},
		{"decoder sequence", minimal(object{"decoder": object{"type": "Sequence", "decoders": []object{{"type": "ByteLevel"}, {"type": "Strip"}}}}), ErrUnsupported, `decoders[1]: not supported: type "Strip"`},
		{"empty decoder sequence", minimal(object{"decoder": object{"type": "Sequence", "decoders": []object{}}}), ErrUnsupported, "an empty Sequence"},
	} {
		tok, err := Load(tt.json, nil)
		if tok != nil || !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "tokenizer.json: ") {
			t.Errorf("%s: Load = %v, %v, want tokenizer.json: %v … %s", tt.name, tok, err, tt.kind, tt.want)
		}
	}
}

func TestLoadForms(t *testing.T) {
	for _, tt := range []struct {
		name string
		json []byte
	}{
		{"plain", minimal(nil)},
		{"merges as pairs", minimal(object{"model": modelOf(object{"merges": [][]string{{"a", "b"}, {"ab", "c"}}})})},
		{"merges with a version line", minimal(object{"model": modelOf(object{"merges": []string{"#version: 0.2", "a b", "ab c"}})})},
		{"no type", minimal(object{"model": modelOf(object{"type": nil})})},
		{"no version", minimal(object{"version": nil})},
		{"truncation and padding", minimal(object{"truncation": object{"max_length": 1}, "padding": object{"length": 9}})},
		{"idle options", minimal(object{"model": modelOf(object{"dropout": 0.0, "continuing_subword_prefix": "", "fuse_unk": false})})},
		{"empty normalizers", minimal(object{"normalizer": object{"type": "Sequence", "normalizers": []object{}}})},
		{"merges before the vocabulary", []byte(strings.Replace(string(minimal(object{"model": nil})), "{",
			`{"model":{"merges":["a b","ab c"],"type":"BPE","vocab":{"a":0,"b":1,"c":2,"ab":3,"abc":4}},`, 1))},
		{"escapes", []byte(strings.Replace(string(minimal(nil)), `"abc":4`, `"\u0061b\u0063":4`, 1))},
	} {
		tok, err := Load(tt.json, nil)
		if err != nil {
			t.Errorf("%s: Load = %v", tt.name, err)
			continue
		}
		if got, err := tok.Encode("abcab", true); err != nil || !slices.Equal(got, []int32{4, 3}) {
			t.Errorf("%s: Encode(abcab) = %v, %v, want [4 3]", tt.name, got, err)
		}
	}
}

func TestLoadConfig(t *testing.T) {
	file := minimal(object{"added_tokens": []object{addedOf(7, "<s>", object{"special": false}), addedOf(8, "</s>", nil)}})
	for _, tt := range []struct {
		name, config string
		bos, eos     int32 // -1: none
		text         string
		ids          []int32
		special      []int32
	}{
		{"none", `{}`, -1, -1, "<s>abc</s>", []int32{7, 4, 8}, []int32{8}},
		{"strings", `{"bos_token": "<s>", "eos_token": "</s>"}`, 7, 8, "a<s>", []int32{0, 7}, []int32{7, 8}},
		{"null", `{"bos_token": null, "eos_token": "</s>", "model_max_length": 1e30}`, -1, 8, "a", []int32{0}, []int32{8}},
		{"objects", `{"bos_token": {"__type": "AddedToken", "content": "<s>", "lstrip": false}}`, 7, -1, "a", []int32{0}, []int32{7, 8}},
		{"a token of the vocabulary becomes an added one", `{"eos_token": "ab"}`, -1, 3, "abc", []int32{3, 2}, []int32{3, 8}},
		{"a token that is nowhere is left out", `{"pad_token": "[PAD]", "additional_special_tokens": ["[X]"]}`, -1, -1, "a", []int32{0}, []int32{8}},
		{"additional tokens", `{"additional_special_tokens": ["<s>", {"content": "c"}]}`, -1, -1, "abc", []int32{3, 2}, []int32{2, 7, 8}},
		{"extra tokens by name", `{"extra_special_tokens": {"image_token": "<s>"}}`, -1, -1, "a", []int32{0}, []int32{7, 8}},
		{
			"added_tokens_decoder overrides and adds",
			`{"added_tokens_decoder": {"7": {"content": "<s>", "rstrip": true, "special": true}, "9": {"content": "<new>", "special": false}}}`,
			-1, -1, "<s>  a<new>", []int32{7, 0, 9}, []int32{7, 8},
		},
	} {
		tok, err := Load(file, []byte(tt.config))
		if err != nil {
			t.Errorf("%s: Load = %v", tt.name, err)
			continue
		}
		bos, hasBOS := tok.BOS()
		eos, hasEOS := tok.EOS()
		if bos != tt.bos || hasBOS != (tt.bos >= 0) || eos != tt.eos || hasEOS != (tt.eos >= 0) {
			t.Errorf("%s: BOS, EOS = %d, %d, want %d, %d", tt.name, bos, eos, tt.bos, tt.eos)
		}
		if got, err := tok.Encode(tt.text, false); err != nil || !slices.Equal(got, tt.ids) {
			t.Errorf("%s: Encode(%q) = %v, %v, want %v", tt.name, tt.text, got, err, tt.ids)
		}
		var special []int32
		for id := range int32(tok.VocabSize()) {
			if tok.IsSpecial(id) {
				special = append(special, id)
			}
		}
		if !slices.Equal(special, tt.special) {
			t.Errorf("%s: special ids = %v, want %v", tt.name, special, tt.special)
		}
	}
}

func TestLoadConfigErrors(t *testing.T) {
	file := minimal(object{"added_tokens": []object{addedOf(7, "<s>", nil)}})
	for _, tt := range []struct {
		config string
		kind   error
		want   string
	}{
		{`{`, ErrInvalid, "EOF"},
		{`[]`, ErrInvalid, "array"},
		{`{"eos_token": 5}`, ErrInvalid, "eos_token"},
		{`{"eos_token": "</s>"}`, ErrInvalid, `eos_token "</s>" is not in the vocabulary`},
		{`{"split_special_tokens": true}`, ErrUnsupported, "split_special_tokens"},
		{`{"added_tokens_decoder": {"x": {"content": "y"}}}`, ErrInvalid, `the id "x"`},
		{`{"added_tokens_decoder": {"9": {"content": "<s>"}}}`, ErrInvalid, `gives "<s>" the id 9, tokenizer.json 7`},
		{`{"added_tokens_decoder": {"2": {"content": "x"}}}`, ErrInvalid, `the id 2 of the vocabulary's "c"`},
	} {
		_, err := Load(file, []byte(tt.config))
		if !errors.Is(err, tt.kind) || !strings.Contains(fmt.Sprint(err), tt.want) || !strings.HasPrefix(fmt.Sprint(err), "tokenizer_config.json: ") {
			t.Errorf("Load(…, %s) = %v, want tokenizer_config.json: %v … %s", tt.config, err, tt.kind, tt.want)
		}
	}
}
