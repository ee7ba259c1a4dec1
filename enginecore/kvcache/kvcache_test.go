package kvcache

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"govllm/enginecore/request"
	"govllm/protocol"
)

func newRequest(salt string, tokens ...int32) *request.Request {
	p := protocol.DefaultSamplingParams()
	return request.FromWire(&protocol.EngineCoreRequest{
		RequestID: "r", PromptTokenIDs: tokens, SamplingParams: &p, CacheSalt: salt,
	}, 1<<20)
}

func counting(n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(i)
	}
	return tokens
}

func newHasher(t testing.TB, algo HashAlgo, blockSize int, seed string) *Hasher {
	t.Helper()
	h, err := NewHasher(algo, blockSize, seed)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestSHA256CBOR: hashes are those of vLLM's definition under Python's cbor2,
// for every width of a CBOR integer. The vectors are made by
// testdata/sha256_cbor.py.
func TestSHA256CBOR(t *testing.T) {
	src, err := os.ReadFile("testdata/sha256_cbor.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Seed, Salt string
		BlockSize  int `json:"block_size"`
		Tokens     []int32
		Hashes     []string
	}
	if err := json.Unmarshal(src, &vectors); err != nil {
		t.Fatal(err)
	}
	for i, v := range vectors {
		r := newRequest(v.Salt, v.Tokens...)
		newHasher(t, SHA256CBOR, v.BlockSize, v.Seed).HashPrompt(r)
		var got []string
		for _, h := range r.Hashes {
			got = append(got, hex.EncodeToString(h[:]))
		}
		if !slices.Equal(got, v.Hashes) {
			t.Errorf("vector %d: HashPrompt(%d tokens, salt %q) = %v, want %v", i, len(v.Tokens), v.Salt, got, v.Hashes)
		}
	}
}

// TestHashChain: what must and what must not change a block's hash.
func TestHashChain(t *testing.T) {
	for _, algo := range HashAlgos {
		hash := func(seed, salt string, tokens ...int32) []request.Hash {
			r := newRequest(salt, tokens...)
			newHasher(t, algo, 2, seed).HashPrompt(r)
			return r.Hashes
		}
		base := hash("s", "", 1, 2, 3, 4, 5)
		if len(base) != 2 || base[0] == base[1] {
			t.Fatalf("%s: hashes of two full blocks = %x", algo, base)
		}
		for _, tt := range []struct {
			name string
			got  []request.Hash
			same []bool
		}{
			{"the same tokens", hash("s", "", 1, 2, 3, 4), []bool{true, true}},
			{"another second block", hash("s", "", 1, 2, 3, 5), []bool{true, false}},
			{"another first block", hash("s", "", 1, 3, 3, 4), []bool{false, false}},
			{"equal blocks after others", hash("s", "", 3, 4, 3, 4), []bool{false, false}},
			{"a salt", hash("s", "x", 1, 2, 3, 4), []bool{false, false}},
			{"another seed", hash("t", "", 1, 2, 3, 4), []bool{false, false}},
			{"a random seed", hash("", "", 1, 2, 3, 4), []bool{false, false}},
		} {
			for i := range tt.same {
				if same := tt.got[i] == base[i]; same != tt.same[i] {
					t.Errorf("%s: with %s, hash %d is the same: %v, want %v", algo, tt.name, i, same, tt.same[i])
				}
			}
		}
	}
}

// TestHasherClone: another goroutine's hasher makes the same hashes, and what
// is hashed in pieces as tokens come equals what is hashed at once.
func TestHasherClone(t *testing.T) {
	for _, algo := range HashAlgos {
		h := newHasher(t, algo, 4, "")
		whole := newRequest("salt", counting(32)...)
		h.Clone().HashPrompt(whole)

		c := New(20, 4, h)
		r := newRequest("salt", counting(9)...)
		c.Add(r)
		for n := 9; n < 32; n++ {
			r.Append(int32(n))
			c.Extend(r)
		}
		for i, id := range r.Nodes {
			if got := c.index.at(id).hash; got != whole.Hashes[i] {
				t.Errorf("%s: block %d: hash in pieces %x, at once %x", algo, i, got, whole.Hashes[i])
			}
		}
		if len(r.Nodes) != 8 {
			t.Errorf("%s: %d nodes, want 8", algo, len(r.Nodes))
		}
	}
}

func TestNewHasherUnknown(t *testing.T) {
	if _, err := NewHasher("md5", 16, ""); err == nil {
		t.Error(`NewHasher("md5") = nil error`)
	}
}

// TestFreeQueue: blocks come out in order of last use, and the queue is exact
// at both of its ends.
func TestFreeQueue(t *testing.T) {
	p := NewPool(4)
	a, b, c := p.take(), p.take(), p.take()
	if got := fmt.Sprint(a, b, c, p.NumFree(), p.Usage()); got != "1 2 3 0 1" {
		t.Errorf("first three blocks, free, usage = %s, want 1 2 3 0 1", got)
	}
	p.blocks[a].node, p.blocks[b].node = 7, 8 // findable
	p.release(b)
	p.release(a)
	p.release(c) // not findable: next
	if got, want := p.Describe(), "free blocks 3 2* 1*\n"; got != want {
		t.Errorf("Describe() = %q, want %q", got, want)
	}
	p.touch(b)
	p.touch(b)
	if got, want := p.Describe(), "free blocks 3 1*\n"; got != want {
		t.Errorf("Describe() = %q, want %q", got, want)
	}
	if p.release(b) {
		t.Error("release of a block with two references says that it is free")
	}
	p.release(b)
	if got, want := p.Describe(), "free blocks 3 1* 2*\n"; got != want {
		t.Errorf("Describe() = %q, want %q", got, want)
	}
}

func TestReleaseTwicePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("release of a free block did not panic")
		}
	}()
	p := NewPool(4)
	p.release(p.take())
	p.release(1)
}

