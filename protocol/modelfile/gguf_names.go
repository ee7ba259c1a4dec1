package modelfile

import (
	"fmt"
	"strconv"
	"strings"
)

// GGUF files of all architectures name the parts of a decoder alike; Weights
// names them as each architecture's Hugging Face checkpoint does, so that there
// is one set of names to load from.
//
// Source: gguf-py/gguf/tensor_mapping.py of llama.cpp.

var ggufOuter = map[string]string{
	"token_embd":  "model.embed_tokens",
	"output_norm": "model.norm",
	"output":      "lm_head",
}

var ggufLayer = map[string]string{
	"attn_norm":           "input_layernorm",
	"attn_q":              "self_attn.q_proj",
	"attn_k":              "self_attn.k_proj",
	"attn_v":              "self_attn.v_proj",
	"attn_qkv":            "self_attn.qkv_proj",
	"attn_output":         "self_attn.o_proj",
	"attn_q_norm":         "self_attn.q_norm",
	"attn_k_norm":         "self_attn.k_norm",
	"ffn_norm":            "post_attention_layernorm",
	"ffn_gate":            "mlp.gate_proj",
	"ffn_up":              "mlp.up_proj",
	"ffn_down":            "mlp.down_proj",
	"post_attention_norm": "post_attention_layernorm",
	"post_ffw_norm":       "post_feedforward_layernorm",
}

// rename gives tensors their Hugging Face names; what has none keeps its own.
// Tensors that became part of the config are left out.
func (g *ggufFile) rename(family ggufFamily) []Tensor {
	var tensors []Tensor
	for _, t := range g.tensors {
		if t.Name == ggufRopeFreqs {
			continue
		}
		t.origin = t.Name
		t.Name = family.rename(t.Name)
		tensors = append(tensors, t)
	}
	return tensors
}

func (f ggufFamily) rename(name string) string {
	part, kind, ok := cutLast(name, ".")
	if !ok || kind != "weight" && kind != "bias" {
		return name
	}
	if other, ok := ggufOuter[part]; ok {
		return other + "." + kind
	}
	rest, ok := strings.CutPrefix(part, "blk.")
	number, part, ok2 := strings.Cut(rest, ".")
	layer, err := strconv.Atoi(number)
	if !ok || !ok2 || err != nil || strconv.Itoa(layer) != number {
		return name
	}
	other, ok := f.names[part]
	if !ok {
		if other, ok = ggufLayer[part]; !ok {
			return name
		}
	}
	return fmt.Sprintf("model.layers.%d.%s.%s", layer, other, kind)
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// ownName is the inverse of rename; a name that has none is returned as it is.
func (f ggufFamily) ownName(name string) string {
	layer := ""
	if rest, ok := strings.CutPrefix(name, "model.layers."); ok {
		layer, _, _ = strings.Cut(rest, ".")
	}
	part, kind, _ := cutLast(name, ".")
	for own, other := range ggufOuter {
		if other == part {
			return own + "." + kind
		}
	}
	for own := range ggufLayer {
		if own = "blk." + layer + "." + own + "." + kind; f.rename(own) == name {
			return own
		}
	}
	return name
}
