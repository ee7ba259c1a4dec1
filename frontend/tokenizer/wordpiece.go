package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// wordPiece is the WordPiece model: a word becomes the longest token that it
// begins with, the longest that continues it, and so on. A word that can't be
// made up so, or has more characters than maxCharacters, is unk as a whole.
//
// Immutable after load but for the cache, so safe for concurrent use.
type wordPiece struct {
	begin, next   wordPieces // that begin a word; that continue one, without the prefix
	maxCharacters int
	unk           int32
	cache         wordCache
}

// wordPieces are tokens that may stand at a place in a word.
type wordPieces struct {
	table prefixTable
	ids   []int32 // by index in table
}

// newWordPieces returns the tokens that have a prefix, which is left out.
func newWordPieces(v *vocab, prefix string) wordPieces {
	var p wordPieces
	for id, kind := range v.kinds {
		if kind != absent && len(v.bytes(int32(id))) > len(prefix) && strings.HasPrefix(view(v.bytes(int32(id))), prefix) {
			p.ids = append(p.ids, int32(id))
		}
	}
	slices.SortFunc(p.ids, func(a, b int32) int { return strings.Compare(view(v.bytes(a)), view(v.bytes(b))) })
	keys := make([]string, len(p.ids))
	for i, id := range p.ids {
		keys[i] = string(v.bytes(id)[len(prefix):])
	}
	p.table = newPrefixTable(keys)
	return p
}

// longest returns the longest token that s begins with, and its length; 0 is
// none.
func (p *wordPieces) longest(s string) (id int32, length int) {
	for walk := p.table.walk(s); ; {
		key, ok := walk.next()
		if !ok {
			return id, length
		}
		id, length = p.ids[key], walk.depth
	}
}

// newWordPiece makes the model of a vocabulary, in which tokens with the prefix
// continue a word.
func newWordPiece(v *vocab, prefix string, maxCharacters int, unk int32) *wordPiece {
	return &wordPiece{newWordPieces(v, ""), newWordPieces(v, prefix), maxCharacters, unk, newWordCache()}
}

// appendWord appends the tokens of one pre-tokenized word.
func (m *wordPiece) appendWord(dst []int32, word string) []int32 {
	return m.cache.appendWord(dst, word, m.appendPieces)
}

func (m *wordPiece) appendPieces(dst []int32, word string) []int32 {
	if utf8.RuneCountInString(word) > m.maxCharacters {
		return append(dst, m.unk)
	}
	first := len(dst)
	for pieces, rest := &m.begin, word; rest != ""; pieces = &m.next {
		id, length := pieces.longest(rest)
		if length == 0 {
			return append(dst[:first], m.unk)
		}
		dst = append(dst, id)
		rest = rest[length:]
	}
	return dst
}
