package modelfile_test

import (
	"fmt"

	"govllm/protocol/modelfile"
	"govllm/protocol/modelfile/builtin/weights"
)

func Example() {
	m, err := modelfile.Open("builtin", modelfile.Options{BuiltinWeights: weights.FS})
	if err != nil {
		panic(err)
	}
	w, err := m.OpenWeights()
	if err != nil {
		panic(err)
	}
	defer w.Close()
	fmt.Println(m.Config.Architecture, m.Config.NumLayers, w.DType())
	// Output: LlamaForCausalLM 6 BF16
}
