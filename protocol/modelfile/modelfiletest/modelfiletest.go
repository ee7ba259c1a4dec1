// Package modelfiletest makes small model directories for tests: random
// weights from a seed, in the layout that modelfile reads.
package modelfiletest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// Tensor is one entry of a safetensors file.
type Tensor struct {
	Name  string
	DType string
	Shape []int
	Data  []byte
}

// Safetensors returns the bytes of a file that holds the tensors in order.
func Safetensors(tensors ...Tensor) []byte {
	var header, body bytes.Buffer
	header.WriteString(`{"__metadata__":{"format":"pt"}`)
	for _, t := range tensors {
		shape, _ := json.Marshal(append([]int{}, t.Shape...))
		fmt.Fprintf(&header, `,%q:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`,
			t.Name, t.DType, shape, body.Len(), body.Len()+len(t.Data))
		body.Write(t.Data)
	}
	header.WriteByte('}')
	return WithHeader(header.String(), body.Bytes())
}

// WithHeader frames a header's text and the data after it.
func WithHeader(header string, body []byte) []byte {
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(file, header...), body...)
}

// Config is a config.json.
type Config map[string]any

// With returns a copy with other values; nil takes a key away.
func (c Config) With(changes Config) Config {
	c = maps.Clone(c)
	for key, v := range changes {
		if c[key] = v; v == nil {
			delete(c, key)
		}
	}
	return c
}

func (c Config) int(key string) int { v, _ := c[key].(int); return v }

func (c Config) bool(key string) bool { v, _ := c[key].(bool); return v }

// Llama is a tiny Llama: grouped queries, an odd MLP, untied.
func Llama() Config {
	return Config{
		"architectures": []string{"LlamaForCausalLM"}, "model_type": "llama",
		"vocab_size": 131, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
		"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
		"max_position_embeddings": 256, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
		"tie_word_embeddings": false, "torch_dtype": "float32", "eos_token_id": 2,
	}
}

// Qwen2 is a tiny Qwen2: q, k and v biases, tied embeddings, no head_dim.
func Qwen2() Config {
	return Llama().With(Config{
		"architectures": []string{"Qwen2ForCausalLM"}, "model_type": "qwen2",
		"head_dim": nil, "rope_theta": 1e6, "tie_word_embeddings": true,
		"use_sliding_window": false, "sliding_window": 32, "max_window_layers": 2,
	})
}

// RandomTensors returns weights for a config of one of the families above, of
// one dtype ("F32", "F16" or "BF16"; the numbers suit all three). They are
// spread wide enough that logits differ clearly.
func RandomTensors(cfg Config, dtype string, seed uint64) []Tensor {
	rng := rand.New(rand.NewPCG(seed, 1))
	hidden, mlp, vocab := cfg.int("hidden_size"), cfg.int("intermediate_size"), cfg.int("vocab_size")
	heads, kvHeads := cfg.int("num_attention_heads"), cfg.int("num_key_value_heads")
	headDim := cfg.int("head_dim")
	if headDim == 0 {
		headDim = hidden / heads
	}
	isQwen2 := cfg["model_type"] == "qwen2"
	var tensors []Tensor
	add := func(name string, mean, spread float64, shape ...int) {
		tensors = append(tensors, random(rng, name, dtype, mean, spread, shape))
	}
	linear := func(name string, bias bool, n, k int) {
		add(name+".weight", 0, 1.5/math.Sqrt(float64(k)), n, k)
		if bias {
			add(name+".bias", 0, 0.3, n)
		}
	}
	add("model.embed_tokens.weight", 0, 1, vocab, hidden)
	for i := range cfg.int("num_hidden_layers") {
		p := fmt.Sprintf("model.layers.%d.", i)
		qkvBias, outBias := isQwen2 || cfg.bool("attention_bias"), cfg.bool("attention_bias")
		add(p+"input_layernorm.weight", 1, 0.2, hidden)
		linear(p+"self_attn.q_proj", qkvBias, heads*headDim, hidden)
		linear(p+"self_attn.k_proj", qkvBias, kvHeads*headDim, hidden)
		linear(p+"self_attn.v_proj", qkvBias, kvHeads*headDim, hidden)
		linear(p+"self_attn.o_proj", outBias, hidden, heads*headDim)
		add(p+"post_attention_layernorm.weight", 1, 0.2, hidden)
		linear(p+"mlp.gate_proj", cfg.bool("mlp_bias"), mlp, hidden)
		linear(p+"mlp.up_proj", cfg.bool("mlp_bias"), mlp, hidden)
		linear(p+"mlp.down_proj", cfg.bool("mlp_bias"), hidden, mlp)
	}
	add("model.norm.weight", 1, 0.2, hidden)
	if !cfg.bool("tie_word_embeddings") {
		linear("lm_head", false, vocab, hidden)
	}
	return tensors
}

// random draws values that bfloat16 and float16 hold exactly: multiples of
// 2⁻⁷ below 2 with at most 8 significant bits.
func random(rng *rand.Rand, name, dtype string, mean, spread float64, shape []int) Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	t := Tensor{Name: name, DType: dtype, Shape: shape}
	for range n {
		v := math.Round((mean+spread*rng.NormFloat64())*128) / 128
		v = min(max(v, -255.0/128), 255.0/128)
		t.Data = appendValue(t.Data, dtype, float32(v))
	}
	return t
}

func appendValue(data []byte, dtype string, v float32) []byte {
	u := math.Float32bits(v)
	switch dtype {
	case "BF16":
		return binary.LittleEndian.AppendUint16(data, uint16(u>>16))
	case "F16":
		if v == 0 {
			return binary.LittleEndian.AppendUint16(data, 0)
		}
		return binary.LittleEndian.AppendUint16(data, uint16(u>>16&0x8000|(u>>23&0xff-112)<<10|u>>13&0x3ff))
	}
	return binary.LittleEndian.AppendUint32(data, u)
}

// WriteDir writes config.json and, if there are tensors, model.safetensors
// into a fresh directory and returns its path.
func WriteDir(t testing.TB, cfg Config, tensors ...Tensor) string {
	t.Helper()
	dir := t.TempDir()
	WriteJSON(t, dir, "config.json", cfg)
	if len(tensors) > 0 {
		WriteFile(t, dir, "model.safetensors", Safetensors(tensors...))
	}
	return dir
}

// WriteJSON writes one file of a model directory.
func WriteJSON(t testing.TB, dir, name string, v any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	WriteFile(t, dir, name, data)
}

// WriteFile writes one file of a model directory.
func WriteFile(t testing.TB, dir, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
		t.Fatal(err)
	}
}
