package tokenizer_test

import (
	"fmt"

	"govllm/frontend/tokenizer"
)

// A tokenizer.json with five letters and a space, and four merges.
const tokenizerJSON = `{
  "version": "1.0",
  "added_tokens": [
    {"id": 10, "content": "<|end|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}
  ],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
  "post_processor": {
    "type": "TemplateProcessing",
    "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<|end|>", "type_id": 0}}],
    "pair": [],
    "special_tokens": {"<|end|>": {"id": "<|end|>", "ids": [10], "tokens": ["<|end|>"]}}
  },
  "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
  "model": {
    "type": "BPE",
    "vocab": {"e": 0, "l": 1, "m": 2, "t": 3, "Ġ": 4, "me": 5, "lt": 6, "melt": 7, "Ġme": 8},
    "merges": [["m", "e"], ["l", "t"], ["me", "lt"], ["Ġ", "me"]]
  }
}`

func Example() {
	tok, err := tokenizer.Load([]byte(tokenizerJSON), []byte(`{"eos_token": "<|end|>"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	ids, err := tok.Encode("melt me", true)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range ids {
		token, _ := tok.IDToToken(id)
		fmt.Printf("%d %s %q\n", id, token, tok.TokenBytes(id))
	}
	fmt.Println(tok.Decode(ids, true))
	// Output:
	// 7 melt "melt"
	// 8 Ġme " me"
	// 10 <|end|> "<|end|>"
	// melt me
}

// The two tokens below are the halves of one character.
func ExampleDetokenizer() {
	const halves = `{
	  "added_tokens": [],
	  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
	  "decoder": {"type": "ByteLevel", "add_prefix_space": false},
	  "model": {"type": "BPE", "vocab": {"a": 0, "Ã": 1, "©": 2}, "merges": []}
	}`
	tok, err := tokenizer.Load([]byte(halves), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	d := tok.NewDetokenizer(nil, true)
	for _, id := range []int32{0, 1, 2, 1} {
		fmt.Printf("%q ", d.Append(id))
	}
	fmt.Printf("%q\n", d.Flush())
	// Output: "a" "" "é" "" "�"
}

func ExampleLoad_unsupported() {
	_, err := tokenizer.Load([]byte(`{"model": {"type": "WordLevel", "vocab": {"a": 0}}}`), nil)
	fmt.Println(err)
	// Output: tokenizer.json: not supported: model.type "WordLevel" (served: "BPE", "Unigram", "WordPiece")
}
