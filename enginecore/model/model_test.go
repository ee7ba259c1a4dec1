package model_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"govllm/enginecore/model"
	"govllm/kernels"
	"govllm/protocol/modelfile"
	"govllm/protocol/modelfile/modelfiletest"
)

type (
	config = modelfiletest.Config
	tensor = modelfiletest.Tensor
)

// load loads a directory in float32 on ref.
func load(t testing.TB, dir string, opt model.Options) (*model.Model, error) {
	t.Helper()
	m, err := modelfile.Open(dir, modelfile.Options{})
	must(t, err)
	src, err := m.OpenWeights()
	must(t, err)
	defer src.Close()
	dev := openDevice(t, "ref")
	opt.MaxModelLen = m.Config.MaxPositionEmbeddings
	return model.Load(dev, m.Config, src, opt)
}

// Weights that all three types hold exactly give the same logits in each.
func TestDTypesAgree(t *testing.T) {
	cfg := modelfiletest.Qwen2()
	prompt := []int32{1, 50, 3, 130}
	var want []float32
	for _, dtype := range []string{"F32", "BF16", "F16"} {
		b := openBench(t, "ref", modelfiletest.WriteDir(t, cfg, modelfiletest.RandomTensors(cfg, dtype, 5)...))
		got := b.logits(0, prompt, 3)[0]
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Errorf("logits of %s weights differ from those of F32", dtype)
		}
	}
}

// All biases are used: without any one of them the logits are others.
func TestBiases(t *testing.T) {
	cfg := modelfiletest.Llama().With(config{"attention_bias": true, "mlp_bias": true})
	tensors := modelfiletest.RandomTensors(cfg, "F32", 5)
	logits := func(tensors []tensor) []float32 {
		return openBench(t, "ref", modelfiletest.WriteDir(t, cfg, tensors...)).logits(0, []int32{7, 8, 9}, 2)[0]
	}
	want := logits(tensors)
	tried := 0
	for i, x := range tensors {
		if !strings.HasPrefix(x.Name, "model.layers.1.") || !strings.HasSuffix(x.Name, ".bias") {
			continue
		}
		tried++
		changed := slices.Clone(tensors)
		changed[i].Data = make([]byte, len(x.Data))
		if slices.Equal(logits(changed), want) {
			t.Errorf("logits are the same without %s", x.Name)
		}
	}
	if tried != 7 {
		t.Errorf("%d biases in a layer, want 7", tried)
	}
}

// Sizes that are multiples of nothing: every device agrees with the reference.
func TestOddSizes(t *testing.T) {
	for _, sizes := range []config{
		{"hidden_size": 60, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 20, "intermediate_size": 50, "vocab_size": 101},
		{"hidden_size": 35, "num_attention_heads": 5, "num_key_value_heads": 5, "head_dim": 6, "intermediate_size": 17, "vocab_size": 33},
		{"hidden_size": 8, "num_attention_heads": 7, "num_key_value_heads": 1, "head_dim": 2, "intermediate_size": 1, "vocab_size": 5, "num_hidden_layers": 1},
		{"hidden_size": 72, "num_attention_heads": 12, "num_key_value_heads": 4, "head_dim": 80, "intermediate_size": 200, "vocab_size": 257},
	} {
		cfg := modelfiletest.Llama().With(sizes).With(config{"attention_bias": true, "mlp_bias": true})
		dir := modelfiletest.WriteDir(t, cfg, modelfiletest.RandomTensors(cfg, "BF16", 9)...)
		n := 70
		if raceEnabled {
			n = 34
		}
		prompt := make([]int32, n)
		for i := range prompt {
			prompt[i] = int32(i*i) % int32(cfg["vocab_size"].(int))
		}
		var want [][]float32
		for _, device := range devices() {
			got := openBench(t, device, dir).logits(0, prompt, 0, 33, int32(n-1))
			if device == "ref" {
				want = got
			}
			for i := range got {
				if e := relativeError(got[i], want[i]); !(e <= 1e-4) {
					t.Errorf("%v on %s: row %d is off by %.2g of the largest, want at most 1e-4", sizes, device, i, e)
				}
			}
		}
	}
}

