package model_test

import (
	"path/filepath"
	"strings"
	"testing"

	"govllm/enginecore/model"
	"govllm/protocol/modelfile/modelfiletest"
)

// writeGGUF writes a model as a GGUF file and returns its path.
func writeGGUF(t testing.TB, data []byte) string {
	t.Helper()
	dir := t.TempDir()
	modelfiletest.WriteFile(t, dir, "tiny.gguf", data)
	return filepath.Join(dir, "tiny.gguf")
}

// A checkpoint converted to GGUF is the same model.
func TestGGUFIsTheSameModel(t *testing.T) {
	gemma := config{"query_pre_attn_scalar": 32} // a GGUF file has no other than head_dim
	for name, cfg := range map[string]config{
		"llama":  modelfiletest.Llama(),
		"biases": modelfiletest.Llama().With(config{"attention_bias": true, "mlp_bias": true}),
		"linear": modelfiletest.Llama().With(config{"rope_scaling": config{"rope_type": "linear", "factor": 2.0}}),
		"qwen2":  modelfiletest.Qwen2().With(config{"sliding_window": nil}),
		"qwen3":  modelfiletest.Qwen3(),
		"phi3":   modelfiletest.Phi3().With(config{"rope_scaling": nil, "sliding_window": 40}),
		"gemma2": modelfiletest.Gemma2().With(gemma),
		"gemma3": modelfiletest.Gemma3().With(gemma),
	} {
		t.Run(name, func(t *testing.T) {
			tensors := modelfiletest.RandomTensors(cfg, "F32", 5)
			prompt := make([]int32, 70)
			for i := range prompt {
				prompt[i] = int32(i*i) % 131
			}
			want := openBench(t, "ref", modelfiletest.WriteDir(t, cfg, tensors...)).logits(0, prompt, 3, 69)
			got := openBench(t, "ref", writeGGUF(t, modelfiletest.AsGGUF(cfg, tensors))).logits(0, prompt, 3, 69)
			for i := range got {
				if e := relativeError(got[i], want[i]); !(e <= 1e-5) {
					t.Errorf("row %d is off by %.2g of the largest, want at most 1e-5", i, e)
				}
			}
		})
	}
}

// Loading names the GGUF file's own tensor.
func TestGGUFLoadErrors(t *testing.T) {
	cfg := modelfiletest.Llama()
	tensors := modelfiletest.RandomTensors(cfg, "F32", 5)
	without := func(name string) []tensor {
		var rest []tensor
		for _, x := range tensors {
			if x.Name != name {
				rest = append(rest, x)
			}
		}
		return rest
	}
	extra := tensor{Name: "model.layers.1.self_attn.q_proj.bias", DType: "F32", Shape: []int{128}, Data: make([]byte, 512)}
	for _, c := range []struct {
		name string
		file []byte
		says string
	}{
		{"a missing tensor", modelfiletest.AsGGUF(cfg, without("model.layers.2.mlp.down_proj.weight")), `"blk.2.ffn_down.weight" not found`},
		{"a wrong shape", modelfiletest.AsGGUF(cfg.With(config{"intermediate_size": 100}), tensors), `"blk.0.ffn_gate.weight" is [96 64], the config asks for [100 64]`},
		{"a tensor too many", modelfiletest.AsGGUF(cfg, append(tensors, extra)), `tiny.gguf: tensor "blk.1.attn_q.bias" has no place`},
	} {
		_, err := load(t, writeGGUF(t, c.file), model.Options{DType: 1})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: Load = %v, want an error that says %q", c.name, err, c.says)
		}
	}
}
