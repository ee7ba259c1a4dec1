package kernels

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestHalfRoundTrip(t *testing.T) {
	for u := range 1 << 16 {
		h := uint16(u)
		if f := F16ToF32(h); f == f {
			if got := F32ToF16(f); got != h {
				t.Fatalf("F32ToF16(%v) = %#x, want %#x", f, got, h)
			}
		}
		if f := BF16ToF32(h); f == f {
			if got := F32ToBF16(f); got != h {
				t.Fatalf("F32ToBF16(%v) = %#x, want %#x", f, got, h)
			}
		}
	}
}

// Between two neighbours the nearer one wins, and at the middle the even one.
func TestHalfRounding(t *testing.T) {
	for u := range uint16(0x7bff) {
		lo, hi := float64(F16ToF32(u)), float64(F16ToF32(u+1))
		even := u + u&1
		for _, c := range []struct {
			f    float64
			want uint16
		}{{(3*lo + hi) / 4, u}, {(lo + hi) / 2, even}, {(lo + 3*hi) / 4, u + 1}} {
			if got := F32ToF16(float32(c.f)); got != c.want {
				t.Fatalf("F32ToF16(%v) = %#x, want %#x", c.f, got, c.want)
			}
		}
	}
	for _, c := range []struct {
		f    float32
		want uint16
	}{{65519, 0x7bff}, {65520, 0x7c00}, {-1e30, 0xfc00}, {0x1p-25, 0}, {0x1.8p-25, 1}} {
		if got := F32ToF16(c.f); got != c.want {
			t.Errorf("F32ToF16(%v) = %#x, want %#x", c.f, got, c.want)
		}
	}
	for _, c := range []struct{ f, want float32 }{
		{0x1.01p0, 1}, {0x1.03p0, 0x1.04p0}, {0x1.0101p0, 0x1.02p0}, {math.MaxFloat32, float32(math.Inf(1))},
	} {
		if got := BF16.Round(c.f); got != c.want {
			t.Errorf("BF16.Round(%v) = %v, want %v", c.f, got, c.want)
		}
	}
}

func TestNaNStaysNaN(t *testing.T) {
	for _, bits := range []uint32{0x7f800001, 0x7fffffff, 0xff800001} {
		f := math.Float32frombits(bits)
		for _, d := range []DType{BF16, F16} {
			if got := d.Round(f); got == got {
				t.Errorf("%v.Round(NaN %#x) = %v", d, bits, got)
			}
		}
	}
}

func TestOpenUnknown(t *testing.T) {
	Register("test-a", nil)
	Register("test-b", nil)
	_, err := Open("tpu", Options{})
	if !errors.Is(err, ErrUnknownDevice) {
		t.Errorf(`Open("tpu") = %v, want %v`, err, ErrUnknownDevice)
	}
	for _, part := range []string{`"tpu"`, "test-a, test-b"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf(`Open("tpu") = %v, want it to say %s`, err, part)
		}
	}
}

func TestQuotaCores(t *testing.T) {
	for _, c := range []struct {
		cpuMax string
		want   int
	}{
		{"max 100000\n", 1 << 30}, {"200000 100000\n", 2}, {"150000 100000", 2}, {"1000 100000", 1},
		{"", 1 << 30}, {"x y", 1 << 30}, {"0 0", 1 << 30},
	} {
		if got := quotaCores(c.cpuMax); got != c.want {
			t.Errorf("quotaCores(%q) = %d, want %d", c.cpuMax, got, c.want)
		}
	}
	if n := DefaultThreads(); n < 1 {
		t.Errorf("DefaultThreads() = %d", n)
	}
}