// TestTwins: blocks of equal content are found oldest first, and each may be
// evicted without losing the other.
func TestTwins(t *testing.T) {
	for _, evict := range [][]int32{{1, 2, 3}, {3, 2, 1}, {2, 1, 3}, {2, 3, 1}} {
		p, x := NewPool(5), NewIndex(5)
		id := x.intern(request.Hash{1})
		left := []int32{1, 2, 3}
		for _, b := range left {
			x.link(p, id, b)
		}
		for _, b := range evict {
			x.unlink(p, b)
			left = slices.DeleteFunc(left, func(v int32) bool { return v == b })
			want := int32(0)
			if len(left) > 0 {
				want = left[0]
			}
			if got := x.at(id).first; got != want {
				t.Errorf("evicting %v: after %d the first is %d, want %d", evict, b, got, want)
			}
		}
		x.drop(id)
		if x.Len() != 0 {
			t.Errorf("%d nodes left", x.Len())
		}
	}
}

// TestHashingAllocates: a token that completes no block costs no allocation,
// and one that does costs none beyond the index's own growth.
func TestHashingAllocates(t *testing.T) {
	for _, algo := range HashAlgos {
		h := newHasher(t, algo, 16, "seed")
		tokens := counting(16)
		parent := request.Hash{}
		h.block(&parent, tokens, "") // grows the buffer
		if n := testing.AllocsPerRun(100, func() { parent = h.block(&parent, tokens, "") }); n != 0 {
			t.Errorf("%s: %v allocations a block, want 0", algo, n)
		}
	}
}

func BenchmarkHashBlock(b *testing.B) {
	for _, algo := range HashAlgos {
		for _, size := range []int{16, 32} {
			b.Run(fmt.Sprintf("algo=%s/block=%d", algo, size), func(b *testing.B) {
				h := newHasher(b, algo, size, "seed")
				tokens := counting(size)
				var parent request.Hash
				b.ReportAllocs()
				for b.Loop() {
					parent = h.block(&parent, tokens, "")
				}
			})
		}
	}
}

// BenchmarkLookup finds a cached prompt of 100,000 tokens.
func BenchmarkLookup(b *testing.B) {
	const blockSize, n = 16, 100_000
	c := New(n/blockSize+2, blockSize, newHasher(b, SHA256, blockSize, "seed"))
	r := newRequest("", counting(n)...)
	c.Add(r)
	if !c.Admit(r, 0, n) {
		b.Fatal("does not fit")
	}
	c.Advance(r, n)
	r2 := newRequest("", counting(n)...)
	c.Add(r2)
	for b.Loop() {
		if got := c.Lookup(r2); got != (n-1)/blockSize {
			b.Fatalf("Lookup = %d", got)
		}
	}
}

// BenchmarkChurn admits and frees prompts of 32 blocks in a pool where every
// block is cached, so that each is evicted for the next.
func BenchmarkChurn(b *testing.B) {
	const blockSize, perPrompt, numBlocks = 16, 32, 4097
	c := New(numBlocks, blockSize, newHasher(b, SHA256, blockSize, "seed"))
	prompts := make([]*request.Request, 1000)
	for i := range prompts {
		tokens := counting(blockSize * perPrompt)
		tokens[0] = int32(i)
		prompts[i] = newRequest("", tokens...)
		c.Add(prompts[i])
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		r := prompts[i%len(prompts)]
		i++
		if found := c.Lookup(r); found != 0 || !c.Admit(r, found, r.NumTokens()) {
			b.Fatal("not evicted or not admitted")
		}
		r.Status = request.Running
		c.Advance(r, r.NumTokens())
		c.Free(r)
		r.Status = request.Waiting
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/perPrompt, "ns/block")
}
