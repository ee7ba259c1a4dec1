package modelfile_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"govllm/protocol/modelfile"
	"govllm/protocol/modelfile/modelfiletest"
)

// quantizedCase is a packed matrix, made by testdata/make_quantized.py.
type quantizedCase struct {
	Name    string
	Config  config
	Shape   []int
	Tensors []tensor
	Values  []byte // float32
}

func readQuantized(t testing.TB) []quantizedCase {
	t.Helper()
	var file struct{ Cases []quantizedCase }
	if err := json.Unmarshal(must(os.ReadFile("testdata/quantized.json"))(t), &file); err != nil || len(file.Cases) == 0 {
		t.Fatalf("%d cases in quantized.json, %v", len(file.Cases), err)
	}
	return file.Cases
}

// openQuantized opens a directory with a quantization_config and the parts of
// one matrix called m.
func openQuantized(t testing.TB, quantization config, parts []tensor, more ...tensor) (*modelfile.Weights, error) {
	t.Helper()
	tensors := slices.Clone(more)
	for _, p := range parts {
		p.Name = "m." + p.Name
		tensors = append(tensors, p)
	}
	dir := modelfiletest.WriteDir(t, modelfiletest.Llama().With(config{"quantization_config": quantization}), tensors...)
	m, err := modelfile.Open(dir, modelfile.Options{})
	if err != nil {
		return nil, err
	}
	w, err := m.OpenWeights()
	if err == nil {
		t.Cleanup(func() { w.Close() })
	}
	return w, err
}

// Bit for bit, for any rows, and beside a matrix that is not quantized.
func TestQuantized(t *testing.T) {
	plain := tensor{Name: "lm_head.weight", DType: "F32", Shape: []int{2, 3}, Data: a.Data}
	for _, c := range readQuantized(t) {
		w, err := openQuantized(t, c.Config, c.Tensors, plain)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		if got := w.Names(); !slices.Equal(got, []string{"lm_head.weight", "m.weight"}) {
			t.Errorf("%s: Names() = %v, want lm_head.weight and m.weight", c.Name, got)
		}
		x, err := w.Tensor("m.weight", c.Shape...)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		n, k := c.Shape[0], c.Shape[1]
		got := make([]float32, n*k)
		x.Decode(got[5*k:], 5)
		x.Decode(got[:5*k], 0)
		w.Release(x, 0, n)
		for i := range got {
			if want := math.Float32frombits(binary.LittleEndian.Uint32(c.Values[4*i:])); got[i] != want {
				t.Errorf("%s: Decode[%d, %d] = %v, want %v", c.Name, i/k, i%k, got[i], want)
				break
			}
		}
	}
}

