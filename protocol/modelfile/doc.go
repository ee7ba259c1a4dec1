// Package modelfile reads the files of a model: what both processes must agree
// on (config, tokenizer files, sampling defaults, limits) and the weights that
// only the engine opens.
//
// A model is the word "builtin", a GGUF file, which holds all of it (see
// ggufFile, and GGUFVocabulary for the tokenizer), or a directory as Hugging
// Face lays it out:
//
//	config.json                   architecture and sizes; required
//	generation_config.json        sampling defaults, extra stop tokens
//	tokenizer.json or tokenizer.model, tokenizer_config.json, chat_template.jinja
//	model.safetensors, or model.safetensors.index.json and its shards
//
// Package hub fetches such directories and GGUF files from the Hugging Face hub.
//
// A directory without config.json that holds one GGUF file is that file; a
// GGUF file split into shards is called by the first.
//
// Config describes a decoder in neutral words. Each architecture has one
// small reader (see families.go), and what config.json asks of the computation
// beyond that is refused by name and value, never ignored: see changesResult.
//
// Weights are mapped, not read: a Tensor is a view into the file, under the name
// that Hugging Face's checkpoints give it. Values may be F32, F16 or BF16, the
// blocks of a GGUF file (see ggml.go), or what a quantization_config packs (see
// Quantization); Decode makes float32 of any. A file that is cut short while it
// is mapped kills the process, as with any mapping.
//
// Headers cost memory in proportion to their bytes, whatever they claim.
package modelfile

import "errors"

// Every error of this package names the file, and wraps one of these.
var (
	// ErrNotFound reports a model, or a file of it, that is not there.
	ErrNotFound = errors.New("not found")
	// ErrInvalid reports a file that breaks its format or contradicts another.
	ErrInvalid = errors.New("invalid")
	// ErrUnsupported reports a valid wish that this project can't fulfil.
	ErrUnsupported = errors.New("not supported")
)
