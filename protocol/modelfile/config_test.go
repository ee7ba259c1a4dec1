package modelfile_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"govllm/protocol/modelfile"
	"govllm/protocol/modelfile/modelfiletest"
)

type config = modelfiletest.Config

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
	llama, qwen2 := modelfiletest.Llama(), modelfiletest.Qwen2()
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
			func(modelfile.Config) bool { return true }},
		{"Qwen2 sliding window of no size", qwen2.With(config{"use_sliding_window": true, "sliding_window": nil}),
			func(modelfile.Config) bool { return true }},
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
	llama, qwen2 := modelfiletest.Llama(), modelfiletest.Qwen2()
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
		{"rope scaling", llama.With(config{"rope_scaling": config{"rope_type": "llama3", "factor": 8.0}}), modelfile.ErrUnsupported, `rope_scaling: rope_type = "llama3"`},
		{"old rope scaling", llama.With(config{"rope_scaling": config{"type": "linear", "factor": 2.0}}), modelfile.ErrUnsupported, `type = "linear"`},
		{"rope parameters", llama.With(config{"rope_parameters": config{"rope_type": "yarn"}}), modelfile.ErrUnsupported, `rope_parameters: rope_type = "yarn"`},
		{"rope factor without a type", llama.With(config{"rope_scaling": config{"factor": 4.0}}), modelfile.ErrUnsupported, "rope_scaling: factor = 4"},
		{"rope_theta", llama.With(config{"rope_theta": 0}), modelfile.ErrInvalid, "rope_theta = 0"},
		{"quantization", llama.With(config{"quantization_config": config{"quant_method": "awq"}}), modelfile.ErrUnsupported, `quantization_config = {"quant_method":"awq"}`},
		{"sliding window", llama.With(config{"sliding_window": 4096}), modelfile.ErrUnsupported, "sliding_window = 4096"},
		{"Qwen2 sliding window", qwen2.With(config{"use_sliding_window": true}), modelfile.ErrUnsupported, "use_sliding_window = true"},
		{"Qwen2 without KV heads", qwen2.With(config{"num_key_value_heads": nil}), modelfile.ErrInvalid, "no num_key_value_heads"},
		{"sliding layers", qwen2.With(config{"layer_types": []string{"full_attention", "sliding_attention"}}), modelfile.ErrUnsupported, "layer_types"},
		{"experts", llama.With(config{"num_local_experts": 8}), modelfile.ErrUnsupported, "num_local_experts = 8"},
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
	_, err := parse(t, modelfiletest.Llama().With(config{"vocab_size": 0, "hidden_act": "relu", "rope_scaling": config{"type": "yarn"}}))
	for _, says := range []string{"vocab_size = 0", `hidden_act = "relu"`, `type = "yarn"`} {
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
	for _, c := range []config{modelfiletest.Llama(), modelfiletest.Qwen2()} {
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
		if c.NumHeads%c.NumKVHeads != 0 || c.HeadDim < 2 || c.VocabSize < 1 || c.NumLayers < 1 || !(c.Rope.Theta > 0) {
			t.Errorf("ParseConfig accepted %+v", c)
		}
	})
}
