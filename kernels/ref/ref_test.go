package ref

import (
	"math"
	"testing"
)

// The known answers of philox4x32 with 10 rounds in the authors' Random123,
// kat_vectors.
func TestPhiloxKnownAnswers(t *testing.T) {
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{want: [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{
			counter: [4]uint32{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
			key:     [2]uint32{0xffffffff, 0xffffffff},
			want:    [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
		},
		{
			counter: [4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
			key:     [2]uint32{0xa4093822, 0x299f31d0},
			want:    [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
		},
	} {
		if got := Philox(c.counter, c.key); got != c.want {
			t.Errorf("Philox(%x, %x) = %x, want %x", c.counter, c.key, got, c.want)
		}
	}
}

func TestRandomUsesEveryWord(t *testing.T) {
	seen := map[uint64]string{}
	for _, c := range []struct {
		name           string
		seed, position uint64
	}{
		{"zero", 0, 0}, {"seed", 1, 0}, {"seed high", 1 << 32, 0}, {"position", 0, 1}, {"position high", 0, 1 << 32},
	} {
		r := Random(c.seed, c.position)
		if other, ok := seen[r]; ok {
			t.Errorf("Random(%#x, %#x) = %#x, as for %s", c.seed, c.position, r, other)
		}
		seen[r] = c.name
	}
}

func TestExp(t *testing.T) {
	worst := 0.0
	for x := float32(-87); x <= 88; x += 0.00137 {
		want := math.Exp(float64(x))
		worst = max(worst, math.Abs(float64(Exp(x))-want)/want)
	}
	if worst > 1.2e-7 {
		t.Errorf("Exp is off by %g of its value, want at most 1.2e-7", worst)
	}
	for _, c := range []struct{ x, want float32 }{
		{0, 1}, {-87.01, 0}, {float32(math.Inf(-1)), 0}, {float32(math.NaN()), 0},
	} {
		if got := Exp(c.x); got != c.want {
			t.Errorf("Exp(%v) = %v, want %v", c.x, got, c.want)
		}
	}
}

func TestExpRises(t *testing.T) {
	last := float32(0)
	for x := float32(-30); x <= 0; x = math.Nextafter32(x+1e-5, 1) {
		y := Exp(x)
		if y < last || y > 1 {
			t.Fatalf("Exp(%v) = %v after %v", x, y, last)
		}
		last = y
	}
}
