// Package weights holds the weights of package builtin's model: one safetensors
// file of BF16 tensors with transformers' Llama names, embeddings tied.
package weights

import (
	"embed"
	"io/fs"
)

//go:embed model.safetensors
var files embed.FS

// FS holds model.safetensors at its root.
var FS fs.FS = files
