package tokenizer

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
)

// wordCache remembers the tokens of recent words: text repeats its words, and
// a hit costs a hash and a comparison. A slot holds the last word that fell
// into it, so the cache is bounded and needs no lock.
type wordCache struct {
	slots []atomic.Pointer[cachedWord] // wordCacheSlots long
	seed  maphash.Seed
}

type cachedWord struct {
	word string
	ids  []int32
}

const (
	wordCacheSlots = 1 << 15 // 256 KiB of pointers, about 4 MiB when full
	maxCachedWord  = 64      // bytes; longer words seldom repeat
)

func newWordCache() wordCache {
	return wordCache{make([]atomic.Pointer[cachedWord], wordCacheSlots), maphash.MakeSeed()}
}

func (c *wordCache) slot(word string) *atomic.Pointer[cachedWord] {
	return &c.slots[maphash.String(c.seed, word)%wordCacheSlots]
}

// appendWord appends the tokens of a word, those that it had last if they are
// remembered, else those that encode appends.
func (c *wordCache) appendWord(dst []int32, word string, encode func(dst []int32, word string) []int32) []int32 {
	if len(word) > maxCachedWord {
		return encode(dst, word)
	}
	slot := c.slot(word)
	if e := slot.Load(); e != nil && e.word == word {
		return append(dst, e.ids...)
	}
	start := len(dst)
	dst = encode(dst, word)
	slot.Store(&cachedWord{strings.Clone(word), slices.Clone(dst[start:])})
	return dst
}
