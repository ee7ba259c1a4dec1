package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// bpe is the BPE model.
//
// The word starts as one symbol per character; in a byte-level vocabulary, that
// is per byte. Of all adjacent pairs that have a merge, the one with the lowest
// rank is replaced by its merged token, the leftmost first, until no pair has
// one. Source: Sennrich et al. 2016; order of merges as in Hugging Face
// tokenizers.
//
// Immutable after load but for the cache, so safe for concurrent use.
type bpe struct {
	vocab        *vocab
	merges       mergeTable
	byteIDs      [256]int32 // by byte: in a byte-level vocabulary its token, else the token <0xXX>; or noToken
	byteFallback bool       // a character without a token is its bytes' tokens
	unk          int32      // the token for what has none, or noToken: it is dropped
	fuseUnk      bool       // a run of such characters is one unk
	ignoreMerges bool       // a word that is a token is that token, whatever the merges say
	cuts         *spaceCuts // where a word may be cut; nil: nowhere
	cache        wordCache
}

// setMerges enters the merges and completes the model.
func (m *bpe) setMerges(merges []merge) {
	m.merges = newMergeTable(len(merges))
	for _, merge := range merges {
		m.merges.put(merge)
	}
	m.cuts = newSpaceCuts(m, merges)
	m.cache = newWordCache()
}

// appendWord appends the tokens of one pre-tokenized word.
func (m *bpe) appendWord(dst []int32, word string) []int32 {
	if m.cuts == nil {
		return m.cache.appendWord(dst, word, m.appendMerged)
	}
	for word != "" {
		n := m.cuts.next(word)
		dst = m.cache.appendWord(dst, word[:n], m.appendMerged)
		word = word[n:]
	}
	return dst
}

// appendMerged is appendWord without cuts and cache.
func (m *bpe) appendMerged(dst []int32, word string) []int32 {
	if m.ignoreMerges {
		if id, ok := m.vocab.find(word); ok {
			return append(dst, id)
		}
	}
	start := len(dst)
	dst = m.appendSymbols(dst, word)
	symbols := m.merges.apply(dst[start:])
	return dst[:start+len(symbols)]
}

// appendSymbols appends the tokens that the word starts as.
func (m *bpe) appendSymbols(dst []int32, word string) []int32 {
	if m.vocab.byteLevel {
		return m.appendBytes(dst, word)
	}
	unknown := false // an unk is due
	for i := 0; i < len(word); {
		_, width := utf8.DecodeRuneInString(word[i:])
		character := word[i : i+width]
		i += width
		if id, ok := m.vocab.find(character); ok {
			if unknown {
				dst = append(dst, m.unk)
			}
			dst, unknown = append(dst, id), false
			continue
		}
		if m.fallsBack(character) {
			for _, b := range []byte(character) {
				dst = append(dst, m.byteIDs[b])
			}
			continue // an unk that is due comes after the bytes: so the reference
		}
		if m.unk == noToken {
			continue
		}
		if unknown && !m.fuseUnk {
			dst = append(dst, m.unk)
		}
		unknown = true
	}
	if unknown {
		dst = append(dst, m.unk)
	}
	return dst
}

// fallsBack reports whether a character becomes the tokens of its bytes.
func (m *bpe) fallsBack(character string) bool {
	if !m.byteFallback {
		return false
	}
	for _, b := range []byte(character) {
		if m.byteIDs[b] == noToken {
			return false
		}
	}
	return true
}

// appendBytes appends one symbol per byte of the word.
func (m *bpe) appendBytes(dst []int32, word string) []int32 {
	afterUnk := false
	for i := range len(word) {
		id := m.byteIDs[word[i]]
		if id != noToken {
			dst = append(dst, id)
		} else if m.unk != noToken && !(afterUnk && m.fuseUnk) {
			dst = append(dst, m.unk)
		}
		afterUnk = id == noToken
	}
	return dst
}

// escapedSpace stands for a space in vocabularies of SentencePiece and its kin.
const escapedSpace = "▁"

// spaceCuts says where a long word may be cut so that its parts have the tokens
// of the whole. Vocabularies of SentencePiece take a whole text for one word;
// cut, its parts are short and mostly in the cache.
//
// A cut before an escaped space is exact if no merge reaches over it, that is,
// if none joins a token that ends in the character before the cut to one that
// begins with the escaped space.
type spaceCuts struct{ joined map[rune]bool } // by the character before

// newSpaceCuts returns the cuts that merges allow, nil if it can't be told by
// characters.
func newSpaceCuts(m *bpe, merges []merge) *spaceCuts {
	if _, ok := m.vocab.find(escapedSpace); !ok || m.vocab.byteLevel || m.ignoreMerges {
		return nil
	}
	stands := map[int32]bool{m.unk: true} // tokens that stand for other characters than they are spelled with
	for _, id := range m.byteIDs {
		stands[id] = true
	}
	cuts := &spaceCuts{map[rune]bool{}}
	for _, merge := range merges {
		if !strings.HasPrefix(view(m.vocab.bytes(merge.right)), escapedSpace) {
			continue
		}
		if stands[merge.left] {
			return nil
		}
		before, _ := utf8.DecodeLastRune(m.vocab.bytes(merge.left))
		cuts.joined[before] = true
	}
	return cuts
}

// next returns the length of the first part of word.
func (c *spaceCuts) next(word string) int {
	for i := 0; ; {
		offset := strings.Index(word[i:], escapedSpace)
		if offset < 0 {
			return len(word)
		}
		i += offset
		if before, width := utf8.DecodeLastRuneInString(word[:i]); width > 0 && !c.joined[before] {
			return i
		}
		i += len(escapedSpace)
	}
}
