package model_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"govllm/enginecore/model"
	"govllm/kernels"
	"govllm/protocol/modelfile"
	"govllm/protocol/modelfile/modelfiletest"
)

// prompt is long enough that the windows of the tiny families are full.
var prompt = func() []int32 {
	ids := make([]int32, 70)
	for i := range ids {
		ids[i] = int32(i*i+3*i) % 131
	}
	return ids
}()

// Every tensor of a layer is needed: without it nothing is loaded, and with
// others in its place the logits are others.
func TestFamiliesUseEveryTensor(t *testing.T) {
	for name, cfg := range modelfiletest.Families() {
		t.Run(name, func(t *testing.T) {
			tensors := modelfiletest.RandomTensors(cfg, "BF16", 5)
			logits := func(tensors []tensor) []float32 {
				return openBench(t, "ref", modelfiletest.WriteDir(t, cfg, tensors...)).logits(0, prompt, 69)[0]
			}
			want := logits(tensors)
			if raceEnabled {
				return
			}
			for i, x := range tensors {
				if strings.HasPrefix(x.Name, "model.layers.") && !strings.HasPrefix(x.Name, "model.layers.1.") {
					continue
				}
				changed := slices.Clone(tensors)
				changed[i].Data = make([]byte, len(x.Data))
				if slices.Equal(logits(changed), want) {
					t.Errorf("logits are the same with zeros in %s", x.Name)
				}
				_, err := load(t, modelfiletest.WriteDir(t, cfg, slices.Delete(changed, i, i+1)...), model.Options{DType: kernels.F32})
				if !errors.Is(err, modelfile.ErrNotFound) || !strings.Contains(err.Error(), x.Name) {
					t.Errorf("without %s: Load = %v, want %v that names it", x.Name, err, modelfile.ErrNotFound)
				}
			}
		})
	}
}

// A tensor of another family is a tensor too many.
func TestFamiliesRefuseLeftovers(t *testing.T) {
	for name, leftover := range map[string]string{
		"llama": "self_attn.q_norm.weight", "qwen3": "post_feedforward_layernorm.weight", "phi3": "self_attn.q_proj.weight", "gemma2": "self_attn.k_norm.weight",
	} {
		cfg := modelfiletest.Families()[name]
		leftover = "model.layers.0." + leftover
		tensors := append(modelfiletest.RandomTensors(cfg, "F32", 5), tensor{Name: leftover, DType: "F32", Shape: []int{1}, Data: make([]byte, 4)})
		_, err := load(t, modelfiletest.WriteDir(t, cfg, tensors...), model.Options{DType: kernels.F32})
		if !errors.Is(err, modelfile.ErrInvalid) || !strings.Contains(err.Error(), leftover) {
			t.Errorf("%s with %s: Load = %v, want %v that names it", name, leftover, err, modelfile.ErrInvalid)
		}
	}
}

// Heads and widths that are multiples of nothing: every device agrees with the
// reference, whole and in chunks that end within a window.
func TestFamiliesAgree(t *testing.T) {
	for name, cfg := range modelfiletest.Families() {
		t.Run(name, func(t *testing.T) {
			cfg = cfg.With(config{"hidden_size": 60, "head_dim": 20, "num_attention_heads": 3, "num_key_value_heads": 1, "intermediate_size": 50})
			if name == "phi3" { // 15 of 20 values are odd
				cfg = cfg.With(config{"rope_scaling": nil, "partial_rotary_factor": 0.5})
			}
			dir := modelfiletest.WriteDir(t, cfg, modelfiletest.RandomTensors(cfg, "BF16", 9)...)
			want := openBench(t, "ref", dir).logits(0, prompt, 0, 33, 69)
			for _, device := range devices()[1:] {
				b := openBench(t, device, dir)
				got := b.logits(0, prompt, 0, 33, 69)
				for i := range got {
					if e := relativeError(got[i], want[i]); !(e <= 1e-4) {
						t.Errorf("%s: row %d is off by %.2g of the largest, want at most 1e-4", device, i, e)
					}
				}
				b = openBench(t, device, dir)
				b.logits(0, prompt[:37])
				b.logits(37, prompt[37:69])
				if chunked := b.logits(69, prompt[69:], 0); !slices.Equal(chunked[0], got[2]) {
					t.Errorf("%s: logits of the last token differ after chunks of 37 and 32", device)
				}
			}
		})
	}
}

// The formula counts what the files hold, less the vectors: on the reference,
// which keeps float32 whatever it rounds to, as much as F32 files.
func TestWeightBytes(t *testing.T) {
	for name, cfg := range modelfiletest.Families() {
		data, err := json.Marshal(cfg)
		must(t, err)
		parsed, err := modelfile.ParseConfig("config.json", data)
		must(t, err)
		want := int64(0)
		for _, x := range modelfiletest.RandomTensors(cfg, "F32", 5) {
			if len(x.Shape) == 2 {
				want += int64(len(x.Data))
			}
		}
		if got := model.WeightBytes(openDevice(t, "ref"), parsed, kernels.BF16); got != want {
			t.Errorf("WeightBytes(%s) = %d, want %d", name, got, want)
		}
	}
}

func TestWorkspaceBytes(t *testing.T) {
	cfg := modelfile.Config{VocabSize: 1000, HiddenSize: 64, IntermediateSize: 96, NumHeads: 4, NumKVHeads: 2, HeadDim: 32, Rope: modelfile.Rope{Dim: 24}}
	// x, norm, qkv, attn, gate_up, mlp; then last x, last attn, logits; then rope.
	want := int64(4 * (10*(64+64+256+128+192+96) + 3*(64+128+1000) + 24*500))
	if got := model.WorkspaceBytes(cfg, 10, 3, 500); got != want {
		t.Errorf("WorkspaceBytes = %d, want %d", got, want)
	}
	cfg.Local, cfg.RopeLocal = []bool{true}, modelfile.Rope{Dim: 32}
	want += 4 * 32 * 500
	if got := model.WorkspaceBytes(cfg, 10, 3, 500); got != want {
		t.Errorf("WorkspaceBytes with two ropes = %d, want %d", got, want)
	}
	// gate_up and mlp have 2 rows a token; the router's logits, picks and parts.
	cfg.NumExperts, cfg.ExpertsPerToken = 5, 2
	want += 4 * 10 * (192 + 96 + 2*64 + 5 + 2 + 2)
	if got := model.WorkspaceBytes(cfg, 10, 3, 500); got != want {
		t.Errorf("WorkspaceBytes with experts = %d, want %d", got, want)
	}
}
