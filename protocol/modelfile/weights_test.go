package modelfile_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"govllm/protocol/modelfile"
	"govllm/protocol/modelfile/modelfiletest"
)

type tensor = modelfiletest.Tensor

// openFile opens a model whose only weight file has these bytes.
func openFile(t testing.TB, file []byte) (*modelfile.Weights, error) {
	t.Helper()
	return openFiles(t, map[string][]byte{"model.safetensors": file})
}

func openFiles(t testing.TB, files map[string][]byte) (*modelfile.Weights, error) {
	t.Helper()
	dir := modelfiletest.WriteDir(t, modelfiletest.Llama())
	for name, data := range files {
		modelfiletest.WriteFile(t, dir, name, data)
	}
	m, err := modelfile.Open(dir, modelfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := m.OpenWeights()
	if err == nil {
		t.Cleanup(func() { w.Close() })
	}
	return w, err
}

var (
	a = tensor{Name: "a", DType: "F32", Shape: []int{2, 3}, Data: bytes.Repeat([]byte{1, 2, 3, 4}, 6)}
	b = tensor{Name: "b", DType: "BF16", Shape: []int{4}, Data: []byte{1, 2, 3, 4, 5, 6, 7, 8}}
)

func TestWeightsAreViewsOfTheFile(t *testing.T) {
	w, err := openFile(t, modelfiletest.Safetensors(a, b))
	if err != nil {
		t.Fatal(err)
	}
	if got := w.Names(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("Names() = %v, want [a b]", got)
	}
	for _, want := range []tensor{a, b} {
		got, err := w.Tensor(want.Name, want.Shape...)
		if err != nil || string(got.DType) != want.DType || !bytes.Equal(got.Data, want.Data) || got.File != "model.safetensors" {
			t.Errorf("Tensor(%s) = %+v, %v; want %+v", want.Name, got, err, want)
		}
		n, _ := got.Rows()
		w.Release(got, 0, n)
		if !bytes.Equal(got.Data, want.Data) {
			t.Errorf("Tensor(%s) changed when it was released", want.Name)
		}
	}
	if w.DType() != modelfile.F32 || w.Has("c") || !w.Has("a") {
		t.Errorf("DType() = %s, Has(c) = %v, Has(a) = %v; want F32, false, true", w.DType(), w.Has("c"), w.Has("a"))
	}
}

func TestShardedWeights(t *testing.T) {
	index := func(a, b string) []byte {
		return fmt.Appendf(nil, `{"metadata":{"total_size":32},"weight_map":{"a":%q,"b":%q}}`, a, b)
	}
	one, two := "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
	for _, c := range []struct {
		name  string
		files map[string][]byte
		is    error
		says  string
	}{
		{name: "two shards", files: map[string][]byte{"model.safetensors.index.json": index(one, two),
			one: modelfiletest.Safetensors(a), two: modelfiletest.Safetensors(b)}},
		{"a missing shard", map[string][]byte{"model.safetensors.index.json": index(one, two),
			one: modelfiletest.Safetensors(a)}, modelfile.ErrNotFound, two},
		{"a tensor that is not in its shard", map[string][]byte{"model.safetensors.index.json": index(one, two),
			one: modelfiletest.Safetensors(a), two: modelfiletest.Safetensors(tensor{Name: "c", DType: "U8", Data: []byte{1}})}, modelfile.ErrInvalid, `"b" should be in ` + two},
		{"one name in two shards", map[string][]byte{"model.safetensors.index.json": index(one, two),
			one: modelfiletest.Safetensors(a, b), two: modelfiletest.Safetensors(b)}, modelfile.ErrInvalid, `"b" is also in ` + one},
		{"a path out of the directory", map[string][]byte{"model.safetensors.index.json": index(one, "../x.safetensors"),
			one: modelfiletest.Safetensors(a)}, modelfile.ErrInvalid, "not a plain name"},
		{"an index without a map", map[string][]byte{"model.safetensors.index.json": []byte(`{}`)}, modelfile.ErrInvalid, "no weight_map"},
		{"an index that is no JSON", map[string][]byte{"model.safetensors.index.json": []byte(`{`)}, modelfile.ErrInvalid, "index.json"},
		{"no weights", nil, modelfile.ErrNotFound, "model.safetensors"},
		{"other weights", map[string][]byte{"pytorch_model.bin": {1}}, modelfile.ErrNotFound, "pytorch_model.bin"},
	} {
		w, err := openFiles(t, c.files)
		if c.is == nil {
			if err != nil || !w.Has("a") || !w.Has("b") {
				t.Errorf("%s: OpenWeights() = %v", c.name, err)
			}
		} else if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: OpenWeights() = %v, want %v that says %q", c.name, err, c.is, c.says)
		}
	}
}

