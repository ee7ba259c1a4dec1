package tokenizer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

// charsMap is SentencePiece's precompiled_charsmap: strings and what replaces
// each, in a double-array trie.
//
// The blob is the length of the trie in bytes, the trie, and the replacements,
// each ended by a zero byte; a value of the trie is where its replacement
// begins. Source: SentencePiece normalizer.cc; units as in darts-clone's
// darts.h.
type charsMap struct {
	units        []uint32
	replacements []byte
}

func newCharsMap(blob []byte) (*charsMap, error) {
	const header = 4
	if len(blob) < header {
		return nil, fmt.Errorf("precompiled_charsmap has %d bytes", len(blob))
	}
	size := binary.LittleEndian.Uint32(blob)
	if uint64(size) > uint64(len(blob)-header) || size%4 != 0 || size == 0 {
		return nil, fmt.Errorf("precompiled_charsmap has a trie of %d bytes in %d", size, len(blob)-header)
	}
	m := &charsMap{units: make([]uint32, size/4), replacements: slices.Clone(blob[header+size:])}
	for i := range m.units {
		m.units[i] = binary.LittleEndian.Uint32(blob[header+4*i:])
	}
	return m, nil
}

// match returns the replacement of a string that s begins with, and the length
// of the string: the longest there is, or the shortest. The length is 0 if there
// is none.
func (m *charsMap) match(s string, longest bool) (replacement []byte, length int) {
	value := uint32(0)
	node := trieOffset(m.units[0])
	for i := 0; i < len(s); i++ {
		node ^= uint32(s[i])
		if int(node) >= len(m.units) {
			break
		}
		unit := m.units[node]
		if unit&(1<<31|0xFF) != uint32(s[i]) {
			break
		}
		node ^= trieOffset(unit)
		if unit>>8&1 == 0 || int(node) >= len(m.units) {
			continue
		}
		value, length = m.units[node]&(1<<31-1), i+1
		if !longest {
			break
		}
	}
	if length == 0 || int(value) > len(m.replacements) {
		return nil, 0
	}
	replacement = m.replacements[value:]
	if end := bytes.IndexByte(replacement, 0); end >= 0 {
		replacement = replacement[:end]
	}
	return replacement, length
}

// trieOffset returns how far from a unit its children are, by exclusive or.
func trieOffset(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }
