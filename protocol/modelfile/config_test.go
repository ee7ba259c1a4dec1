package modelfile_test

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"govllm/protocol/modelfile"
	"govllm/protocol/modelfile/modelfiletest"
)

type config = modelfiletest.Config

// The families' tiny configs, and pieces of others.
var (
	llama, mistral, smollm3 = modelfiletest.Llama(), modelfiletest.Mistral(), modelfiletest.SmolLM3()
	qwen2, qwen3            = modelfiletest.Qwen2(), modelfiletest.Qwen3()
	qwen3Moe, mixtral       = modelfiletest.Qwen3Moe(), modelfiletest.Mixtral()
	phi3                    = modelfiletest.Phi3()
	gemma2, gemma3          = modelfiletest.Gemma2(), modelfiletest.Gemma3()

	llama3 = config{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
	yarn   = config{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
	null   = json.RawMessage("null")
)

func parse(t *testing.T, c config) (modelfile.Config, error) {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return modelfile.ParseConfig("config.json", data)
}

func TestParseConfigLlama(t *testing.T) {
	got, err := parse(t, modelfiletest.Llama())
	if err != nil {
		t.Fatal(err)
	}
	if got.Architecture != "LlamaForCausalLM" || got.VocabSize != 131 || got.HiddenSize != 64 ||
		got.IntermediateSize != 96 || got.NumLayers != 3 || got.NumHeads != 4 || got.NumKVHeads != 2 ||
		got.HeadDim != 32 || got.RMSNormEps != 1e-5 || got.TieWordEmbeddings || got.QKVBias || got.OutBias ||
		got.MLPBias || got.Rope.Theta != 10000 || got.MaxPositionEmbeddings != 256 || got.DType != modelfile.F32 {
		t.Errorf("ParseConfig(llama) = %+v", got)
	}
}

func TestParseConfigVariants(t *testing.T) {
	for _, c := range []struct {
		name string
		in   config
		ok   func(modelfile.Config) bool
	}{
		{"Qwen2 has q, k and v biases only", qwen2, func(c modelfile.Config) bool {
			return c.QKVBias && !c.OutBias && !c.MLPBias && c.TieWordEmbeddings && c.Rope.Theta == 1e6
		}},
		{"head_dim from hidden_size", qwen2, func(c modelfile.Config) bool { return c.HeadDim == 16 }},
		{"Llama's attention_bias is all four", llama.With(config{"attention_bias": true}), func(c modelfile.Config) bool {
			return c.QKVBias && c.OutBias && !c.MLPBias
		}},
		{"mlp_bias", llama.With(config{"mlp_bias": true}), func(c modelfile.Config) bool { return c.MLPBias && !c.QKVBias }},
		{"one KV head per head by default", llama.With(config{"num_key_value_heads": nil}), func(c modelfile.Config) bool { return c.NumKVHeads == 4 }},
		{"transformers 5 spelling", llama.With(config{"rope_theta": nil, "torch_dtype": nil, "dtype": "bfloat16",
			"rope_parameters": config{"rope_theta": 5e5, "rope_type": "default"}}), func(c modelfile.Config) bool {
			return c.Rope.Theta == 5e5 && c.DType == modelfile.BF16
		}},
		{"torch prefix", llama.With(config{"torch_dtype": "torch.float16"}), func(c modelfile.Config) bool { return c.DType == modelfile.F16 }},
		{"no dtype", llama.With(config{"torch_dtype": nil}), func(c modelfile.Config) bool { return c.DType == "" }},
		{"rope_scaling null", llama.With(config{"rope_scaling": json.RawMessage("null")}), func(modelfile.Config) bool { return true }},
		{"Qwen2 full attention by layer", qwen2.With(config{"layer_types": []string{"full_attention", "full_attention", "full_attention"}}),
			func(modelfile.Config) bool { return true }},
		{"Qwen2 sliding window above the last layer", qwen2.With(config{"use_sliding_window": true, "max_window_layers": 3}),
			func(c modelfile.Config) bool { return c.Local == nil && c.SlidingWindow == 0 }},
		{"Qwen2 sliding window null", qwen2.With(config{"use_sliding_window": true, "sliding_window": null}),
			func(c modelfile.Config) bool { return c.Local == nil }},
		{"Qwen2 sliding window in use", qwen2.With(config{"use_sliding_window": true}), func(c modelfile.Config) bool {
			return c.SlidingWindow == 32 && slices.Equal(c.Local, []bool{false, false, true}) && c.RopeLocal.Theta == 1e6
		}},
		{"Qwen2 sliding window by layer", qwen2.With(config{"use_sliding_window": true, "layer_types": []string{"sliding_attention", "full_attention", "full_attention"}}),
			func(c modelfile.Config) bool { return slices.Equal(c.Local, []bool{true, false, false}) }},
		{"Mistral sliding window", mistral, func(c modelfile.Config) bool {
			return c.SlidingWindow == 48 && slices.Equal(c.Local, []bool{true, true, true}) && c.RopeLocal.Theta == c.Rope.Theta
		}},
		{"Mistral sliding window null", mistral.With(config{"sliding_window": null}), func(c modelfile.Config) bool { return c.Local == nil }},
		{"Mistral sliding window by default", mistral.With(config{"sliding_window": nil}), func(c modelfile.Config) bool { return c.SlidingWindow == 4096 }},
		{"Qwen3 norms its heads", qwen3, func(c modelfile.Config) bool { return c.QKNorm && !c.QKVBias && !c.PostNorms && c.HeadDim == 32 }},
		{"Qwen3 of experts", qwen3Moe, func(c modelfile.Config) bool {
			return c.QKNorm && c.NumExperts == 6 && c.ExpertsPerToken == 3 && c.IntermediateSize == 40 && !c.NormTopK
		}},
		{"Qwen3 of experts, transformers 5 spelling", qwen3Moe.With(config{"num_experts": nil, "num_local_experts": 5}),
			func(c modelfile.Config) bool { return c.NumExperts == 5 }},
		{"Qwen3 of experts, sliding window in use", qwen3Moe.With(config{"use_sliding_window": true, "sliding_window": 16}),
			func(c modelfile.Config) bool { return slices.Equal(c.Local, []bool{true, true, true}) }},
		{"Mixtral", mixtral, func(c modelfile.Config) bool {
			return c.NumExperts == 4 && c.ExpertsPerToken == 2 && c.IntermediateSize == 96 && c.NormTopK && c.Local == nil
		}},
		{"SmolLM3 ties, and one layer of it turns", smollm3, func(c modelfile.Config) bool {
			return c.TieWordEmbeddings && slices.Equal(c.NoRope, []bool{true, false, true}) && c.Local == nil && c.Rope.Theta == 2e6
		}},
		{"SmolLM3 by its interval", smollm3.With(config{"no_rope_layers": nil, "no_rope_layer_interval": 3}),
			func(c modelfile.Config) bool { return slices.Equal(c.NoRope, []bool{false, false, true}) }},
		{"SmolLM3 by the default interval", smollm3.With(config{"no_rope_layers": nil}),
			func(c modelfile.Config) bool { return slices.Equal(c.NoRope, []bool{false, false, false}) }},
		{"Phi3 turns a part of each head", phi3, func(c modelfile.Config) bool {
			return c.Rope.Dim == 24 && len(c.Rope.Divisors) == 12 && c.Rope.Divisors[11] == 2.5 && c.RMSNormEps == 1e-5 &&
				c.MaxPositionEmbeddings == 128 && strings.HasPrefix(c.LimitKey, "original_max_position_embeddings") &&
				math.Abs(c.Rope.Scale-math.Sqrt(1+math.Log(2)/math.Log(128))) < 1e-12
		}},
		{"Phi3 without scaling", phi3.With(config{"rope_scaling": nil, "partial_rotary_factor": nil}), func(c modelfile.Config) bool {
			return c.Rope.Dim == 32 && c.Rope.Divisors == nil && c.Rope.Scale == 0 && c.MaxPositionEmbeddings == 256 && c.LimitKey == ""
		}},
		{"Phi3, old name of its scaling, new place of its part", phi3.With(config{"partial_rotary_factor": nil,
			"rope_scaling": phi3["rope_scaling"].(config).With(config{"type": "su", "partial_rotary_factor": 0.75})}),
			func(c modelfile.Config) bool { return c.Rope.Dim == 24 && c.Rope.Divisors[0] == 1 }},
		{"Phi3 of a given scale", phi3.With(config{"rope_scaling": phi3["rope_scaling"].(config).With(config{"attention_factor": 1.5})}),
			func(c modelfile.Config) bool { return c.Rope.Scale == 1.5 }},
		{"Gemma 3", gemma3, func(c modelfile.Config) bool {
			return c.TieWordEmbeddings && c.HiddenAct == "gelu_pytorch_tanh" && c.NormOffset == 1 && c.PostNorms && c.QKNorm &&
				c.EmbedScale == 8 && c.AttnScale == 0.125 && c.AttnSoftCap == 0 && c.LogitSoftCap == 0 &&
				slices.Equal(c.Local, []bool{true, false, true}) && c.SlidingWindow == 32 &&
				c.Rope.Theta == 1e6 && c.RopeLocal.Theta == 1e4 && c.Rope.Divisors[15] == 8 && c.RopeLocal.Divisors == nil &&
				c.MaxPositionEmbeddings == 256 // linear scaling is counted in it
		}},
		{"Gemma 3, transformers 5 spelling", gemma3.With(config{"rope_scaling": nil, "rope_local_base_freq": nil, "rope_theta": nil, "rope_parameters": config{
			"full_attention":    config{"rope_type": "linear", "factor": 4.0, "rope_theta": 5e5},
			"sliding_attention": config{"rope_type": "default", "rope_theta": 2e4},
		}}), func(c modelfile.Config) bool {
			return c.Rope.Theta == 5e5 && c.Rope.Divisors[0] == 4 && c.RopeLocal.Theta == 2e4 && c.RopeLocal.Divisors == nil
		}},
		{"Gemma 3, every sixth layer global by default", gemma3.With(config{"layer_types": nil}),
			func(c modelfile.Config) bool { return slices.Equal(c.Local, []bool{true, true, true}) }},
		{"Gemma 3, another pattern", gemma3.With(config{"layer_types": nil, "sliding_window_pattern": 3}),
			func(c modelfile.Config) bool { return slices.Equal(c.Local, []bool{true, true, false}) }},
		{"Gemma 2", gemma2, func(c modelfile.Config) bool {
			return c.AttnSoftCap == 50 && c.LogitSoftCap == 30 && !c.QKNorm && slices.Equal(c.Local, []bool{true, false, true}) &&
				c.RopeLocal.Theta == 1e4
		}},
		{"Gemma 2 without caps", gemma2.With(config{"attn_logit_softcapping": null, "final_logit_softcapping": null}),
			func(c modelfile.Config) bool { return c.AttnSoftCap == 0 && c.LogitSoftCap == 0 }},
		{"linear rope lengthens sequences", llama.With(config{"rope_scaling": config{"type": "linear", "factor": 2.0}}), func(c modelfile.Config) bool {
			return c.Rope.Divisors[0] == 2 && c.Rope.Divisors[15] == 2 && c.MaxPositionEmbeddings == 512
		}},
		{"llama3 rope slows what turns seldom", llama.With(config{"rope_scaling": llama3}), func(c modelfile.Config) bool {
			return c.Rope.Divisors[0] == 1 && c.Rope.Divisors[15] == 8 && c.MaxPositionEmbeddings == 256
		}},
		{"yarn lengthens heads too", llama.With(config{"rope_parameters": yarn}), func(c modelfile.Config) bool {
			return c.Rope.Divisors[0] == 1 && c.Rope.Divisors[15] == 4 && c.MaxPositionEmbeddings == 512 &&
				math.Abs(c.Rope.Scale-(0.1*math.Log(4)+1)) < 1e-12
		}},
		{"yarn with DeepSeek's magnitudes", llama.With(config{"rope_parameters": yarn.With(config{"mscale": 1.0, "mscale_all_dim": 1.0})}),
			func(c modelfile.Config) bool { return c.Rope.Scale == 1 }},
		{"sizes written as floats", llama.With(config{"hidden_size": json.RawMessage("64.0")}), func(c modelfile.Config) bool { return c.HiddenSize == 64 }},
		{"keys of training", llama.With(config{"attention_dropout": 0.1, "initializer_range": 0.02, "use_cache": true, "pretraining_tp": 1}),
			func(modelfile.Config) bool { return true }},
		{"second of two architectures", llama.With(config{"architectures": []string{"MyModel", "LlamaForCausalLM"}}),
			func(c modelfile.Config) bool { return c.Architecture == "LlamaForCausalLM" }},
		{"neutral values of keys that change the result", llama.With(config{"partial_rotary_factor": 1.0, "logits_scaling": 1, "num_experts": 0}),
			func(modelfile.Config) bool { return true }},
	} {
		got, err := parse(t, c.in)
		if err != nil || !c.ok(got) {
			t.Errorf("%s: ParseConfig = %+v, %v", c.name, got, err)
		}
	}
}

func TestParseConfigRefusals(t *testing.T) {
	for _, c := range []struct {
		name string
		in   config
		is   error
		says string // key and value
	}{
		{"unknown architecture", llama.With(config{"architectures": []string{"MambaForCausalLM"}}), modelfile.ErrUnsupported, "architecture MambaForCausalLM"},
		{"no architecture", llama.With(config{"architectures": nil}), modelfile.ErrInvalid, "no architectures"},
		{"no hidden_size", llama.With(config{"hidden_size": nil}), modelfile.ErrInvalid, "no hidden_size"},
		{"zero layers", llama.With(config{"num_hidden_layers": 0}), modelfile.ErrInvalid, "num_hidden_layers = 0"},
		{"negative vocabulary", llama.With(config{"vocab_size": -5}), modelfile.ErrInvalid, "vocab_size = -5"},
		{"absurd size", llama.With(config{"intermediate_size": 1 << 40}), modelfile.ErrInvalid, "intermediate_size = 1099511627776"},
		{"fraction", llama.With(config{"vocab_size": 131.5}), modelfile.ErrInvalid, "vocab_size = 131.5"},
		{"size as text", llama.With(config{"hidden_size": "64"}), modelfile.ErrInvalid, `hidden_size = "64"`},
		{"heads do not divide", llama.With(config{"num_key_value_heads": 3}), modelfile.ErrInvalid, "num_key_value_heads = 3"},
		{"hidden_size not over heads", llama.With(config{"head_dim": nil, "num_attention_heads": 6, "num_key_value_heads": 6}), modelfile.ErrInvalid, "hidden_size = 64"},
		{"odd head_dim", llama.With(config{"head_dim": 15}), modelfile.ErrInvalid, "head_dim = 15"},
		{"activation", llama.With(config{"hidden_act": "gelu"}), modelfile.ErrUnsupported, `hidden_act = "gelu"`},
		{"dtype", llama.With(config{"torch_dtype": "float8_e4m3fn"}), modelfile.ErrUnsupported, `torch_dtype = "float8_e4m3fn"`},
		{"rope scaling", llama.With(config{"rope_scaling": config{"rope_type": "dynamic", "factor": 8.0}}), modelfile.ErrUnsupported, `rope_scaling: rope_type = "dynamic"`},
		{"old rope scaling", llama.With(config{"rope_scaling": config{"type": "ntk", "factor": 2.0}}), modelfile.ErrUnsupported, `type = "ntk"`},
		{"linear rope without a factor", llama.With(config{"rope_scaling": config{"type": "linear"}}), modelfile.ErrInvalid, `rope_scaling: invalid: no factor`},
		{"rope factor below 1", llama.With(config{"rope_scaling": config{"type": "linear", "factor": 0.5}}), modelfile.ErrInvalid, `factor = 0.5`},
		{"rope key of another type", llama.With(config{"rope_scaling": config{"type": "linear", "factor": 2.0, "beta_fast": 16}}), modelfile.ErrUnsupported, `beta_fast = 16`},
		{"llama3 without frequencies", llama.With(config{"rope_scaling": config{"type": "llama3", "factor": 2.0}}), modelfile.ErrInvalid, `no low_freq_factor`},
		{"llama3 frequencies", llama.With(config{"rope_scaling": llama3.With(config{"low_freq_factor": 4.0})}), modelfile.ErrInvalid, `low_freq_factor = 4`},
		{"yarn bounds", llama.With(config{"rope_parameters": yarn.With(config{"beta_slow": 64})}), modelfile.ErrInvalid, `rope_parameters: invalid beta_fast`},
		{"yarn scale", llama.With(config{"rope_parameters": yarn.With(config{"attention_factor": -1.0})}), modelfile.ErrInvalid, `attention_factor = -1`},
		{"longrope without factors", phi3.With(config{"rope_scaling": config{"type": "longrope"}}), modelfile.ErrInvalid, `no short_factor`},
		{"longrope with few factors", phi3.With(config{"partial_rotary_factor": 0.5}), modelfile.ErrInvalid, `8 positive numbers`},
		{"longrope that stops a pair", phi3.With(config{"rope_scaling": phi3["rope_scaling"].(config).With(config{"short_factor": make([]float64, 12)})}), modelfile.ErrInvalid, `divides pair 0 by 0`},
		{"partial rotary", llama.With(config{"partial_rotary_factor": 0.5}), modelfile.ErrUnsupported, `partial_rotary_factor = 0.5`},
		{"partial rotary in its new place", llama.With(config{"rope_parameters": config{"partial_rotary_factor": 0.5}}), modelfile.ErrUnsupported, `partial_rotary_factor = 0.5`},
		{"odd part of a head", phi3.With(config{"rope_scaling": nil, "partial_rotary_factor": 0.1}), modelfile.ErrInvalid, `rotary embedding of 3 values`},
		{"rope factor without a type", llama.With(config{"rope_scaling": config{"factor": 4.0}}), modelfile.ErrUnsupported, "rope_scaling: factor = 4"},
		{"rope_theta", llama.With(config{"rope_theta": 0}), modelfile.ErrInvalid, "rope_theta = 0"},
		{"quantization", llama.With(config{"quantization_config": config{"quant_method": "fp8"}}), modelfile.ErrUnsupported, `quant_method = "fp8"`},
		{"sliding window", llama.With(config{"sliding_window": 4096}), modelfile.ErrUnsupported, "sliding_window = 4096"},
		{"sliding window of half a token", mistral.With(config{"sliding_window": 0.5}), modelfile.ErrInvalid, "sliding_window = 0.5"},
		{"Qwen3 without head_dim", qwen3.With(config{"head_dim": nil}), modelfile.ErrInvalid, "no head_dim"},
		{"Gemma without its scalar", gemma3.With(config{"query_pre_attn_scalar": nil}), modelfile.ErrInvalid, "no query_pre_attn_scalar"},
		{"Gemma's scalar", gemma3.With(config{"query_pre_attn_scalar": -4}), modelfile.ErrInvalid, "scales and soft caps must be positive"},
		{"Gemma's activation", gemma3.With(config{"hidden_activation": "gelu"}), modelfile.ErrUnsupported, `hidden_activation = "gelu"`},
		{"Gemma 3 caps no scores", gemma3.With(config{"attn_logit_softcapping": 50.0}), modelfile.ErrUnsupported, "attn_logit_softcapping = 50"},
		{"both directions", gemma3.With(config{"use_bidirectional_attention": true}), modelfile.ErrUnsupported, "use_bidirectional_attention = true"},
		{"Gemma 3 with images", gemma3.With(config{"architectures": []string{"Gemma3ForConditionalGeneration"}}), modelfile.ErrUnsupported, "take a checkpoint or GGUF file of its text part"},
		{"layers that turn, too few", smollm3.With(config{"no_rope_layers": []int{1}}), modelfile.ErrInvalid, "no_rope_layers = [1]"},
		{"unknown layers", gemma3.With(config{"layer_types": []string{"chunked_attention", "full_attention", "full_attention"}}), modelfile.ErrUnsupported, "layer_types"},
		{"Qwen2 without KV heads", qwen2.With(config{"num_key_value_heads": nil}), modelfile.ErrInvalid, "no num_key_value_heads"},
		{"too few layers", qwen2.With(config{"layer_types": []string{"full_attention", "sliding_attention"}}), modelfile.ErrInvalid, "layer_types"},
		{"sliding layers, no window in use", qwen2.With(config{"layer_types": []string{"full_attention", "full_attention", "sliding_attention"}}), modelfile.ErrUnsupported, "layer_types"},
		{"experts", llama.With(config{"num_local_experts": 8}), modelfile.ErrUnsupported, "num_local_experts = 8"},
		{"no experts", mixtral.With(config{"num_local_experts": nil}), modelfile.ErrInvalid, "no num_local_experts"},
		{"few experts", mixtral.With(config{"num_experts_per_tok": 5}), modelfile.ErrInvalid, "num_experts_per_tok = 5"},
		{"dense layers between", qwen3Moe.With(config{"mlp_only_layers": []int{1}}), modelfile.ErrUnsupported, "mlp_only_layers = [1]"},
		{"every second layer dense", qwen3Moe.With(config{"decoder_sparse_step": 2}), modelfile.ErrUnsupported, "decoder_sparse_step = 2"},
		{"soft cap", llama.With(config{"final_logit_softcapping": 30.0}), modelfile.ErrUnsupported, "final_logit_softcapping = 30"},
		{"EOS outside", llama.With(config{"eos_token_id": 131}), modelfile.ErrInvalid, "eos_token_id = 131"},
		{"EOS as text", llama.With(config{"eos_token_id": "eos"}), modelfile.ErrInvalid, `eos_token_id = "eos"`},
	} {
		_, err := parse(t, c.in)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "config.json") {
			t.Errorf("%s: ParseConfig = %v; want %v that says %s", c.name, err, c.is, c.says)
		}
	}
}

func TestParseConfigReportsAllProblems(t *testing.T) {
	_, err := parse(t, modelfiletest.Llama().With(config{"vocab_size": 0, "hidden_act": "relu", "rope_scaling": config{"type": "dynamic"}}))
	for _, says := range []string{"vocab_size = 0", `hidden_act = "relu"`, `type = "dynamic"`} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("ParseConfig = %v, want also %s", err, says)
		}
	}
}