func TestTensorRefusals(t *testing.T) {
	w, err := openFile(t, modelfiletest.Safetensors(a, b,
		tensor{Name: "i", DType: "I64", Shape: []int{1}, Data: make([]byte, 8)},
		tensor{Name: "new", DType: "F5_E3M1", Shape: []int{8}, Data: make([]byte, 5)}))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tensor string
		shape  []int
		is     error
		says   string
	}{
		{"c", []int{2}, modelfile.ErrNotFound, `"c"`},
		{"a", []int{3, 2}, modelfile.ErrInvalid, "[2 3], the config asks for [3 2]"},
		{"a", []int{6}, modelfile.ErrInvalid, "[2 3], the config asks for [6]"},
		{"i", []int{1}, modelfile.ErrUnsupported, "I64"},
		{"new", []int{8}, modelfile.ErrUnsupported, "F5_E3M1"},
	} {
		_, err := w.Tensor(c.tensor, c.shape...)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("Tensor(%s, %v) = %v, want %v that says %q", c.tensor, c.shape, err, c.is, c.says)
		}
	}
}

// badFiles are files that must be refused, with words of the reason.
func badFiles() []struct {
	name string
	file []byte
	says string
} {
	entry := func(dtype, shape, offsets string) string {
		return fmt.Sprintf(`{"dtype":%q,"shape":%s,"data_offsets":%s}`, dtype, shape, offsets)
	}
	framed := func(header string, body int) []byte { return modelfiletest.WithHeader(header, make([]byte, body)) }
	f32 := entry("F32", "[2]", "[0,8]")
	return []struct {
		name string
		file []byte
		says string
	}{
		{"empty", nil, "0 bytes"},
		{"too short for a length", []byte{1, 2, 3}, "3 bytes"},
		{"header beyond the file", binary.LittleEndian.AppendUint64(nil, 1000), "header of 1000 bytes in a file of 8"},
		{"absurd header length", binary.LittleEndian.AppendUint64(nil, math.MaxUint64), "header of 18446744073709551615"},
		{"header over the format's bound", binary.LittleEndian.AppendUint64(nil, 100_000_001), "100000001"},
		{"empty header", framed("", 0), "invalid"},
		{"header is no object", framed("[]", 0), "an object was expected"},
		{"header is cut", framed(`{"a":{"dtype":"F32"`, 0), "invalid"},
		{"text after the header", framed(`{} x`, 0), "after the header's JSON"},
		{"duplicate name", framed(`{"a":`+f32+`,"a":`+entry("F32", "[2]", "[8,16]")+`}`, 16), `"a" is there twice`},
		{"overlap", framed(`{"a":`+f32+`,"b":`+entry("F32", "[2]", "[4,12]")+`}`, 12), `"b" begins at byte 4, inside "a"`},
		{"same bytes", framed(`{"a":`+f32+`,"b":`+f32+`}`, 8), `inside "a"`},
		{"gap", framed(`{"a":`+f32+`,"b":`+entry("F32", "[2]", "[12,20]")+`}`, 20), `bytes 8 to 12, before tensor "b"`},
		{"data before the first tensor", framed(`{"a":`+entry("F32", "[2]", "[4,12]")+`}`, 12), "bytes 0 to 4"},
		{"data after the last tensor", framed(`{"a":`+f32+`}`, 9), "bytes 8 to 9"},
		{"beyond the file", framed(`{"a":`+f32+`}`, 7), `"a" ends at byte 8 of 7`},
		{"offsets reversed", framed(`{"a":`+entry("F32", "[2]", "[8,0]")+`}`, 8), "wrong order"},
		{"one offset", framed(`{"a":`+entry("F32", "[2]", "[8]")+`}`, 8), "two data_offsets"},
		{"three offsets", framed(`{"a":`+entry("F32", "[2]", "[0,8,8]")+`}`, 8), "more than 2"},
		{"shape and bytes disagree", framed(`{"a":`+entry("F32", "[3]", "[0,8]")+`}`, 8), "F32[3] does not take the 8 bytes"},
		{"half a byte", framed(`{"a":`+entry("F4", "[1]", "[0,0]")+`}`, 0), "F4[1]"},
		{"absurd shape", framed(`{"a":`+entry("F32", "[4294967296,4294967296,4294967296]", "[0,8]")+`}`, 8), "does not take"},
		{"shape wraps to zero", framed(`{"a":`+entry("F32", "[4611686018427387904]", "[0,0]")+`}`, 0), "does not take"},
		{"negative dimension", framed(`{"a":`+entry("F32", "[-2]", "[0,8]")+`}`, 8), "-2 is not a non-negative integer"},
		{"fractional dimension", framed(`{"a":`+entry("F32", "[2.0]", "[0,8]")+`}`, 8), "2.0 is not"},
		{"dimension beyond int", framed(`{"a":`+entry("F32", "[18446744073709551615]", "[0,8]")+`}`, 8), "dimension 18446744073709551615"},
		{"offset beyond uint64", framed(`{"a":`+entry("F32", "[2]", "[0,18446744073709551616]")+`}`, 8), "is not a non-negative integer"},
		{"too many dimensions", framed(`{"a":`+entry("U8", "["+strings.Repeat("1,", 16)+"1]", "[0,1]")+`}`, 1), "more than 16"},
		{"no dtype", framed(`{"a":{"shape":[2],"data_offsets":[0,8]}}`, 8), "needs dtype"},
		{"dtype is a number", framed(`{"a":{"dtype":3,"shape":[2],"data_offsets":[0,8]}}`, 8), "dtype is not a string"},
		{"unknown key", framed(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"stride":[1]}}`, 8), `"stride"`},
		{"tensor is no object", framed(`{"a":[]}`, 0), "an object was expected"},
	}
}

func TestBadSafetensors(t *testing.T) {
	for _, c := range badFiles() {
		_, err := openFile(t, c.file)
		if !errors.Is(err, modelfile.ErrInvalid) || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "model.safetensors") {
			t.Errorf("%s: OpenWeights() = %v, want ErrInvalid that says %q", c.name, err, c.says)
		}
	}
}

func TestEveryTruncationIsRefused(t *testing.T) {
	file := modelfiletest.Safetensors(a, b)
	for n := range file {
		if _, err := modelfile.ParseSafetensors("x", file[:n]); !errors.Is(err, modelfile.ErrInvalid) {
			t.Errorf("ParseSafetensors(%d of %d bytes) = %v, want ErrInvalid", n, len(file), err)
		}
	}
}

func TestGoodOddities(t *testing.T) {
	for name, file := range map[string][]byte{
		"no tensors":          modelfiletest.WithHeader(`{}`, nil),
		"padded header":       modelfiletest.WithHeader(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}     `, make([]byte, 2)),
		"scalar":              modelfiletest.WithHeader(`{"a":{"dtype":"F64","shape":[],"data_offsets":[0,8]}}`, make([]byte, 8)),
		"empty tensor":        modelfiletest.WithHeader(`{"b":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, make([]byte, 1)),
		"not in file order":   modelfiletest.WithHeader(`{"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, make([]byte, 2)),
		"escaped name":        modelfiletest.WithHeader(`{"\u0061":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, make([]byte, 1)),
		"metadata in the end": modelfiletest.WithHeader(`{"a":{"data_offsets":[0,1],"shape":[1],"dtype":"U8"},"__metadata__":{"x":"y"}}`, make([]byte, 1)),
	} {
		if _, err := modelfile.ParseSafetensors("x", file); err != nil {
			t.Errorf("%s: ParseSafetensors = %v", name, err)
		}
	}
}

// A header's claims cost nothing: memory is bounded by the bytes that are there.
func TestBadHeadersAllocateLittle(t *testing.T) {
	many := `{"a":{"dtype":"F32","shape":[1152921504606846976],"data_offsets":[0,4611686018427387904]}`
	for i := range 1000 {
		many += fmt.Sprintf(`,"t%d":{"dtype":"U8","shape":[],"data_offsets":[0,0]}`, i)
	}
	file := modelfiletest.WithHeader(many+"}", nil)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := modelfile.ParseSafetensors("x", file)
	runtime.ReadMemStats(&after)
	if err == nil {
		t.Fatal("ParseSafetensors accepted a tensor beyond the file")
	}
	if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(32*len(file)); got > limit {
		t.Errorf("ParseSafetensors of %d bytes allocated %d, want at most %d", len(file), got, limit)
	}
}

func FuzzParseSafetensors(f *testing.F) {
	f.Add(modelfiletest.Safetensors(a, b))
	for _, c := range badFiles() {
		f.Add(c.file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		var tensors []modelfile.Tensor
		var err error
		got := allocated(func() { tensors, err = modelfile.ParseSafetensors("x", file) })
		if got > 64*len(file)+1<<20 { // other goroutines of the fuzzer allocate too
			t.Errorf("%d bytes of file made ParseSafetensors allocate %d", len(file), got)
		}
		if err != nil {
			if !errors.Is(err, modelfile.ErrInvalid) {
				t.Errorf("ParseSafetensors = %v, which is not ErrInvalid", err)
			}
			return
		}
		total := 0
		for _, t := range tensors {
			total += len(t.Data)
		}
		header := 8 + int(binary.LittleEndian.Uint64(file))
		if header+total != len(file) {
			t.Errorf("ParseSafetensors: header of %d and tensors of %d bytes in a file of %d", header, total, len(file))
		}
	})
}

func TestUnreadableWeights(t *testing.T) {
	dir := modelfiletest.WriteDir(t, modelfiletest.Llama())
	if err := os.Mkdir(dir+"/model.safetensors", 0o755); err != nil {
		t.Fatal(err)
	}
	m, err := modelfile.Open(dir, modelfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.OpenWeights(); !errors.Is(err, modelfile.ErrInvalid) {
		t.Errorf("OpenWeights() of a directory = %v, want ErrInvalid", err)
	}
}