func TestTiedHeadIgnoresTheFilesOwn(t *testing.T) {
	cfg := modelfiletest.Qwen2()
	tensors := modelfiletest.RandomTensors(cfg, "F32", 5)
	want := openBench(t, "ref", modelfiletest.WriteDir(t, cfg, tensors...)).logits(0, []int32{7, 8}, 1)[0]
	head := tensors[1]
	head.Name, head.Shape, head.Data = "lm_head.weight", []int{131, 64}, make([]byte, 131*64*4)
	got := openBench(t, "ref", modelfiletest.WriteDir(t, cfg, append(tensors, head)...)).logits(0, []int32{7, 8}, 1)[0]
	if !slices.Equal(got, want) {
		t.Errorf("a tied model used lm_head.weight")
	}
}

// Only the rows that need logits go through the last MLP; which ones are asked
// changes none of them.
func TestLogitRowsAreIndependent(t *testing.T) {
	cfg := modelfiletest.Llama()
	b := openBench(t, "ref", modelfiletest.WriteDir(t, cfg, modelfiletest.RandomTensors(cfg, "F32", 5)...))
	prompt := []int32{3, 1, 4, 1, 5, 9, 2, 6}
	all := b.logits(0, prompt, 0, 1, 2, 3, 4, 5, 6, 7)
	for _, rows := range [][]int32{{7}, {0, 7}, {3, 4, 5}} {
		for i, got := range b.logits(0, prompt, rows...) {
			if !slices.Equal(got, all[rows[i]]) {
				t.Errorf("logits of row %d differ when rows %v are asked", rows[i], rows)
			}
		}
	}
	b.logits(0, prompt) // none at all fills the cache …
	if got := b.logits(7, prompt[7:], 0)[0]; !slices.Equal(got, all[7]) {
		t.Errorf("logits of row 7 differ after a pass without logits")
	}
}

func TestLoadRefusals(t *testing.T) {
	cfg := modelfiletest.Llama()
	good := modelfiletest.RandomTensors(cfg, "F32", 5)
	without := func(name string) []tensor {
		return slices.DeleteFunc(slices.Clone(good), func(x tensor) bool { return x.Name == name })
	}
	for _, c := range []struct {
		name    string
		tensors []tensor
		is      error
		says    []string
	}{
		{"missing matrix", without("model.layers.1.self_attn.k_proj.weight"), modelfile.ErrNotFound, []string{"model.layers.1.self_attn.k_proj.weight", "[64 64]"}},
		{"missing norm", without("model.norm.weight"), modelfile.ErrNotFound, []string{"model.norm.weight"}},
		{"missing head", without("lm_head.weight"), modelfile.ErrNotFound, []string{"lm_head.weight", "[131 64]"}},
		{"leftover bias", append(slices.Clone(good), tensor{Name: "model.layers.0.self_attn.q_proj.bias", DType: "F32", Shape: []int{128}, Data: make([]byte, 512)}),
			modelfile.ErrInvalid, []string{"model.layers.0.self_attn.q_proj.bias", "no place"}},
		{"leftover layer", append(slices.Clone(good), tensor{Name: "model.layers.3.input_layernorm.weight", DType: "F32", Shape: []int{64}, Data: make([]byte, 256)}),
			modelfile.ErrInvalid, []string{"model.layers.3"}},
	} {
		_, err := load(t, modelfiletest.WriteDir(t, cfg, c.tensors...), model.Options{DType: kernels.F32})
		for _, says := range c.says {
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: Load = %v, want %v that says %s", c.name, err, c.is, says)
			}
		}
	}

	wide := modelfiletest.WriteDir(t, cfg.With(config{"intermediate_size": 97}), good...)
	if _, err := load(t, wide, model.Options{DType: kernels.F32}); !errors.Is(err, modelfile.ErrInvalid) ||
		!strings.Contains(err.Error(), "mlp.gate_proj.weight") || !strings.Contains(err.Error(), "[96 64], the config asks for [97 64]") {
		t.Errorf("wrong shape: Load = %v, want both shapes", err)
	}
}

