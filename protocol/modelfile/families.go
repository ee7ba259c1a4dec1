package modelfile

import "slices"

// families holds a reader for each architecture: what its config.json says
// beyond the keys that all share, with transformers' defaults. A reader takes
// the keys it understands out of changesResult's sight with accept.
//
// The tensors of each are named in enginecore/model, so a new architecture is
// one entry here and one there.
var families = map[string]func(*object, *Config){
	"LlamaForCausalLM": readLlama,
	"Qwen2ForCausalLM": readQwen2,
}

// readLlama: one switch for the four attention biases, one for the MLP's.
// Source: transformers, configuration_llama.py.
func readLlama(o *object, c *Config) {
	c.QKVBias = o.bool("attention_bias", false)
	c.OutBias = c.QKVBias
	c.MLPBias = o.bool("mlp_bias", false)
	o.acceptFullAttention()
}

// readQwen2: q, k and v always have a bias. A sliding window is configured in
// every checkpoint and switched off in every published one.
// Source: transformers, configuration_qwen2.py.
func readQwen2(o *object, c *Config) {
	c.QKVBias = true
	if !o.has("num_key_value_heads") {
		o.missing("num_key_value_heads")
	}
	if !o.bool("use_sliding_window", false) || !o.has("sliding_window") || o.int("max_window_layers", 0) >= c.NumLayers {
		o.accept("use_sliding_window", "sliding_window")
	}
	o.acceptFullAttention()
}

// accept marks keys as read.
func (o *object) accept(keys ...string) {
	for _, key := range keys {
		delete(o.keys, key)
	}
}

// acceptFullAttention reads a layer_types list that says nothing new.
func (o *object) acceptFullAttention() {
	var kinds []string
	if o.decode("layer_types", &kinds, "a list of names") &&
		!slices.ContainsFunc(kinds, func(kind string) bool { return kind != "full_attention" }) {
		o.accept("layer_types")
	}
}
