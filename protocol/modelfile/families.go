package modelfile

import (
	"fmt"
	"math"
)

// families holds a reader for each architecture: what its config.json says
// beyond the keys that all share, with transformers' defaults. A reader takes
// the keys it understands out of changesResult's sight with accept.
//
// The tensors of each are named in enginecore/model, so a new architecture is
// one entry here and one there.
var families = map[string]func(*object, *Config){
	"LlamaForCausalLM":    readLlama,
	"MistralForCausalLM":  readMistral,
	"SmolLM3ForCausalLM":  readSmolLM3,
	"Qwen2ForCausalLM":    readQwen2,
	"Qwen3ForCausalLM":    readQwen3,
	"Qwen3MoeForCausalLM": readQwen3Moe,
	"MixtralForCausalLM":  readMixtral,
	"Phi3ForCausalLM":     readPhi3,
	"Gemma2ForCausalLM":   readGemma2,
	"Gemma3ForCausalLM":   readGemma3,
}

// readLlama: one switch for the four attention biases, one for the MLP's.
// Source: transformers, configuration_llama.py.
func readLlama(o *object, c *Config) {
	o.biases(c)
	o.rope(c, 10000)
	o.layers(c, 0, nil)
}

// readMistral: the layers of early checkpoints are all local.
// Source: transformers, configuration_mistral.py.
func readMistral(o *object, c *Config) {
	o.rope(c, 10000)
	o.layers(c, o.window(4096), everyLayer)
}

// readSmolLM3: a Llama, some layers of which don't turn.
// Source: transformers, configuration_smollm3.py.
func readSmolLM3(o *object, c *Config) {
	c.TieWordEmbeddings = o.bool("tie_word_embeddings", true)
	o.biases(c)
	o.rope(c, 2e6)
	o.noRope(c)
	o.layersOfWindowInUse(c, 0, func(i int) bool { return c.NoRope[i] })
}

// noRope reads no_rope_layers, whose 1 says that a layer does turn, or else
// no_rope_layer_interval.
func (o *object) noRope(c *Config) {
	interval := o.sizeOr("no_rope_layer_interval", 4)
	turns := make([]int, c.layersToList())
	for i := range turns {
		turns[i] = min((i+1)%interval, 1)
	}
	want := fmt.Sprintf("a list of 0 and 1, one for each of num_hidden_layers = %d", c.NumLayers)
	if o.decode("no_rope_layers", &turns, want) && len(turns) < c.NumLayers {
		o.invalid("no_rope_layers", want)
	}
	c.NoRope = make([]bool, c.layersToList())
	for i := range min(len(turns), len(c.NoRope)) {
		c.NoRope[i] = turns[i] == 0
	}
	o.accept("no_rope_layers", "no_rope_layer_interval")
}

// readQwen2: q, k and v always have a bias. A sliding window is configured in
// every checkpoint and switched off in every published one.
// Source: transformers, configuration_qwen2.py.
func readQwen2(o *object, c *Config) {
	c.QKVBias = true
	o.require("num_key_value_heads")
	o.rope(c, 10000)
	o.layersOfWindowInUse(c, 4096, o.upperLayers())
}

// readQwen3: norms of queries and keys instead of biases.
// Source: transformers, configuration_qwen3.py.
func readQwen3(o *object, c *Config) {
	o.qwen3(c)
	o.layersOfWindowInUse(c, 4096, o.upperLayers())
}

func (o *object) qwen3(c *Config) {
	o.require("num_key_value_heads", "head_dim")
	c.QKNorm = true
	o.attentionBias(c)
	o.rope(c, 10000)
}

// readQwen3Moe: a Qwen3 whose MLPs are mixtures.
// Source: transformers, configuration_qwen3_moe.py.
func readQwen3Moe(o *object, c *Config) {
	o.qwen3(c)
	o.layersOfWindowInUse(c, 4096, everyLayer)
	key := "num_experts"
	if !o.has(key) {
		key = "num_local_experts" // as transformers 5 writes it
	}
	o.experts(c, key)
	o.require("moe_intermediate_size")
	c.IntermediateSize = o.sizeOr("moe_intermediate_size", 1)
	c.NormTopK = o.bool("norm_topk_prob", false)
}

// readMixtral: a Mistral whose MLPs are mixtures.
// Source: transformers, configuration_mixtral.py.
func readMixtral(o *object, c *Config) {
	c.RMSNormEps = float32(o.float("rms_norm_eps", 1e-5))
	o.require("num_key_value_heads")
	o.rope(c, 1e6)
	o.layers(c, o.window(0), everyLayer)
	o.experts(c, "num_local_experts")
	c.NormTopK = true
}

// experts reads how many there are, and how many a token meets.
func (o *object) experts(c *Config, key string) {
	o.require(key, "num_experts_per_tok")
	c.NumExperts, c.ExpertsPerToken = o.sizeOr(key, 1), o.sizeOr("num_experts_per_tok", 1)
	o.accept(key)
}

// upperLayers are those from max_window_layers on.
func (o *object) upperLayers() func(i int) bool {
	first := o.int("max_window_layers", 28)
	return func(i int) bool { return i >= first }
}

