// Package kerneltest is what every backend must pass: each operation against
// the reference, and the promise of package kernels bit by bit.
//
// Operations are compared on odd shapes, with rows beyond T that must keep
// their values. The promise is tested on a small decoder (decoder.go): the same
// sequences run alone and together, whole and in chunks, on other block sizes,
// block tables and thread counts, and every logit must keep every bit.
package kerneltest

import (
	"math"
	"math/rand/v2"
	"testing"

	"govllm/kernels"
	"govllm/kernels/ref"
)

// OpenFunc opens the backend under test. The suite sets Threads only.
type OpenFunc func(kernels.Options) (kernels.Device, error)

// Tolerance of a backend whose activations are float32: the error allowed, as
// a part of 1+|want|, on values of magnitude about 1.
const Tolerance = 2e-5

// Run runs the whole suite with Tolerance.
func Run(t *testing.T, open OpenFunc) { RunWithin(t, open, Tolerance) }

// RunWithin runs the whole suite for a backend with a coarser arithmetic.
func RunWithin(t *testing.T, open OpenFunc, tolerance float64) {
	s := suite{open: open, tolerance: tolerance}
	for _, c := range []struct {
		name string
		run  func(*testing.T, suite)
	}{
		{"UploadDownload", testUploadDownload},
		{"Embed", testEmbed},
		{"RMSNorm", testRMSNorm},
		{"AddRMSNorm", testAddRMSNorm},
		{"Linear", testLinear},
		{"LinearSpecialValues", testLinearSpecialValues},
		{"GateMul", testGateMul},
		{"SoftCap", testSoftCap},
		{"Route", testRoute},
		{"LinearEach", testLinearEach},
		{"AddWeighted", testAddWeighted},
		{"GatherRows", testGatherRows},
		{"RopeKVWrite", testRopeKVWrite},
		{"Attention", testAttention},
		{"AttentionIgnoresUnseen", testAttentionIgnoresUnseen},
		{"CopyBlocks", testCopyBlocks},
		{"Decoder", testDecoder},
		{"LongContext", testLongContext},
		{"Sample", testSample},
		{"SampleEdges", testSampleEdges},
		{"SampleDistribution", testSampleDistribution},
		{"Changes", testChanges},
		{"ChangeTable", testChangeTable},
		{"ChangedDistribution", testChangedDistribution},
		{"Logprobs", testLogprobs},
		{"LogprobTable", testLogprobTable},
		{"IndexErrors", testIndexErrors},
		{"ShapePanics", testShapePanics},
		{"Refusals", testRefusals},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, s) })
	}
}

type suite struct {
	open      OpenFunc
	tolerance float64
}

// bench is one open device with a queue, and helpers that fail the test.
type bench struct {
	t   *testing.T
	dev kernels.Device
	q   kernels.Queue
}

// device opens the backend under test.
func (s suite) device(t *testing.T, threads int) *bench {
	t.Helper()
	dev, err := s.open(kernels.Options{Threads: threads})
	return newBench(t, dev, err)
}

// reference opens ref.
func reference(t *testing.T) *bench {
	t.Helper()
	dev, err := ref.Open(kernels.Options{})
	return newBench(t, dev, err)
}

func newBench(t *testing.T, dev kernels.Device, err error) *bench {
	t.Helper()
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	b := &bench{t: t, dev: dev}
	b.q = must(dev.NewQueue(200))(t)
	return b
}

// must turns (value, error) into the value, failing the test on an error.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (b *bench) sync() {
	b.t.Helper()
	if err := b.q.Sync(); err != nil {
		b.t.Fatalf("Sync: %v", err)
	}
}

func (b *bench) weight(want kernels.DType, m matrix) kernels.Weight {
	b.t.Helper()
	return must(kernels.PackWeight(b.dev, want, m.rows, m.cols, kernels.F32, encode(kernels.F32, m.values)))(b.t)
}

func (b *bench) vector(v []float32) kernels.Vector {
	b.t.Helper()
	if v == nil {
		return nil
	}
	return must(b.dev.NewVector(v))(b.t)
}

func (b *bench) activation(rows, cols int) kernels.Activation {
	b.t.Helper()
	return must(b.dev.NewActivation(rows, cols))(b.t)
}

// ints returns an Ints that holds v from the next Sync on.
func (b *bench) ints(v ...int32) kernels.Ints {
	b.t.Helper()
	d := must(b.dev.NewInts(max(1, len(v))))(b.t)
	b.q.Upload(d, v)
	return d
}

// load returns an activation that holds m. Embed with scale 1 is the way in.
func (b *bench) load(m matrix) kernels.Activation {
	b.t.Helper()
	a := b.activation(m.rows, m.cols)
	b.q.Embed(a, b.weight(kernels.F32, m), b.ints(counting(m.rows)...), 1, m.rows)
	return a
}

// rows records the download of all rows; the values are there after sync.
func (b *bench) rows(a kernels.Activation) matrix {
	n, cols := a.ActivationShape()
	m := newMatrix(n, cols)
	b.q.DownloadRows(m.values, a, n)
	return m
}

// matrix is row-major [rows, cols].
type matrix struct {
	rows, cols int
	values     []float32
}

func newMatrix(rows, cols int) matrix { return matrix{rows, cols, make([]float32, rows*cols)} }

func (m matrix) row(i int) []float32 { return m.values[i*m.cols : (i+1)*m.cols] }

// normal returns a matrix of N(0, scale²) values.
func normal(rng *rand.Rand, rows, cols int, scale float64) matrix {
	m := newMatrix(rows, cols)
	for i := range m.values {
		m.values[i] = float32(rng.NormFloat64() * scale)
	}
	return m
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func counting(n int) []int32 {
	v := make([]int32, n)
	for i := range v {
		v[i] = int32(i)
	}
	return v
}

// encode writes values as little-endian t.
func encode(t kernels.DType, values []float32) []byte {
	out := make([]byte, 0, len(values)*t.Size())
	for _, f := range values {
		switch t {
		case kernels.F32:
			u := math.Float32bits(f)
			out = append(out, byte(u), byte(u>>8), byte(u>>16), byte(u>>24))
		case kernels.BF16:
			u := kernels.F32ToBF16(f)
			out = append(out, byte(u), byte(u>>8))
		case kernels.F16:
			u := kernels.F32ToF16(f)
			out = append(out, byte(u), byte(u>>8))
		}
	}
	return out
}

// near fails unless got is want within the suite's tolerance; NaN equals NaN
// and an infinity itself.
func (s suite) near(t *testing.T, what string, got, want matrix) {
	t.Helper()
	for i, w := range want.values {
		g := got.values[i]
		diff := math.Abs(float64(g) - float64(w))
		if g == w || g != g && w != w || diff <= s.tolerance*(1+math.Abs(float64(w))) {
			continue
		}
		t.Fatalf("%s[%d, %d] = %v, want %v", what, i/want.cols, i%want.cols, g, w)
	}
}

// same fails unless got and want are equal bit by bit.
func same(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s has %d values, want %d", what, len(got), len(want))
	}
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s[%d] = %v (%#x), want %v (%#x)", what, i, got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
}

// both runs f on the backend and on the reference.
func (s suite) both(t *testing.T, f func(b *bench) matrix) (got, want matrix) {
	t.Helper()
	return f(s.device(t, 2)), f(reference(t))
}