func TestParseConfigNotJSON(t *testing.T) {
	for _, text := range []string{"", "{", "[]", "nonsense", `{"vocab_size":}`} {
		if _, err := modelfile.ParseConfig("config.json", []byte(text)); !errors.Is(err, modelfile.ErrInvalid) {
			t.Errorf("ParseConfig(%q) = %v, want ErrInvalid", text, err)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	for _, c := range append(slices.Collect(maps.Values(modelfiletest.Families())),
		llama.With(config{"rope_scaling": llama3}), llama.With(config{"rope_parameters": yarn})) {
		data, err := json.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := modelfile.ParseConfig("config.json", data)
		if err != nil {
			if !errors.Is(err, modelfile.ErrInvalid) && !errors.Is(err, modelfile.ErrUnsupported) {
				t.Errorf("ParseConfig = %v, which is neither ErrInvalid nor ErrUnsupported", err)
			}
			return
		}
		if c.NumHeads%c.NumKVHeads != 0 || c.HeadDim < 2 || c.VocabSize < 1 || c.NumLayers < 1 || !(c.Rope.Theta > 0) ||
			c.MaxPositionEmbeddings < 1 || c.Local != nil && (len(c.Local) != c.NumLayers || c.SlidingWindow < 1 || c.RopeLocal.Dim < 2) {
			t.Errorf("ParseConfig accepted %+v", c)
		}
	})
}
