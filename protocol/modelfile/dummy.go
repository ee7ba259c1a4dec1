package modelfile

import (
	"hash/fnv"
	"math"
	"slices"
)

// DummyWeights stands in for a checkpoint, --load-format dummy: every tensor
// asked for is there, filled with random numbers that depend on its name and
// their place alone. They are as small as vLLM's (initialize_dummy_weights), so
// that no layer overflows. No tensor has Data.
func DummyWeights() *Weights { return &Weights{dummy: true} }

// dummyBound is the largest value, either way.
const dummyBound = 1e-3

// dummyTensor makes a tensor of uniform bfloat16 values.
func dummyTensor(name string, shape []int) Tensor {
	h := fnv.New64a()
	h.Write([]byte(name))
	t := Tensor{Name: name, File: "dummy", DType: BF16, Shape: slices.Clone(shape)}
	t.decode = func(dst []float32, row int) {
		_, k := t.Rows()
		// splitmix64: Steele et al. 2014. Its high bits are uniform.
		state := h.Sum64() + uint64(row)*uint64(k)*0x9e3779b97f4a7c15
		for i := range dst {
			state += 0x9e3779b97f4a7c15
			z := (state ^ state>>30) * 0xbf58476d1ce4e5b9
			z = (z ^ z>>27) * 0x94d049bb133111eb
			u := float64(z^z>>31) / (1 << 64)
			dst[i] = truncateBF16(float32((2*u - 1) * dummyBound))
		}
	}
	return t
}

// truncateBF16 returns the bfloat16 next to f towards 0.
func truncateBF16(f float32) float32 { return math.Float32frombits(math.Float32bits(f) &^ 0xffff) }
