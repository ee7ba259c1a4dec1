package modelfile_test

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"testing"

	"govllm/protocol/modelfile"
)

// golden holds blocks of every type and what the format's own code reads in
// them; testdata/make_ggml.py makes it.
type golden struct {
	Cases []struct {
		Type   modelfile.DType
		Blocks []byte
		Values []byte // float32
	}
}

func readGolden(t testing.TB) golden {
	t.Helper()
	data, err := os.ReadFile("testdata/ggml.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Cases) != 13 {
		t.Fatalf("ggml.json holds %d types, want 13", len(g.Cases))
	}
	return g
}

// Bit for bit, and for every row by itself.
func TestDecodeGGML(t *testing.T) {
	for _, c := range readGolden(t).Cases {
		n := len(c.Values) / 4
		for _, rows := range []int{1, 4} {
			tensor := modelfile.Tensor{DType: c.Type, Shape: []int{rows, n / rows}, Data: c.Blocks}
			got := make([]float32, n)
			for row := range rows {
				tensor.Decode(got[row*n/rows:(row+1)*n/rows], row)
			}
			for i := range got {
				want := math.Float32frombits(binary.LittleEndian.Uint32(c.Values[4*i:]))
				if math.Float32bits(got[i]) != math.Float32bits(want) && got[i] != want {
					t.Fatalf("Decode(%s, [%d, %d])[%d] = %v, want %v", c.Type, rows, n/rows, i, got[i], want)
				}
			}
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, c := range readGolden(b).Cases {
		tensor := modelfile.Tensor{DType: c.Type, Shape: []int{len(c.Values) / 4}, Data: c.Blocks}
		dst := make([]float32, tensor.Shape[0])
		b.Run("type="+string(c.Type), func(b *testing.B) {
			for b.Loop() {
				tensor.Decode(dst, 0)
			}
			b.ReportMetric(float64(b.N)*float64(len(dst))/b.Elapsed().Seconds()/1e6, "Mvalues/s")
		})
	}
}
