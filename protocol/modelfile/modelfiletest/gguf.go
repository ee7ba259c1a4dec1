package modelfiletest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Pair is one key and value of a GGUF file's metadata: a string, bool, int32,
// uint32, uint64, float32, or a slice of string, bool, int32 or float32.
type Pair struct {
	Key   string
	Value any
}

// ggmlNumbers are the numbers of tensor types.
var ggmlNumbers = map[string]uint32{
	"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "Q2_K": 10, "Q3_K": 11, "Q4_K": 12,
	"Q5_K": 13, "Q6_K": 14, "BF16": 30, "IQ4_XS": 23, "I32": 26,
}

// GGUF returns the bytes of a version 3 file.
func GGUF(pairs []Pair, tensors ...Tensor) []byte {
	var head, body bytes.Buffer
	head.WriteString("GGUF")
	put(&head, uint32(3), uint64(len(tensors)), uint64(len(pairs)))
	for _, p := range pairs {
		putString(&head, p.Key)
		putValue(&head, p.Value)
	}
	for _, t := range tensors {
		body.Write(make([]byte, -body.Len()&31))
		putString(&head, t.Name)
		put(&head, uint32(len(t.Shape)))
		for _, n := range slices.Backward(t.Shape) {
			put(&head, uint64(n))
		}
		put(&head, ggmlNumbers[t.DType], uint64(body.Len()))
		body.Write(t.Data)
	}
	head.Write(make([]byte, -head.Len()&31))
	return append(head.Bytes(), body.Bytes()...)
}

func put(b *bytes.Buffer, values ...any) {
	for _, v := range values {
		binary.Write(b, binary.LittleEndian, v)
	}
}

func putString(b *bytes.Buffer, s string) {
	put(b, uint64(len(s)))
	b.WriteString(s)
}

func putValue(b *bytes.Buffer, value any) {
	switch v := value.(type) {
	case uint32:
		put(b, uint32(4), v)
	case int32:
		put(b, uint32(5), v)
	case float32:
		put(b, uint32(6), v)
	case bool:
		put(b, uint32(7), v)
	case string:
		put(b, uint32(8))
		putString(b, v)
	case uint64:
		put(b, uint32(10), v)
	case []int32:
		put(b, uint32(9), uint32(5), uint64(len(v)), v)
	case []float32:
		put(b, uint32(9), uint32(6), uint64(len(v)), v)
	case []bool:
		put(b, uint32(9), uint32(7), uint64(len(v)), v)
	case []string:
		put(b, uint32(9), uint32(8), uint64(len(v)))
		for _, s := range v {
			putString(b, s)
		}
	default:
		panic(fmt.Sprintf("modelfiletest: no GGUF value of type %T", v))
	}
}

// AsGGUF converts a model of one of the families that GGUF files come in, as
// llama.cpp's converter does, with more pairs after those of the config. Gemma's
// norms must be F32; the other tensors may have any type.
func AsGGUF(cfg Config, tensors []Tensor, more ...Pair) []byte {
	arch := strings.TrimSuffix(fmt.Sprint(cfg["model_type"]), "_text")
	pairs := append([]Pair{{"general.architecture", arch}}, ggufConfig(cfg, arch+".")...)
	var converted []Tensor
	for _, t := range tensors {
		converted = append(converted, asGGUF(cfg, arch, t))
	}
	return GGUF(append(pairs, more...), converted...)
}

func ggufConfig(cfg Config, prefix string) []Pair {
	headDim := cfg.int("head_dim")
	if headDim == 0 {
		headDim = cfg.int("hidden_size") / cfg.int("num_attention_heads")
	}
	rotary := headDim
	if part, ok := cfg["partial_rotary_factor"].(float64); ok {
		rotary = int(part * float64(headDim))
	}
	var pairs []Pair
	add := func(key string, value any) { pairs = append(pairs, Pair{prefix + key, value}) }
	for key, name := range map[string]string{
		"vocab_size": "vocab_size", "context_length": "max_position_embeddings", "embedding_length": "hidden_size",
		"block_count": "num_hidden_layers", "feed_forward_length": "intermediate_size", "attention.head_count": "num_attention_heads",
		"attention.head_count_kv": "num_key_value_heads", "attention.sliding_window": "sliding_window",
	} {
		if v := cfg.int(name); v > 0 {
			add(key, uint32(v))
		}
	}
	add("attention.key_length", uint32(headDim))
	add("attention.value_length", uint32(headDim))
	add("rope.dimension_count", uint32(rotary))
	for key, name := range map[string]string{
		"attention.layer_norm_rms_epsilon": "rms_norm_eps", "rope.freq_base": "rope_theta", "rope.freq_base_swa": "rope_local_base_freq",
		"attn_logit_softcapping": "attn_logit_softcapping", "final_logit_softcapping": "final_logit_softcapping",
	} {
		if v, ok := cfg[name].(float64); ok {
			add(key, float32(v))
		}
	}
	if s, ok := cfg["rope_scaling"].(Config); ok {
		add("rope.scaling.type", s["rope_type"])
		add("rope.scaling.factor", float32(s["factor"].(float64)))
	}
	if kinds, ok := cfg["layer_types"].([]string); ok {
		local := make([]bool, len(kinds))
		for i, kind := range kinds {
			local[i] = kind == "sliding_attention"
		}
		add("attention.sliding_window_pattern", local)
	}
	return pairs
}

// ggufParts names the parts of a layer.
var ggufParts = map[string]string{
	"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
	"self_attn.qkv_proj": "attn_qkv", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
	"post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up",
	"mlp.down_proj": "ffn_down", "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
}

func asGGUF(cfg Config, arch string, t Tensor) Tensor {
	isGemma := strings.HasPrefix(arch, "gemma")
	if isGemma && strings.HasSuffix(t.Name, "norm.weight") {
		t.Data = addOne(t.Data)
	}
	if arch == "llama" && (strings.Contains(t.Name, "q_proj") || strings.Contains(t.Name, "k_proj")) {
		heads := cfg.int("num_attention_heads")
		if strings.Contains(t.Name, "k_proj") {
			heads = cfg.int("num_key_value_heads")
		}
		t.Data = permute(t.Data, heads, t.Shape[0]/heads)
	}
	dot := strings.LastIndexByte(t.Name, '.')
	part, kind := t.Name[:dot], t.Name[dot:]
	var layer int
	switch n, _ := fmt.Sscanf(part, "model.layers.%d.", &layer); {
	case part == "model.embed_tokens":
		t.Name = "token_embd" + kind
	case part == "model.norm":
		t.Name = "output_norm" + kind
	case part == "lm_head":
		t.Name = "output" + kind
	case n == 1:
		part = strings.TrimPrefix(part, fmt.Sprintf("model.layers.%d.", layer))
		name := ggufParts[part]
		if isGemma && part == "post_attention_layernorm" {
			name = "post_attention_norm"
		}
		t.Name = fmt.Sprintf("blk.%d.%s%s", layer, name, kind)
	}
	return t
}

// permute brings the rows of each head from halves to pairs.
func permute(data []byte, heads, headDim int) []byte {
	row := len(data) / (heads * headDim)
	var out []byte
	for h := range heads {
		for i := range headDim {
			from := h*headDim + i%2*headDim/2 + i/2
			out = append(out, data[from*row:(from+1)*row]...)
		}
	}
	return out
}

func addOne(data []byte) []byte {
	var out []byte
	for i := 0; i < len(data); i += 4 {
		v := math.Float32frombits(binary.LittleEndian.Uint32(data[i:]))
		out = appendValue(out, "F32", v+1)
	}
	return out
}
