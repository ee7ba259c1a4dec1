package modelfile

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
)

func TestDummyWeights(t *testing.T) {
	w := DummyWeights()
	a, err := w.Tensor("a", 30, 40)
	if err != nil || len(a.Data) != 2*30*40 {
		t.Fatalf("Tensor(a) = %d bytes, %v, want %d", len(a.Data), err, 2*30*40)
	}
	again, _ := w.Tensor("a", 30, 40)
	other, _ := w.Tensor("b", 30, 40)
	if !bytes.Equal(a.Data, again.Data) || bytes.Equal(a.Data, other.Data) {
		t.Error("a tensor must depend on its name alone")
	}
	var sum, largest float64
	for i := 0; i < len(a.Data); i += 2 {
		x := float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(a.Data[i:])) << 16))
		sum += x
		largest = max(largest, math.Abs(x))
	}
	if mean := sum / 1200; largest > dummyBound || largest < 0.9*dummyBound || math.Abs(mean) > 0.1*dummyBound {
		t.Errorf("largest %g and mean %g, want uniform in ±%g", largest, mean, dummyBound)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
