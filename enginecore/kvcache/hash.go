package kvcache

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"govllm/enginecore/request"
)

// HashAlgo is how a block of tokens becomes a hash (--prefix-caching-hash-algo).
type HashAlgo string

const (
	// SHA256 hashes parent ‖ tokens as little-endian int32 ‖ salt. A collision
	// would hand one user another's cache, so this is the default.
	SHA256 HashAlgo = "sha256"
	// SHA256CBOR hashes what vLLM hashes under this name, so that others can
	// recompute it: the canonical CBOR of [parent, [tokens…], nil or [salt]].
	SHA256CBOR HashAlgo = "sha256_cbor"
	// XXHash is two seeded 64-bit xxHashes over the bytes of SHA256: faster,
	// and a collision can be constructed. For trusted users only.
	XXHash HashAlgo = "xxhash"
)

// HashAlgos lists the algorithms for flags and their help.
var HashAlgos = []HashAlgo{SHA256, SHA256CBOR, XXHash}

// Hasher turns the full blocks of a request into a chain of hashes: each covers
// its own tokens and, through its parent, all before them. The salt enters the
// first block and through it all others. A Hasher allocates nothing per block.
// It belongs to one goroutine; Clone gives another its own.
type Hasher struct {
	algo      HashAlgo
	blockSize int
	root      request.Hash // parent of first blocks
	buf       []byte
	digest    xxhash.Digest
}

// NewHasher returns a hasher for blocks of blockSize tokens. Chains start from
// a root that is random when seed is "", so that nobody can prepare collisions,
// and otherwise derived from seed, so that processes agree (vLLM takes the seed
// from PYTHONHASHSEED). An unknown algo is an error that names it.
func NewHasher(algo HashAlgo, blockSize int, seed string) (*Hasher, error) {
	h := &Hasher{algo: algo, blockSize: blockSize}
	switch algo {
	case SHA256, SHA256CBOR, XXHash:
	default:
		return nil, fmt.Errorf("prefix caching hash algorithm %q is not one of %q", algo, HashAlgos)
	}
	switch {
	case seed == "":
		if _, err := rand.Read(h.root[:]); err != nil {
			return nil, fmt.Errorf("prefix caching hash seed: %w", err)
		}
	case algo == SHA256CBOR:
		h.root = sha256.Sum256(appendCBORText(nil, seed))
	default:
		h.root = sha256.Sum256([]byte(seed))
	}
	return h, nil
}

// Clone returns a hasher that makes the same hashes, for another goroutine.
func (h *Hasher) Clone() *Hasher {
	return &Hasher{algo: h.algo, blockSize: h.blockSize, root: h.root}
}

// HashPrompt fills r.Hashes with one hash per full block of its tokens.
func (h *Hasher) HashPrompt(r *request.Request) {
	n := r.NumTokens() / h.blockSize
	r.Hashes = make([]request.Hash, n)
	for i := range r.Hashes {
		r.Hashes[i] = h.next(r, i)
	}
}

// next returns the hash of r's full block i, whose parent is r.LastHash, and
// makes it the parent of block i+1.
func (h *Hasher) next(r *request.Request, i int) request.Hash {
	parent, salt := &r.LastHash, ""
	if i == 0 {
		parent, salt = &h.root, r.CacheSalt
	}
	tokens := r.Tokens()[i*h.blockSize : (i+1)*h.blockSize]
	r.LastHash = h.block(parent, tokens, salt)
	return r.LastHash
}

func (h *Hasher) block(parent *request.Hash, tokens []int32, salt string) request.Hash {
	if h.algo == SHA256CBOR {
		h.buf = appendCBORBlock(h.buf[:0], parent, tokens, salt)
		return sha256.Sum256(h.buf)
	}
	h.buf = append(h.buf[:0], parent[:]...)
	for _, t := range tokens {
		h.buf = binary.LittleEndian.AppendUint32(h.buf, uint32(t))
	}
	h.buf = append(h.buf, salt...)
	if h.algo == XXHash {
		return h.xxh128()
	}
	return sha256.Sum256(h.buf)
}

// xxh128 fills the first 16 bytes with two hashes of buf under different seeds.
func (h *Hasher) xxh128() (out request.Hash) {
	for i := range 2 {
		h.digest.ResetWithSeed(uint64(i) * 0x9e3779b97f4a7c15)
		h.digest.Write(h.buf)
		binary.LittleEndian.PutUint64(out[8*i:], h.digest.Sum64())
	}
	return out
}

// CBOR major types, RFC 8949 §3.1.
const (
	cborUint  = 0 << 5
	cborBytes = 2 << 5
	cborText  = 3 << 5
	cborArray = 4 << 5
	cborNull  = 0xf6
)

// appendCBORBlock encodes (parent, tokens, extra keys) as vLLM's
// hash_block_tokens does before hashing.
func appendCBORBlock(b []byte, parent *request.Hash, tokens []int32, salt string) []byte {
	b = appendCBORHead(b, cborArray, 3)
	b = appendCBORHead(b, cborBytes, uint64(len(parent)))
	b = append(b, parent[:]...)
	b = appendCBORHead(b, cborArray, uint64(len(tokens)))
	for _, t := range tokens {
		b = appendCBORHead(b, cborUint, uint64(t))
	}
	if salt == "" {
		return append(b, cborNull)
	}
	b = appendCBORHead(b, cborArray, 1)
	return appendCBORText(b, salt)
}

func appendCBORText(b []byte, s string) []byte {
	return append(appendCBORHead(b, cborText, uint64(len(s))), s...)
}

// appendCBORHead writes a major type and its argument in the shortest form.
func appendCBORHead(b []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(b, major|byte(n))
	case n < 1<<8:
		return append(b, major|24, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, major|25), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, major|27), n)
}
