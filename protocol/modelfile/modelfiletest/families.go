package modelfiletest

// Mistral is a tiny Mistral of local layers.
func Mistral() Config {
	return Llama().With(Config{
		"architectures": []string{"MistralForCausalLM"}, "model_type": "mistral", "sliding_window": 48,
	})
}

// SmolLM3 is a tiny SmolLM3, tied by default, one layer of which turns.
func SmolLM3() Config {
	return Llama().With(Config{
		"architectures": []string{"SmolLM3ForCausalLM"}, "model_type": "smollm3",
		"tie_word_embeddings": nil, "no_rope_layers": []int{0, 1, 0}, "rope_theta": 2e6,
	})
}

// Qwen3 is a tiny Qwen3: norms of query and key heads.
func Qwen3() Config {
	return Llama().With(Config{
		"architectures": []string{"Qwen3ForCausalLM"}, "model_type": "qwen3",
		"use_sliding_window": false, "sliding_window": nil, "max_window_layers": 2,
	})
}

// Phi3 is a tiny Phi-3: fused projections, three quarters of a head turn, slowed
// as LongRoPE does.
func Phi3() Config {
	short, long := make([]float64, 12), make([]float64, 12)
	for i := range short {
		short[i], long[i] = 1, float64(1+i)
	}
	short[11] = 2.5
	return Llama().With(Config{
		"architectures": []string{"Phi3ForCausalLM"}, "model_type": "phi3",
		"partial_rotary_factor": 0.75, "original_max_position_embeddings": 128,
		"rope_scaling": Config{"type": "longrope", "short_factor": short, "long_factor": long},
	})
}

// Gemma2 is a tiny Gemma 2: four norms, local and global layers, soft caps.
func Gemma2() Config {
	return Llama().With(Config{
		"architectures": []string{"Gemma2ForCausalLM"}, "model_type": "gemma2",
		"hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 64, "sliding_window": 32,
		"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "tie_word_embeddings": nil,
	})
}

// Gemma3 is a tiny Gemma 3: as Gemma 2, but norms of heads instead of caps, and
// two ropes.
func Gemma3() Config {
	return Gemma2().With(Config{
		"architectures": []string{"Gemma3ForCausalLM"}, "model_type": "gemma3_text",
		"attn_logit_softcapping": nil, "final_logit_softcapping": nil,
		"layer_types": []string{"sliding_attention", "full_attention", "sliding_attention"},
		"rope_theta":  1e6, "rope_local_base_freq": 1e4, "rope_scaling": Config{"rope_type": "linear", "factor": 8.0},
	})
}

// Qwen3Moe is a tiny Qwen3 of experts.
func Qwen3Moe() Config {
	return Qwen3().With(Config{
		"architectures": []string{"Qwen3MoeForCausalLM"}, "model_type": "qwen3_moe", "max_window_layers": nil,
		"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 40, "norm_topk_prob": false,
		"decoder_sparse_step": 1, "mlp_only_layers": []int{},
	})
}

// Mixtral is a tiny Mixtral.
func Mixtral() Config {
	return Llama().With(Config{
		"architectures": []string{"MixtralForCausalLM"}, "model_type": "mixtral",
		"num_local_experts": 4, "num_experts_per_tok": 2, "rope_theta": 1e6, "sliding_window": nil,
	})
}

// Families is one config of each architecture, by its name.
func Families() map[string]Config {
	return map[string]Config{
		"llama": Llama(), "mistral": Mistral(), "smollm3": SmolLM3(), "qwen2": Qwen2(), "qwen3": Qwen3(),
		"qwen3moe": Qwen3Moe(), "mixtral": Mixtral(), "phi3": Phi3(), "gemma2": Gemma2(), "gemma3": Gemma3(),
	}
}
