package model

import (
	"encoding/binary"
	"math"

	"govllm/protocol/modelfile"
)

// plain returns a tensor of quantized blocks as one of float32 values.
func plain(t modelfile.Tensor) modelfile.Tensor {
	if t.Plain() {
		return t
	}
	n, k := t.Rows()
	values := make([]float32, n*k)
	t.Decode(values, 0)
	t.Data = make([]byte, 0, 4*len(values))
	for _, v := range values {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(v))
	}
	t.DType = modelfile.F32
	return t
}
