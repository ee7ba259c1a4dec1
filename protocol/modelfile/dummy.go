package modelfile

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"slices"
)

// DummyWeights stands in for a checkpoint, --load-format dummy: every tensor
// asked for is there, filled with random numbers that depend on its name and
// size alone. They are as small as vLLM's (initialize_dummy_weights), so that
// no layer overflows.
func DummyWeights() *Weights { return &Weights{dummy: true} }

// dummyBound is the largest value, either way.
const dummyBound = 1e-3

// dummyTensor makes a bfloat16 tensor of uniform values.
func dummyTensor(name string, shape []int) Tensor {
	size := 1
	for _, n := range shape {
		size *= n
	}
	h := fnv.New64a()
	h.Write([]byte(name))
	state := h.Sum64() | 1
	data := make([]byte, 2*size)
	for i := range size {
		// xorshift64*: Vigna 2016. Its high bits are uniform.
		state ^= state >> 12
		state ^= state << 25
		state ^= state >> 27
		u := float64(state*0x2545f4914f6cdd1d>>11) / (1 << 53)
		bits := math.Float32bits(float32((2*u - 1) * dummyBound))
		binary.LittleEndian.PutUint16(data[2*i:], uint16(bits>>16))
	}
	return Tensor{Name: name, File: "dummy", DType: BF16, Shape: slices.Clone(shape), Data: data}
}
