package main

import (
	"strings"
	"testing"

	"govllm/cmd/internal/flags"
	"govllm/protocol/modelfile"
	"govllm/protocol/modelfile/builtin/weights"
)

// The flag wins over the environment, and 0 GiB there means the default.
func TestKVBytes(t *testing.T) {
	const gib, available = 1 << 30, 8 << 30
	for _, tc := range []struct {
		args, env string
		want      int64
		says      string
	}{
		{"", "", 2 * gib, ""},
		{"--kv-cache-memory-bytes 123", "7", 123, ""},
		{"--kv-cache-memory-bytes 1M", "", 1 << 20, ""},
		{"", "3", 3 * gib, ""},
		{"", "0.5", gib / 2, ""},
		{"", "0", 2 * gib, ""},
		{"--kv-cache-space 1", "3", gib, ""},
		{"--kv-cache-memory-bytes -1", "", 0, "-1"},
		{"", "lots", 0, `VLLM_CPU_KVCACHE_SPACE: "lots"`},
		{"", "-2", 0, "VLLM_CPU_KVCACHE_SPACE: -2"},
		{"", "NaN", 0, `VLLM_CPU_KVCACHE_SPACE: "NaN"`},
	} {
		t.Setenv("VLLM_CPU_KVCACHE_SPACE", tc.env)
		opts, set := flags.NewCore()
		err := set.Parse(strings.Fields(tc.args))
		if tc.says != "" {
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%q with %q = %v, want %q", tc.args, tc.env, err, tc.says)
			}
			continue
		}
		if got := kvBytes(opts, available); err != nil || got != tc.want {
			t.Errorf("%q with %q = %d, %v, want %d", tc.args, tc.env, got, err, tc.want)
		}
	}
}

// The flags say no more than the files do.
func TestOpenWeights(t *testing.T) {
	m, err := modelfile.Open(modelfile.Builtin, modelfile.Options{BuiltinWeights: weights.FS})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ args, says string }{
		{"", ""},
		{"--load-format safetensors", ""},
		{"--load-format dummy", ""},
		{"--load-format gguf", "--load-format gguf: its weights are stored as safetensors; leave it out"},
		{"--load-format bitsandbytes", `"bitsandbytes" is not one of auto, safetensors, gguf, dummy`},
		{"--quantization awq", "--quantization awq: its weights are quantized by nothing; leave it out"},
		{"--quantization gptq_marlin --load-format dummy", "--quantization gptq_marlin"},
		{"--quantization fp8", `"fp8" is not one of awq`},
	} {
		opts, set := flags.NewCore()
		err := set.Parse(strings.Fields(tc.args))
		if err == nil {
			var src *modelfile.Weights
			if src, err = openWeights(opts, m); err == nil {
				err = src.Close()
			}
		}
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%q = %v, want %q", tc.args, err, tc.says)
		}
	}
}
