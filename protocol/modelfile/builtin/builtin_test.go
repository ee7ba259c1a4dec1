package builtin_test

import (
	"encoding/binary"
	"encoding/json"
	"io/fs"
	"testing"

	"govllm/protocol/modelfile/builtin"
	"govllm/protocol/modelfile/builtin/weights"
)

// maxBytes is what the model may take in the repository, all files together.
const maxBytes = 6_000_000

func TestSize(t *testing.T) {
	total := 0
	for _, f := range []fs.FS{builtin.FS, weights.FS} {
		names, err := fs.Glob(f, "*")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			total += len(read(t, f, name))
		}
	}
	if total > maxBytes {
		t.Errorf("builtin files take %d bytes, want at most %d", total, maxBytes)
	}
}

// TestFilesAgree holds config, tokenizer and weights to one vocabulary, one
// context length and one end token.
func TestFilesAgree(t *testing.T) {
	var config struct {
		VocabSize  int `json:"vocab_size"`
		HiddenSize int `json:"hidden_size"`
		Layers     int `json:"num_hidden_layers"`
		Context    int `json:"max_position_embeddings"`
		EOS        int `json:"eos_token_id"`
	}
	var generation struct {
		EOS int `json:"eos_token_id"`
	}
	var tokenizer struct {
		Model struct {
			Vocab map[string]int `json:"vocab"`
		} `json:"model"`
	}
	var settings struct {
		EOS     string `json:"eos_token"`
		Context int    `json:"model_max_length"`
	}
	unmarshal(t, "config.json", &config)
	unmarshal(t, "generation_config.json", &generation)
	unmarshal(t, "tokenizer.json", &tokenizer)
	unmarshal(t, "tokenizer_config.json", &settings)

	if got := len(tokenizer.Model.Vocab); got != config.VocabSize {
		t.Errorf("tokenizer.json has %d tokens, want config.json's %d", got, config.VocabSize)
	}
	if got := tokenizer.Model.Vocab[settings.EOS]; got != config.EOS {
		t.Errorf("id of %q = %d, want config.json's eos_token_id %d", settings.EOS, got, config.EOS)
	}
	if generation.EOS != config.EOS {
		t.Errorf("generation_config.json eos_token_id = %d, want config.json's %d", generation.EOS, config.EOS)
	}
	if settings.Context != config.Context {
		t.Errorf("model_max_length = %d, want config.json's %d", settings.Context, config.Context)
	}

	shapes := tensorShapes(t)
	embedding := shapes["model.embed_tokens.weight"]
	if len(embedding) != 2 || embedding[0] != config.VocabSize || embedding[1] != config.HiddenSize {
		t.Errorf("embedding has shape %v, want [%d %d]", embedding, config.VocabSize, config.HiddenSize)
	}
	// Nine tensors a layer, the embedding and the last norm: no lm_head, it is tied.
	if want := 9*config.Layers + 2; len(shapes) != want {
		t.Errorf("model.safetensors has %d tensors, want %d", len(shapes), want)
	}
}

// tensorShapes reads the header of model.safetensors.
func tensorShapes(t *testing.T) map[string][]int {
	t.Helper()
	data := read(t, weights.FS, "model.safetensors")
	size := binary.LittleEndian.Uint64(data)
	var header map[string]struct {
		Shape []int `json:"shape"`
	}
	if err := json.Unmarshal(data[8:8+size], &header); err != nil {
		t.Fatalf("model.safetensors header: %v", err)
	}
	shapes := map[string][]int{}
	for name, tensor := range header {
		if name != "__metadata__" {
			shapes[name] = tensor.Shape
		}
	}
	return shapes
}

func unmarshal(t *testing.T, name string, v any) {
	t.Helper()
	if err := json.Unmarshal(read(t, builtin.FS, name), v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func read(t *testing.T, f fs.FS, name string) []byte {
	t.Helper()
	data, err := fs.ReadFile(f, name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