func TestLoadRefusesHeadDimBeyondTheDevice(t *testing.T) {
	cfg := modelfiletest.Llama().With(config{"head_dim": 2048})
	// Refused before any tensor is looked for.
	_, err := load(t, modelfiletest.WriteDir(t, cfg, tensor{Name: "none", DType: "U8", Data: []byte{0}}), model.Options{DType: kernels.F32})
	if !errors.Is(err, modelfile.ErrUnsupported) || !strings.Contains(err.Error(), "head_dim = 2048") {
		t.Errorf("Load = %v, want ErrUnsupported with head_dim = 2048", err)
	}
}

func TestLoadIgnoresSavedRopeConstants(t *testing.T) {
	cfg := modelfiletest.Llama()
	tensors := append(modelfiletest.RandomTensors(cfg, "F32", 5),
		tensor{Name: "model.layers.0.self_attn.rotary_emb.inv_freq", DType: "F32", Shape: []int{16}, Data: make([]byte, 64)})
	if _, err := load(t, modelfiletest.WriteDir(t, cfg, tensors...), model.Options{DType: kernels.F32}); err != nil {
		t.Errorf("Load = %v", err)
	}
}

// Progress counts what matrices take when packed, and reaches all of it, in
// pieces smaller than the largest tensor.
func TestLoadProgress(t *testing.T) {
	cfg := modelfiletest.Llama().With(config{"vocab_size": 3000})
	tensors := modelfiletest.RandomTensors(cfg, "BF16", 5)
	want, matrices := int64(0), 0
	for _, x := range tensors {
		if len(x.Shape) == 2 {
			want += 2 * int64(len(x.Data)) // as float32
			matrices++
		}
	}
	last, calls := int64(0), 0
	_, err := load(t, modelfiletest.WriteDir(t, cfg, tensors...), model.Options{DType: kernels.F32, Progress: func(done, total int64) {
		if done <= last || total != want {
			t.Errorf("Progress(%d, %d) after %d; want growth to %d", done, total, last, want)
		}
		last = done
		calls++
	}})
	if err != nil || last != want || calls <= matrices {
		t.Errorf("Load = %v after %d of %d bytes in %d calls, want more calls than %d matrices", err, last, want, calls, matrices)
	}
}

func TestResolveDType(t *testing.T) {
	caps := kernels.Caps{WeightDTypes: []kernels.DType{kernels.F32, kernels.BF16}, KVDTypes: []kernels.DType{kernels.F32}}
	for _, c := range []struct {
		flag       string
		checkpoint modelfile.DType
		want       kernels.DType
		says       string
	}{
		{"auto", modelfile.BF16, kernels.BF16, ""},
		{"", modelfile.F32, kernels.F32, ""},
		{"float32", modelfile.BF16, kernels.F32, ""},
		{"float", modelfile.BF16, kernels.F32, ""},
		{"bfloat16", modelfile.F32, kernels.BF16, ""},
		{"auto", modelfile.F16, 0, "--dtype auto means float16"},
		{"half", modelfile.F32, 0, "--dtype half means float16"},
		{"float64", modelfile.F32, 0, "--dtype float64 is unknown"},
	} {
		got, err := model.ResolveDType(c.flag, c.checkpoint, caps)
		if got != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("ResolveDType(%q, %s) = %v, %v; want %v, error with %q", c.flag, c.checkpoint, got, err, c.want, c.says)
		}
	}
	for _, c := range []struct {
		flag string
		want kernels.DType
		says string
	}{
		{"auto", kernels.F32, ""},
		{"float32", kernels.F32, ""},
		{"bfloat16", 0, "--kv-cache-dtype bfloat16"},
		{"fp8", 0, "--kv-cache-dtype fp8"},
	} {
		got, err := model.ResolveKVDType(c.flag, kernels.BF16, caps)
		if got != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("ResolveKVDType(%q) = %v, %v; want %v, error with %q", c.flag, got, err, c.want, c.says)
		}
	}
}
