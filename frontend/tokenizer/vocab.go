package tokenizer

import (
	"fmt"
	"hash/maphash"
	"unicode/utf8"
	"unsafe"
)

// Most vocabularies hold their tokens as they are written: each is literal.
//
// Byte-level vocabularies spell every byte as one printable character, so that
// a token is text whatever its bytes: 'A' stands for 0x41 and 'Ġ' (U+0120) for
// a space. We keep the bytes, which encoding and decoding work with, and spell
// a token only when asked.

// alphabet maps a byte to its character; alphabetByte is the reverse, -1 for a
// character that stands for no byte. Source: OpenAI's GPT-2 encoder.py,
// bytes_to_unicode.
var alphabet, alphabetByte = func() (runes [256]rune, bytes [0x144]int16) {
	for r := range bytes {
		bytes[r] = -1
	}
	next := rune(0x100)
	for b := range runes {
		r := rune(b)
		if b < '!' || b > '~' && b < 0xA1 || b == 0xAD {
			r = next
			next++
		}
		runes[b] = r
		bytes[r] = int16(b)
	}
	return runes, bytes
}()

// appendSpelled appends the bytes that a spelling stands for. If the spelling
// has a character outside the alphabet, ok is false and dst is returned as it
// was: such a token is literal and stands for the bytes of its own spelling.
func appendSpelled(dst, spelling []byte) (out []byte, ok bool) {
	start := len(dst)
	for i := 0; i < len(spelling); {
		r, width := rune(spelling[i]), 1
		if r >= utf8.RuneSelf {
			r, width = utf8.DecodeRune(spelling[i:])
		}
		if int(r) >= len(alphabetByte) || alphabetByte[r] < 0 {
			return dst[:start], false
		}
		dst = append(dst, byte(alphabetByte[r]))
		i += width
	}
	return dst, true
}

// spell returns the spelling of bytes in the alphabet.
func spell(bytes []byte) string {
	out := make([]byte, 0, 2*len(bytes))
	for _, b := range bytes {
		out = utf8.AppendRune(out, alphabet[b])
	}
	return string(out)
}

// tokenKind says how a token's bytes relate to its spelling.
type tokenKind uint8

const (
	absent  tokenKind = iota // no token has this id
	mapped                   // spelled in the alphabet
	literal                  // spelled as it is
)

// maxTokenID bounds ids: tables are indexed by id, so a wild one would cost
// memory. The largest published vocabularies have about 262,000 tokens.
const maxTokenID = 1<<22 - 1

// vocab is the model's vocabulary: ids to bytes and back.
//
// A token is found by its bytes and kind in an open-addressing table, which
// costs 8 bytes a slot and no allocation per token. A slot keeps a hash, so that
// only the bytes of the right token are looked at, and a larger table is filled
// from the smaller alone.
type vocab struct {
	byteLevel bool // tokens are spelled in the alphabet

	data  []byte      // the bytes of all tokens
	spans []span      // by id: where in data
	kinds []tokenKind // by id
	count int         // tokens

	table []vocabSlot // a power of two long
	seed  maphash.Seed
}

type vocabSlot struct {
	entry int32 // id + 1; 0 is empty
	hash  uint32
}

// span is a range of vocab.data.
type span struct{ start, end uint32 }

func newVocab(byteLevel bool) *vocab {
	return &vocab{byteLevel: byteLevel, seed: maphash.MakeSeed(), table: make([]vocabSlot, 64)}
}

// bytes returns what the token stands for; the id must not be absent.
func (v *vocab) bytes(id int32) []byte {
	s := v.spans[id]
	return v.data[s.start:s.end:s.end]
}

