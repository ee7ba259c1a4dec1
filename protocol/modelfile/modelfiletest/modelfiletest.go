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
	"slices"
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

func (c Config) string(key string) string { v, _ := c[key].(string); return v }

// tied is tie_word_embeddings, which some families have by default.
func (c Config) tied() bool {
	if v, ok := c["tie_word_embeddings"].(bool); ok {
		return v
	}
	return slices.Contains([]string{"smollm3", "gemma2", "gemma3_text"}, c.string("model_type"))
}

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

// RandomTensors returns weights for a config of one of the families, of one
// dtype ("F32", "F16" or "BF16"; the numbers suit all three). They are spread
// wide enough that logits differ clearly.
func RandomTensors(cfg Config, dtype string, seed uint64) []Tensor {
	w := &writer{rng: rand.New(rand.NewPCG(seed, 1)), dtype: dtype, kind: cfg.string("model_type")}
	hidden := cfg.int("hidden_size")
	w.add("model.embed_tokens.weight", 0, 1, cfg.int("vocab_size"), hidden)
	for i := range cfg.int("num_hidden_layers") {
		w.layer(cfg, fmt.Sprintf("model.layers.%d.", i))
	}
	w.norm("model.norm", hidden)
	if !cfg.tied() {
		w.linear("lm_head", false, cfg.int("vocab_size"), hidden)
	}
	return w.tensors
}

// writer makes up tensors one after the other.
type writer struct {
	rng         *rand.Rand
	dtype, kind string
	tensors     []Tensor
}

func (w *writer) is(kinds ...string) bool { return slices.Contains(kinds, w.kind) }

func (w *writer) add(name string, mean, spread float64, shape ...int) {
	w.tensors = append(w.tensors, random(w.rng, name, w.dtype, mean, spread, shape))
}

func (w *writer) norm(name string, n int) {
	mean := 1.0
	if w.is("gemma2", "gemma3_text") {
		mean = 0 // they store w−1
	}
	w.add(name+".weight", mean, 0.2, n)
}

func (w *writer) linear(name string, bias bool, n, k int) {
	w.add(name+".weight", 0, 1.5/math.Sqrt(float64(k)), n, k)
	if bias {
		w.add(name+".bias", 0, 0.3, n)
	}
}

func (w *writer) layer(cfg Config, p string) {
	hidden := cfg.int("hidden_size")
	w.norm(p+"input_layernorm", hidden)
	w.attention(cfg, p+"self_attn.")
	w.norm(p+"post_attention_layernorm", hidden)
	if w.is("gemma2", "gemma3_text") {
		w.norm(p+"pre_feedforward_layernorm", hidden)
		w.norm(p+"post_feedforward_layernorm", hidden)
	}
	switch {
	case w.is("qwen3_moe"):
		w.linear(p+"mlp.gate", false, cfg.int("num_experts"), hidden)
		for e := range cfg.int("num_experts") {
			w.mlp(fmt.Sprintf("%smlp.experts.%d.", p, e), false, hidden, cfg.int("moe_intermediate_size"))
		}
	case w.is("mixtral"):
		mlp := cfg.int("intermediate_size")
		w.linear(p+"block_sparse_moe.gate", false, cfg.int("num_local_experts"), hidden)
		for e := range cfg.int("num_local_experts") {
			expert := fmt.Sprintf("%sblock_sparse_moe.experts.%d.", p, e)
			w.linear(expert+"w1", false, mlp, hidden)
			w.linear(expert+"w2", false, hidden, mlp)
			w.linear(expert+"w3", false, mlp, hidden)
		}
	default:
		w.mlp(p+"mlp.", cfg.bool("mlp_bias"), hidden, cfg.int("intermediate_size"))
	}
}

func (w *writer) attention(cfg Config, p string) {
	hidden, heads, kvHeads, headDim := cfg.int("hidden_size"), cfg.int("num_attention_heads"), cfg.int("num_key_value_heads"), cfg.int("head_dim")
	if headDim == 0 {
		headDim = hidden / heads
	}
	bias, qkvBias := cfg.bool("attention_bias"), w.is("qwen2") || cfg.bool("attention_bias")
	if w.is("phi3") {
		w.linear(p+"qkv_proj", false, (heads+2*kvHeads)*headDim, hidden)
	} else {
		w.linear(p+"q_proj", qkvBias, heads*headDim, hidden)
		w.linear(p+"k_proj", qkvBias, kvHeads*headDim, hidden)
		w.linear(p+"v_proj", qkvBias, kvHeads*headDim, hidden)
	}
	w.linear(p+"o_proj", bias, hidden, heads*headDim)
	if w.is("qwen3", "qwen3_moe", "gemma3_text") {
		w.norm(p+"q_norm", headDim)
		w.norm(p+"k_norm", headDim)
	}
}

func (w *writer) mlp(p string, bias bool, hidden, mlp int) {
	if w.is("phi3") {
		w.linear(p+"gate_up_proj", false, 2*mlp, hidden)
	} else {
		w.linear(p+"gate_proj", bias, mlp, hidden)
		w.linear(p+"up_proj", bias, mlp, hidden)
	}
	w.linear(p+"down_proj", bias, hidden, mlp)
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