func TestQuantizedRefusals(t *testing.T) {
	cases := map[string]quantizedCase{}
	for _, c := range readQuantized(t) {
		cases[c.Name] = c
	}
	group := func(weights config) config {
		return config{"config_groups": config{"group_0": config{"weights": weights}}}
	}
	for _, c := range []struct {
		of     string
		change config // of quantization_config
		is     error
		says   string
	}{
		{"awq", config{"quant_method": "bitsandbytes"}, modelfile.ErrUnsupported, `quant_method = "bitsandbytes" is not supported: awq, gptq and compressed-tensors are`},
		{"awq", config{"bits": 3}, modelfile.ErrUnsupported, "quantization_config: bits = 3"},
		{"awq", config{"version": "gemv"}, modelfile.ErrUnsupported, `version = "gemv"`},
		{"awq", config{"group_size": 0}, modelfile.ErrInvalid, "group_size = 0"},
		{"gptq", config{"bits": 2}, modelfile.ErrUnsupported, "bits = 2"},
		{"gptq", config{"checkpoint_format": "marlin"}, modelfile.ErrUnsupported, `checkpoint_format = "marlin"`},
		{"gptq", config{"dynamic": config{"a": 1}}, modelfile.ErrUnsupported, "dynamic"},
		{"packed int4", config{"format": "float-quantized"}, modelfile.ErrUnsupported, `format = "float-quantized"`},
		{"packed int4", config{"kv_cache_scheme": config{"num_bits": 8}}, modelfile.ErrUnsupported, "kv_cache_scheme"},
		{"packed int4", config{"transform_config": config{"a": 1}}, modelfile.ErrUnsupported, "transform_config"},
		{"gptq", config{"pack_dtype": "int8"}, modelfile.ErrUnsupported, `pack_dtype = "int8" is not supported: there is "int32"`},
		{"packed int4", config{"config_groups": config{}}, modelfile.ErrUnsupported, "config_groups"},
		{"packed int4", group(config{"num_bits": 4, "type": "float"}), modelfile.ErrUnsupported, `type = "float"`},
		{"packed int4", group(config{"num_bits": 3, "type": "int"}), modelfile.ErrUnsupported, "num_bits = 3"},
		{"packed int4", group(config{"num_bits": 4, "strategy": "block"}), modelfile.ErrUnsupported, `strategy = "block"`},
		{"packed int4", group(nil), modelfile.ErrUnsupported, "group_0"},
		// Other groups than the tensors have.
		{"awq", config{"group_size": 32}, modelfile.ErrInvalid, `tensor "m.scales" is F16[4 24], where`},
		{"gptq", config{"group_size": 4}, modelfile.ErrInvalid, `"m.scales"`},
		{"gptq", config{"bits": 8}, modelfile.ErrInvalid, `"m.scales"`},
		{"packed int4", group(config{"num_bits": 8, "strategy": "group", "group_size": 16}), modelfile.ErrInvalid, `"m.weight_packed" is [24 8], but "m.weight_shape" says [24 64] of 8 bits`},
	} {
		base := cases[c.of]
		_, err := openQuantized(t, base.Config.With(c.change), base.Tensors)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s with %v: %v, want %v that says %q", c.of, c.change, err, c.is, c.says)
		}
	}
}

// Every part is needed, with its type and shape; none is indexed beyond its end.
func TestQuantizedParts(t *testing.T) {
	for _, c := range readQuantized(t) {
		for i, p := range c.Tensors {
			optional := p.Name == "g_idx" || p.Name == "weight_g_idx" || p.Name == "weight_zero_point"
			rest := slices.Delete(slices.Clone(c.Tensors), i, i+1)
			if _, err := openQuantized(t, c.Config, rest); err == nil && !optional {
				t.Errorf("%s without %s opens", c.Name, p.Name)
			}
			empty := p
			empty.Shape, empty.Data = append([]int{0}, p.Shape[1:]...), nil
			longer := p
			longer.Shape = append([]int{2}, p.Shape...)
			longer.Data = append(slices.Clone(p.Data), p.Data...)
			for _, bad := range []tensor{empty, longer} {
				if _, err := openQuantized(t, c.Config, append(rest, bad)); !errors.Is(err, modelfile.ErrInvalid) {
					t.Errorf("%s with %s of %v: %v, want ErrInvalid", c.Name, p.Name, bad.Shape, err)
				}
			}
			if strings.HasSuffix(p.Name, "g_idx") {
				far := p
				far.Data = slices.Clone(p.Data)
				far.Data[0] = 4
				if _, err := openQuantized(t, c.Config, append(rest, far)); !errors.Is(err, modelfile.ErrInvalid) {
					t.Errorf("%s with an input in group 4: %v, want ErrInvalid", c.Name, err)
				}
			}
		}
	}
}

func BenchmarkDecodeQuantized(b *testing.B) {
	for _, c := range readQuantized(b) {
		w, err := openQuantized(b, c.Config, c.Tensors)
		if err != nil {
			b.Fatal(err)
		}
		x := must(w.Tensor("m.weight", c.Shape...))(b)
		dst := make([]float32, c.Shape[0]*c.Shape[1])
		b.Run("as="+strings.ReplaceAll(c.Name, " ", "_"), func(b *testing.B) {
			for b.Loop() {
				x.Decode(dst, 0)
			}
			b.ReportMetric(float64(b.N)*float64(len(dst))/b.Elapsed().Seconds()/1e6, "Mvalues/s")
		})
	}
}