// add enters a token by its spelling.
func (v *vocab) add(spelling []byte, id int64) error {
	if id < 0 || id > maxTokenID {
		return fmt.Errorf("token %q has id %d, outside 0 to %d", spelling, id, maxTokenID)
	}
	if int(id) < len(v.kinds) && v.kinds[id] != absent {
		return fmt.Errorf("tokens %q and %q have the same id %d", v.spelling(int32(id)), spelling, id)
	}
	v.grow(int(id) + 1)
	start := len(v.data)
	kind := v.enter(spelling)
	v.spans[id] = span{uint32(start), uint32(len(v.data))}
	v.kinds[id] = kind
	if v.count++; 2*v.count > len(v.table) {
		v.rehash()
	}
	slot, hash := v.slot(view(v.data[start:]), kind)
	if slot.entry != 0 {
		return fmt.Errorf("token %q has two ids, %d and %d", spelling, slot.entry-1, id)
	}
	*slot = vocabSlot{int32(id) + 1, hash}
	return nil
}

// enter appends to data the bytes that a spelling stands for.
func (v *vocab) enter(spelling []byte) tokenKind {
	if v.byteLevel {
		var ok bool
		if v.data, ok = appendSpelled(v.data, spelling); ok {
			return mapped
		}
	}
	v.data = append(v.data, spelling...)
	return literal
}

// grow makes room for ids below n.
func (v *vocab) grow(n int) {
	if n > len(v.kinds) {
		v.kinds = append(v.kinds, make([]tokenKind, n-len(v.kinds))...)
		v.spans = append(v.spans, make([]span, n-len(v.spans))...)
	}
}

// rehash doubles the table.
func (v *vocab) rehash() {
	old := v.table
	v.table = make([]vocabSlot, 2*len(old))
	mask := uint32(len(v.table) - 1)
	for _, s := range old {
		if s.entry != 0 {
			i := s.hash & mask
			for v.table[i].entry != 0 {
				i = (i + 1) & mask
			}
			v.table[i] = s
		}
	}
}

// slot returns the slot of the token with these bytes, or the empty one where
// it belongs, and the hash of the bytes.
func (v *vocab) slot(bytes string, kind tokenKind) (s *vocabSlot, hash uint32) {
	hash = uint32(maphash.String(v.seed, bytes))
	mask := uint32(len(v.table) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s = &v.table[i]
		if s.entry == 0 || s.hash == hash && v.kinds[s.entry-1] == kind && string(v.bytes(s.entry-1)) == bytes {
			return s, hash
		}
	}
}

// view is b as a string without a copy, for lookups that don't keep it.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// find returns the id of the token that stands for a part of a text: in a
// byte-level vocabulary, of the mapped one.
func (v *vocab) find(bytes string) (int32, bool) {
	kind := literal
	if v.byteLevel {
		kind = mapped
	}
	s, _ := v.slot(bytes, kind)
	return s.entry - 1, s.entry != 0
}

// findSpelling returns the id of the token spelled so.
func (v *vocab) findSpelling(spelling []byte) (int32, bool) {
	var buffer [128]byte // on the stack: load looks up hundreds of thousands
	kind, key := literal, spelling
	if v.byteLevel {
		if bytes, ok := appendSpelled(buffer[:0], spelling); ok {
			kind, key = mapped, bytes
		}
	}
	s, _ := v.slot(view(key), kind)
	return s.entry - 1, s.entry != 0
}

// spelling returns the token as the vocabulary spells it.
func (v *vocab) spelling(id int32) string {
	if v.kinds[id] == literal {
		return string(v.bytes(id))
	}
	return spell(v.bytes(id))
}

// byteTokens returns the tokens of single bytes, and the first byte that has
// none, or -1. Where the vocabulary is not byte-level they are spelled <0xXX>.
func (v *vocab) byteTokens() (ids [256]int32, missing int) {
	missing = -1
	for b := 255; b >= 0; b-- {
		spelling := string([]byte{byte(b)})
		if !v.byteLevel {
			spelling = fmt.Sprintf("<0x%02X>", b)
		}
		var ok bool
		if ids[b], ok = v.find(spelling); !ok {
			ids[b], missing = noToken, b
		}
	}
	return ids, missing
}
