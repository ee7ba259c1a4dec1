package modelfile

import (
	"math"
	"slices"
	"testing"
)

func TestDummyWeights(t *testing.T) {
	w := DummyWeights()
	values := func(name string) []float32 {
		x, err := w.Tensor(name, 30, 40)
		if err != nil || !slices.Equal(x.Shape, []int{30, 40}) {
			t.Fatalf("Tensor(%s) = %v, %v, want [30 40]", name, x.Shape, err)
		}
		// The first rows last: a row does not depend on those before it.
		list := make([]float32, 30*40)
		x.Decode(list[7*40:], 7)
		x.Decode(list[:7*40], 0)
		return list
	}
	a := values("a")
	whole, _ := w.Tensor("a", 30, 40)
	if !slices.Equal(a, whole.floats()) || slices.Equal(a, values("b")) {
		t.Error("a value must depend on the tensor's name and its place alone")
	}
	var sum, largest float64
	for _, v := range a {
		if v != truncateBF16(v) {
			t.Fatalf("%v is no bfloat16", v)
		}
		sum += float64(v)
		largest = max(largest, math.Abs(float64(v)))
	}
	if mean := sum / 1200; largest > dummyBound || largest < 0.9*dummyBound || math.Abs(mean) > 0.1*dummyBound {
		t.Errorf("largest %g and mean %g, want uniform in ±%g", largest, mean, dummyBound)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
