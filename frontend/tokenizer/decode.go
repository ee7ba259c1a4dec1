package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Decode returns the text of ids. Ids that are no token are left out, and so
// are special tokens if skipSpecialTokens.
//
// Tokens may be cut at bytes, not characters, so what ids say may not be UTF-8.
// Of a byte-level vocabulary, as in Hugging Face tokenizers and the WHATWG
// Encoding Standard, each longest part that could have begun a character, or
// else each byte, becomes U+FFFD. Where characters fall back to byte tokens, and
// a run of those is not UTF-8 as a whole, each of the run becomes U+FFFD.
func (t *Tokenizer) Decode(ids []int32, skipSpecialTokens bool) string {
	if t.decoder != nil {
		s := newTextStream(t, skipSpecialTokens)
		for _, id := range ids {
			s.add(id)
		}
		s.endRun()
		return string(s.out)
	}
	size := 0
	for _, id := range ids {
		size += len(t.decodedBytes(id, skipSpecialTokens))
	}
	var text strings.Builder
	text.Grow(size)
	for _, id := range ids {
		text.Write(t.decodedBytes(id, skipSpecialTokens))
	}
	if s := text.String(); utf8.ValidString(s) {
		return s
	}
	out, incomplete := AppendLossy(nil, []byte(text.String()))
	return string(appendIncomplete(out, incomplete))
}

// decodedBytes returns what id adds to decoded text after other tokens.
func (t *Tokenizer) decodedBytes(id int32, skipSpecialTokens bool) []byte {
	if skipSpecialTokens && t.IsSpecial(id) {
		return nil
	}
	return t.TokenBytes(id)
}

// decodedToken returns the token as decoding gets it: as it is spelled or, if
// it was added and normalized, its normalized content.
func (t *Tokenizer) decodedToken(id int32) string {
	if a, ok := t.addedByID[id]; ok {
		return a.pattern
	}
	return t.vocab.spelling(id)
}

// enterDecoded fills the table of what tokens decode to.
func (t *Tokenizer) enterDecoded(added []*addedToken) {
	v := t.vocab
	t.decoded = v.spans
	if len(added) > 0 || t.decoder != nil {
		t.decoded = slices.Clone(v.spans)
	}
	for _, a := range added {
		isNew := v.kinds[a.id] == absent
		if isNew {
			v.kinds[a.id] = literal
		}
		start := len(v.data)
		v.enter([]byte(a.pattern))
		if !isNew && string(v.data[start:]) == string(v.bytes(a.id)) {
			v.data = v.data[:start]
			continue
		}
		t.decoded[a.id] = span{uint32(start), uint32(len(v.data))}
	}
	if t.decoder == nil {
		return
	}
	t.byteOf = map[int32]byte{}
	for i := range t.decoded {
		id := int32(i)
		if !t.exists(id) {
			continue
		}
		raw := view(t.TokenBytes(id))
		text := t.decoder.decode(raw, false)
		if b, ok := byteToken(t.decoder.decodeBefore(raw, false)); ok && t.decoder.byteFallback {
			t.byteOf[id] = b
			text = string([]byte{b})
		}
		if text != raw {
			start := len(v.data)
			v.data = append(v.data, text...)
			t.decoded[id] = span{uint32(start), uint32(len(v.data))}
		}
	}
}

// AppendLossy appends src as text, with U+FFFD for what is not UTF-8, up to an
// incomplete character at its end, the length of which it returns.
func AppendLossy(dst, src []byte) (out []byte, incomplete int) {
	for len(src) > 0 {
		valid := validPrefix(src)
		dst = append(dst, src[:valid]...)
		src = src[valid:]
		if len(src) == 0 {
			break
		}
		begun, complete := beginning(src)
		if !complete && begun == len(src) {
			return dst, begun
		}
		dst = utf8.AppendRune(dst, utf8.RuneError)
		src = src[begun:]
	}
	return dst, 0
}

// appendIncomplete appends what an incomplete character becomes if nothing
// completes it.
func appendIncomplete(dst []byte, incomplete int) []byte {
	if incomplete > 0 {
		dst = utf8.AppendRune(dst, utf8.RuneError)
	}
	return dst
}

// validPrefix returns the length of the longest prefix of src that is UTF-8.
func validPrefix(src []byte) int {
	i := 0
	for i < len(src) {
		if src[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, width := utf8.DecodeRune(src[i:])
		if isInvalid(r, width) {
			break
		}
		i += width
	}
	return i
}

// beginning looks at src, which does not begin with a character. It returns the
// length of the part that is replaced by one U+FFFD: the longest beginning of a
// character, or else one byte. If not even that began one, or what follows
// breaks it off, it is complete: no further bytes can make it a character.
func beginning(src []byte) (length int, complete bool) {
	size, low, high := sequence(src[0])
	if size == 0 {
		return 1, true
	}
	for length = 1; length < size; length++ {
		if length == len(src) {
			return length, false
		}
		if src[length] < low || src[length] > high {
			break
		}
		low, high = 0x80, 0xBF
	}
	return length, true
}

// sequence returns how many bytes a character that begins with lead has, 0 if
// none does, and the bounds of the second. Source: The Unicode Standard, table 3-7.
func sequence(lead byte) (size int, low, high byte) {
	switch {
	case lead >= 0xC2 && lead <= 0xDF:
		return 2, 0x80, 0xBF
	case lead == 0xE0:
		return 3, 0xA0, 0xBF
	case lead == 0xED:
		return 3, 0x80, 0x9F
	case lead >= 0xE1 && lead <= 0xEF:
		return 3, 0x80, 0xBF
	case lead == 0xF0:
		return 4, 0x90, 0xBF
	case lead >= 0xF1 && lead <= 0xF3:
		return 4, 0x80, 0xBF
	case lead == 0xF4:
		return 4, 0x80, 0x8F
	}
	return 0, 0, 0
}
