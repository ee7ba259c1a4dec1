package model_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"govllm/protocol/modelfile/modelfiletest"
)

// A checkpoint of int8 weights is the one of the values that they stand for.
func TestInt8Checkpoint(t *testing.T) {
	cfg := modelfiletest.Llama()
	rng := rand.New(rand.NewPCG(1, 2))
	var packed, plain []tensor
	for _, x := range modelfiletest.RandomTensors(cfg, "F32", 5) {
		if !strings.HasSuffix(x.Name, "_proj.weight") {
			packed, plain = append(packed, x), append(plain, x)
			continue
		}
		n, k := x.Shape[0], x.Shape[1]
		q := tensor{Name: x.Name, DType: "I8", Shape: x.Shape}
		scale := tensor{Name: x.Name + "_scale", DType: "F32", Shape: []int{n, 1}}
		value := tensor{Name: x.Name, DType: "F32", Shape: x.Shape}
		for range n {
			s := float32(0.001 + 0.002*rng.Float64())
			scale.Data = binary.LittleEndian.AppendUint32(scale.Data, math.Float32bits(s))
			for range k {
				i := int8(rng.IntN(256) - 128)
				q.Data = append(q.Data, byte(i))
				value.Data = binary.LittleEndian.AppendUint32(value.Data, math.Float32bits(float32(i)*s))
			}
		}
		packed, plain = append(packed, q, scale), append(plain, value)
	}
	int8s := config{"num_bits": 8, "type": "int", "strategy": "channel", "dynamic": false}
	quantization := config{"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": config{"group_0": config{"weights": int8s}}}
	prompt := []int32{1, 50, 3, 130}
	want := openBench(t, "ref", modelfiletest.WriteDir(t, cfg, plain...)).logits(0, prompt, 3)[0]
	got := openBench(t, "ref", modelfiletest.WriteDir(t, cfg.With(config{"quantization_config": quantization}), packed...)).logits(0, prompt, 3)[0]
	if !slices.Equal(got, want) {
		t.Errorf("logits of int8 weights differ from those of their values")
	}
}
