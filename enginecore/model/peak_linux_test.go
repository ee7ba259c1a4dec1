package model_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime/debug"
	"testing"

	"govllm/enginecore/model"
	"govllm/kernels"
	"govllm/protocol/modelfile"
	"govllm/protocol/modelfile/modelfiletest"
)

// resident reads a line of /proc/self/status, in bytes.
func resident(t *testing.T, key string) int64 {
	t.Helper()
	data, err := os.ReadFile("/proc/self/status")
	must(t, err)
	_, line, ok := bytes.Cut(data, []byte(key+":"))
	var kib int64
	if _, err := fmt.Fscan(bytes.NewReader(line), &kib); err != nil || !ok {
		t.Fatalf("no %s in /proc/self/status: %v", key, err)
	}
	return kib << 10
}

// Loading takes at most a tenth more than the packed weights, though the file
// is mapped and its blocks are decoded to twice as much on the way.
func TestLoadPeak(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector keeps shadows of all memory")
	}
	const vocab, hidden = 96 << 10, 512
	cfg := modelfiletest.Llama().With(config{"hidden_size": hidden, "num_hidden_layers": 1, "tie_word_embeddings": true})
	tensors := modelfiletest.RandomTensors(cfg, "F32", 5)
	tensors[0].DType, tensors[0].Shape, tensors[0].Data = "Q8_0", []int{vocab, hidden}, make([]byte, vocab*hidden/32*34)
	path := writeGGUF(t, modelfiletest.AsGGUF(cfg.With(config{"vocab_size": vocab}), tensors))
	tensors = nil

	m, err := modelfile.Open(path, modelfile.Options{})
	must(t, err)
	src, err := m.OpenWeights()
	must(t, err)
	defer src.Close()
	dev := openDevice(t, "cpu")
	debug.FreeOSMemory()
	before := resident(t, "VmRSS")
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Skipf("the peak can't be reset: %v", err)
	}
	_, err = model.Load(dev, m.Config, src, model.Options{DType: kernels.F16, MaxModelLen: 256})
	must(t, err)
	weights := model.WeightBytes(dev, m.Config, kernels.F16)
	if got, limit := resident(t, "VmHWM")-before, weights+weights/10; got > limit || got < weights*9/10 {
		t.Errorf("loading %d MiB of weights took %d MiB, want at most %d", weights>>20, got>>20, limit>>20)
	} else {
		t.Logf("loading %.1f MiB of weights took %.1f MiB", float64(weights)/(1<<20), float64(got)/(1<<20))
	}
}
