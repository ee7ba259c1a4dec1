package ref

import "math/bits"

// Philox returns the block of Philox4x32-10 for a counter and key.
// Source: Salmon et al. 2011, “Parallel random numbers: as easy as 1, 2, 3”;
// checked against the known answers of the authors' Random123.
func Philox(counter [4]uint32, key [2]uint32) [4]uint32 {
	c, k := counter, key
	for range 10 {
		hi0, lo0 := bits.Mul32(0xD2511F53, c[0])
		hi1, lo1 := bits.Mul32(0xCD9E8D57, c[2])
		c = [4]uint32{hi1 ^ c[1] ^ k[0], lo1, hi0 ^ c[3] ^ k[1], lo0}
		k[0] += 0x9E3779B9
		k[1] += 0xBB67AE85
	}
	return c
}

// Random returns the 64 random bits of (seed, position): the key is the seed,
// the counter is (position, 0), each low word first, and so is the result.
// The counter's upper words are left for other draws of the same position.
func Random(seed, position uint64) uint64 {
	b := Philox([4]uint32{uint32(position), uint32(position >> 32)}, [2]uint32{uint32(seed), uint32(seed >> 32)})
	return uint64(b[1])<<32 | uint64(b[0])
}
