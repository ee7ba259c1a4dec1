package model

import (
	"fmt"
	"strings"

	"govllm/protocol/modelfile"
)

// family says how one architecture's checkpoint spells the parts of the
// decoder. Names of a layer's parts are relative to its prefix, and stand
// without ".weight" or ".bias". Several names are stacked by rows into one
// matrix; a checkpoint that stores them fused has one name.
type family struct {
	embed, finalNorm, lmHead string
	layer                    string // prefix with a %d

	attnNorm     string
	qkv          []string // query, key and value heads, in this order
	qNorm, kNorm string   // if the config has QKNorm
	out          string
	postAttnNorm string // if it has PostNorms
	mlpNorm      string
	gateUp       []string
	down         string
	postMLPNorm  string // if it has PostNorms

	// If the config has experts, they stand for gateUp and down.
	router       string
	expert       string   // prefix with a %d
	expertGateUp []string // below it
	expertDown   string

	// ignored are suffixes of tensors that the graph has no use for. Any
	// other tensor that is left over is an error.
	ignored []string
}

// llama is the layout that most decoders copied.
// Source: transformers, modeling_llama.py.
var llama = family{
	embed:     "model.embed_tokens",
	finalNorm: "model.norm",
	lmHead:    "lm_head",
	layer:     "model.layers.%d.",
	attnNorm:  "input_layernorm",
	qkv:       []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
	qNorm:     "self_attn.q_norm",
	kNorm:     "self_attn.k_norm",
	out:       "self_attn.o_proj",
	mlpNorm:   "post_attention_layernorm",
	gateUp:    []string{"mlp.gate_proj", "mlp.up_proj"},
	down:      "mlp.down_proj",
	// A constant of the rope that old checkpoints saved.
	ignored: []string{".rotary_emb.inv_freq"},
}

// What differs but for names comes from the config: biases, norms, windows.
var families = map[string]family{
	"LlamaForCausalLM":    llama,
	"MistralForCausalLM":  llama,
	"SmolLM3ForCausalLM":  llama,
	"Qwen2ForCausalLM":    llama,
	"Qwen3ForCausalLM":    llama,
	"Qwen3MoeForCausalLM": llama.experts("mlp", "gate_proj", "up_proj", "down_proj"),
	"MixtralForCausalLM":  llama.experts("block_sparse_moe", "w1", "w3", "w2"),
	"Phi3ForCausalLM":     llama.phi3(),
	"Gemma2ForCausalLM":   llama.gemma(),
	"Gemma3ForCausalLM":   llama.gemma(),
}

// phi3 stores projections fused. Source: transformers, modeling_phi3.py.
func (f family) phi3() family {
	f.qkv, f.gateUp = []string{"self_attn.qkv_proj"}, []string{"mlp.gate_up_proj"}
	return f
}

// experts has a router and experts below a prefix. Source: transformers,
// modeling_qwen3_moe.py and modeling_mixtral.py, as checkpoints spell them.
func (f family) experts(below, gate, up, down string) family {
	f.router, f.expert = below+".gate", below+".experts.%d."
	f.expertGateUp, f.expertDown = []string{gate, up}, down
	return f
}

// gemma has four norms a layer, of which the second means another thing than
// in llama. Source: transformers, modeling_gemma2.py.
func (f family) gemma() family {
	f.postAttnNorm = f.mlpNorm
	f.mlpNorm, f.postMLPNorm = "pre_feedforward_layernorm", "post_feedforward_layernorm"
	return f
}

func familyOf(cfg modelfile.Config) (family, error) {
	f, ok := families[cfg.Architecture]
	if !ok {
		return family{}, fmt.Errorf("model: architecture %s is %w", cfg.Architecture, modelfile.ErrUnsupported)
	}
	return f, nil
}

// ignores says whether a tensor that nothing asked for is harmless.
func (f *family) ignores(name string, cfg modelfile.Config) bool {
	if cfg.TieWordEmbeddings && name == f.lmHead+".weight" {
		return true // transformers ignores it too
	}
	for _, suffix := range f.ignored {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}
