package hub_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"govllm/protocol/modelfile/hub"
)

func TestParseName(t *testing.T) {
	for _, tc := range []struct {
		name, repo, gguf string
		ok               bool
	}{
		{"HuggingFaceTB/SmolLM2-135M-Instruct", "HuggingFaceTB/SmolLM2-135M-Instruct", "", true},
		{"unsloth/Qwen3-0.6B-GGUF:Q4_K_M", "unsloth/Qwen3-0.6B-GGUF", "Q4_K_M", true},
		{"unsloth/Qwen3-0.6B-GGUF:sub/Qwen3-0.6B-Q4_K_M.gguf", "unsloth/Qwen3-0.6B-GGUF", "sub/Qwen3-0.6B-Q4_K_M.gguf", true},
		{"a/b.c_d", "a/b.c_d", "", true},
		{name: "builtin"},
		{name: "./a/b"},
		{name: "../b"},
		{name: "/a/b"},
		{name: "a/b/c"},
		{name: "a/b/"},
		{name: "~/b"},
		{name: "a/b:"},
		{name: "a/b..c"},
		{name: "a/b--c"},
		{name: "a/b.git"},
		{name: "a/../b"},
		{name: "models/tiny.gguf"},
		{name: "models/tiny.GGUF"},
		{name: "a/" + strings.Repeat("b", 100)},
	} {
		repo, gguf, ok := hub.ParseName(tc.name)
		if repo != tc.repo || gguf != tc.gguf || ok != tc.ok {
			t.Errorf("ParseName(%q) = %q, %q, %t, want %q, %q, %t", tc.name, repo, gguf, ok, tc.repo, tc.gguf, tc.ok)
		}
	}
}

func TestChoose(t *testing.T) {
	const index = `{"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}`
	for _, tc := range []struct {
		name  string
		files []string
		part  hub.Part
		gguf  string
		want  []string
		is    error
	}{
		{name: "sentencepiece alone", files: []string{"config.json", "tokenizer.model", "vocab.json"},
			part: hub.Description, want: []string{"config.json", "tokenizer.model"}},
		{name: "tekken alone, which the tokenizer refuses by name", files: []string{"tekken.json"}, part: hub.Tokenizer, want: []string{"tekken.json"}},
		{name: "no tokenizer", files: []string{"config.json"}, part: hub.Tokenizer, is: hub.ErrNotFound},
		{name: "model without tokenizer", files: []string{"config.json"}, part: hub.Description, want: []string{"config.json"}},
		{name: "shards", files: []string{"config.json", "model.safetensors.index.json", "model-1.safetensors", "model-2.safetensors", "consolidated.safetensors"},
			part: hub.Everything, want: []string{"config.json", "model-1.safetensors", "model-2.safetensors", "model.safetensors.index.json"}},
		{name: "a shard is missing", files: []string{"config.json", "model.safetensors.index.json", "model-1.safetensors"}, part: hub.Everything, is: hub.ErrNotFound},
		{name: "quantization", files: []string{"M-Q4_K_M.gguf", "M-Q4_K.gguf", "M-Q8_0.gguf"}, gguf: "Q4_K_M", want: []string{"M-Q4_K_M.gguf"}},
		{name: "any case, after a dot", files: []string{"m.q4_1.gguf"}, gguf: "Q4_1", want: []string{"m.q4_1.gguf"}},
		{name: "only whole words", files: []string{"M-IQ4_1.gguf"}, gguf: "Q4_1", is: hub.ErrNotFound},
		{name: "with a prefix", files: []string{"M-UD-Q4_K_XL.gguf", "M-Q4_K_XL.gguf"}, gguf: "UD-Q4_K_XL", want: []string{"M-UD-Q4_K_XL.gguf"}},
		{name: "the shorter name", files: []string{"M-UD-Q4_K_XL.gguf", "M-Q4_K_XL.gguf"}, gguf: "Q4_K_XL", want: []string{"M-Q4_K_XL.gguf"}},
		{name: "in a folder", files: []string{"Q8_0/M-Q8_0.gguf"}, gguf: "Q8_0", want: []string{"Q8_0/M-Q8_0.gguf"}},
		{name: "not the vision part", files: []string{"mmproj-F16.gguf", "M-F16.gguf"}, gguf: "F16", want: []string{"M-F16.gguf"}},
		{name: "split", files: []string{"M-F16-00001-of-00002.gguf", "M-F16-00002-of-00002.gguf", "M-Q8_0.gguf"}, gguf: "F16",
			want: []string{"M-F16-00001-of-00002.gguf", "M-F16-00002-of-00002.gguf"}},
		{name: "split, one is missing", files: []string{"M-F16-00001-of-00002.gguf"}, gguf: "F16", is: hub.ErrNotFound},
		{name: "split, by another's name", files: []string{"M-F16-00001-of-00002.gguf", "M-F16-00002-of-00002.gguf"}, gguf: "M-F16-00002-of-00002.gguf", is: hub.ErrInvalid},
		{name: "whole before split", files: []string{"M-F16-00001-of-00002.gguf", "M-F16-00002-of-00002.gguf", "M.F16.gguf"}, gguf: "F16", want: []string{"M.F16.gguf"}},
		{name: "by name", files: []string{"x/M.gguf", "M.gguf"}, gguf: "x/M.gguf", want: []string{"x/M.gguf"}},
		{name: "no such name", files: []string{"M.gguf"}, gguf: "N.gguf", is: hub.ErrNotFound},
	} {
		got, err := hub.Choose(tc.files, tc.part, tc.gguf, []byte(index))
		slices.Sort(got)
		if !errors.Is(err, tc.is) || (tc.is == nil && !slices.Equal(got, tc.want)) {
			t.Errorf("%s: choose(%v) = %v, %v, want %v, %v", tc.name, tc.files, got, err, tc.want, tc.is)
		}
	}
}