// layersOfWindowInUse is layers with sliding_window, if use_sliding_window says
// so.
func (o *object) layersOfWindowInUse(c *Config, def int, isLocal func(i int) bool) {
	window := 0
	if o.bool("use_sliding_window", false) {
		window = o.window(def)
	}
	o.layers(c, window, isLocal)
	o.accept("use_sliding_window", "sliding_window")
}

// readPhi3: fused projections; a part of each head may pass unturned.
// Source: transformers, configuration_phi3.py.
func readPhi3(o *object, c *Config) {
	c.RMSNormEps = float32(o.float("rms_norm_eps", 1e-5))
	part := o.float("partial_rotary_factor", 1)
	for _, key := range []string{"rope_scaling", "rope_parameters"} {
		if p := o.object(key); p != nil {
			part = p.float("partial_rotary_factor", part)
		}
	}
	c.Rope.Dim = int(float64(c.HeadDim) * part)
	o.rope(c, 10000)
	o.layers(c, o.window(0), everyLayer)
	o.accept("partial_rotary_factor")
}

// readGemma2: local and global layers by turns, scores and logits bounded.
// Source: transformers, configuration_gemma2.py.
func readGemma2(o *object, c *Config) {
	o.gemma(c)
	o.rope(c, 10000)
	o.layers(c, o.window(4096), func(i int) bool { return i%2 == 0 })
	c.AttnSoftCap = float32(o.optional("attn_logit_softcapping", 50))
	c.LogitSoftCap = float32(o.optional("final_logit_softcapping", 30))
	o.accept("attn_logit_softcapping", "final_logit_softcapping")
}

// readGemma3: every sixth layer is global and turns by a rope of its own.
// Source: transformers, configuration_gemma3.py.
func readGemma3(o *object, c *Config) {
	o.gemma(c)
	c.QKNorm = true
	c.LogitSoftCap = float32(o.optional("final_logit_softcapping", 0))
	c.RopeLocal = Rope{Theta: o.float("rope_local_base_freq", 10000), Dim: c.HeadDim}
	o.rope(c, 1e6)
	pattern := o.sizeOr("sliding_window_pattern", 6)
	o.layers(c, o.window(4096), func(i int) bool { return (i+1)%pattern != 0 })
	o.accept("final_logit_softcapping")
}

// gemma reads what its generations share. Norm weights are stored less 1; what
// attention and MLP add is normed; the embedding is scaled.
func (o *object) gemma(c *Config) {
	o.require("head_dim", "num_key_value_heads", "query_pre_attn_scalar")
	c.TieWordEmbeddings = o.bool("tie_word_embeddings", true)
	c.HiddenAct = o.string("hidden_activation", "gelu_pytorch_tanh")
	c.NormOffset, c.PostNorms = 1, true
	c.EmbedScale = float32(math.Sqrt(float64(c.HiddenSize)))
	c.AttnScale = float32(1 / math.Sqrt(o.float("query_pre_attn_scalar", 1)))
	o.attentionBias(c)
	o.accept("query_pre_attn_scalar", "hidden_activation")
}

func (o *object) biases(c *Config) {
	o.attentionBias(c)
	c.MLPBias = o.bool("mlp_bias", false)
}

func (o *object) attentionBias(c *Config) {
	c.QKVBias = o.bool("attention_bias", false)
	c.OutBias = c.QKVBias
}

// window reads sliding_window; null, and 0, is none.
func (o *object) window(def int) int {
	w := o.optional("sliding_window", float64(def))
	o.accept("sliding_window")
	if w != math.Trunc(w) || w < 0 || w > 1<<30 {
		o.invalid("sliding_window", fmt.Sprintf("between 0 and %d", 1<<30))
		return 0
	}
	return int(w)
}

func everyLayer(int) bool { return true }

// layersToList is NumLayers, or less where that is absurd: check refuses it
// then.
func (c *Config) layersToList() int { return min(c.NumLayers, maxLayers+1) }

// layers sets which layers see only window positions: layer_types, or else
// those for which isLocal is true. window 0 is none.
func (o *object) layers(c *Config, window int, isLocal func(i int) bool) {
	o.accept("layer_types")
	local, any := make([]bool, c.layersToList()), false
	var kinds []string
	listed := o.decode("layer_types", &kinds, "a list of names")
	if listed && len(kinds) != c.NumLayers {
		o.invalid("layer_types", fmt.Sprintf("a list of num_hidden_layers = %d names", c.NumLayers))
		return
	}
	for i := range local {
		local[i] = !listed && window > 0 && isLocal(i)
		if listed {
			switch kinds[i] {
			case "full_attention":
			case "sliding_attention":
				local[i] = true
			default:
				o.refuse("layer_types", `"full_attention" and "sliding_attention" are`)
				return
			}
		}
		any = any || local[i]
	}
	if any && window == 0 {
		o.refuse("layer_types", "it has sliding_attention and the config no sliding_window in use")
		return
	}
	if !any {
		return
	}
	c.Local, c.SlidingWindow = local, window
	if c.RopeLocal.Dim == 0 {
		c.RopeLocal = c.Rope
	}
}

// accept marks keys as read.
func (o *object) accept(keys ...string) {
	if o.accepted == nil {
		o.accepted = make(map[string]bool)
	}
	for _, key := range keys {
		o.accepted[key] = true
	}
}
