// Package builtin holds the model a bare binary serves: its config and
// tokenizer files, as an ordinary Hugging Face directory has them.
//
// It is a Llama of 2.5 million parameters: 6 layers, hidden size 192, 6 query
// heads over 2 KV heads of 32, context 1,024, tied embeddings, a byte-level BPE
// of 2,048 tokens. It was trained on fairy tales alone (train/README.md says how),
// takes 1.437 bits per byte on tales held out, and answers a chat with a
// paragraph or so of one. Any program that reads Llama directories can load it.
//
// The weights are a package of their own, [govllm/protocol/modelfile/builtin/weights],
// so that a binary which only needs the tokenizer does not carry them.
package builtin

import (
	"embed"
	"io/fs"
)

//go:embed config.json generation_config.json tokenizer.json tokenizer_config.json
var files embed.FS

// FS holds config.json, generation_config.json, tokenizer.json and
// tokenizer_config.json at its root.
var FS fs.FS = files
