package tokenizer

import (
	"slices"
	"unicode/utf8"
)

// Unicode normalization forms C and D, KC and KD, with the data of Unicode 9.0 that the
// reference uses (see unicodegen/gen.py).
//
// golang.org/x/text/unicode/norm is not used: its data are newer, and it
// inserts U+034F after 30 combining marks (stream-safe text), which the
// reference does not.
//
// Text is cut at boundaries, the characters that nothing before them can join.
// Nearly all text is normalized already, which one look at each character
// tells; only the parts that may not be are decomposed, ordered and composed.
// Source: Unicode Standard Annex #15.

// normKind is what normalization asks about a character.
type normKind struct {
	ccc        uint8 // canonical combining class
	changes    bool  // never occurs in form C
	maybe      bool  // may compose with a character before it
	joins      bool  // no boundary before it: a mark, or maybe, or decomposes to such
	decomposes bool  // never occurs in form D
}

type decomposition struct {
	from rune
	to   string
}

type composition struct{ first, second, to rune }

// normKindOf returns the kind of r.
func normKindOf(r rune) *normKind {
	block := int(normIndex[r>>8])
	return &normKinds[normBlocks[block<<8|int(r&0xff)]-'0']
}

// normalizeCanonical returns s in form C if compose, else in form D. If s is so
// already it is returned itself. Bytes that are not UTF-8 stay as they are.
func normalizeCanonical(s string, compose bool) string {
	var (
		out      []byte
		segment  []mark
		done     int   // s[:done] is in out
		boundary int   // the last one
		lastCCC  uint8 // of the character before i
	)
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			boundary, lastCCC = i, 0
			i++
			continue
		}
		r, width := utf8.DecodeRuneInString(s[i:])
		if isInvalid(r, width) {
			i++
			boundary, lastCCC = i, 0
			continue
		}
		kind := normKindOf(r)
		normal := kind.ccc == 0 || kind.ccc >= lastCCC
		if compose {
			normal = normal && !kind.changes && !kind.maybe
		} else {
			normal = normal && !kind.decomposes
		}
		if !kind.joins {
			boundary = i
		}
		i += width
		lastCCC = kind.ccc
		if normal {
			continue
		}
		i = nextBoundary(s, i)
		segment = decompose(segment[:0], s[boundary:i])
		orderMarks(segment)
		if compose {
			segment = composeMarks(segment)
		}
		out = append(out, s[done:boundary]...)
		for _, m := range segment {
			out = utf8.AppendRune(out, m.r)
		}
		done, boundary, lastCCC = i, i, 0
	}
	if done == 0 {
		return s
	}
	return string(append(out, s[done:]...))
}

// isInvalid reports whether a decoded rune stands for a byte that is not UTF-8.
func isInvalid(r rune, width int) bool { return r == utf8.RuneError && width == 1 }

// nextBoundary returns the first boundary at s[i:].
func nextBoundary(s string, i int) int {
	for i < len(s) {
		r, width := utf8.DecodeRuneInString(s[i:])
		if isInvalid(r, width) || !normKindOf(r).joins {
			break
		}
		i += width
	}
	return i
}

// mark is a character with its combining class.
type mark struct {
	r   rune
	ccc uint8
}

func appendMark(dst []mark, r rune) []mark { return append(dst, mark{r, normKindOf(r).ccc}) }

// decompose appends the full canonical decomposition of s.
func decompose(dst []mark, s string) []mark {
	for _, r := range s {
		switch {
		case r >= hangulBase && r < hangulBase+hangulCount:
			dst = decomposeHangul(dst, r-hangulBase)
		case normKindOf(r).decomposes:
			i, _ := slices.BinarySearchFunc(decompositions[:], r, func(d decomposition, r rune) int {
				return int(d.from - r)
			})
			for _, part := range decompositions[i].to {
				dst = appendMark(dst, part)
			}
		default:
			dst = appendMark(dst, r)
		}
	}
	return dst
}

// orderMarks sorts each run of marks by combining class, keeping the order of
// equal ones.
func orderMarks(s []mark) {
	for i := 0; i < len(s); i++ {
		start := i
		for i < len(s) && s[i].ccc != 0 {
			i++
		}
		slices.SortStableFunc(s[start:i], func(a, b mark) int { return int(a.ccc) - int(b.ccc) })
	}
}

// composeMarks joins characters with the starter before them, in place. A
// character is blocked if one between has a class of 0 or not below its own.
func composeMarks(s []mark) []mark {
	out := s[:0]
	starter := -1 // index in out
	for _, m := range s {
		adjacent := starter == len(out)-1
		if starter >= 0 && (adjacent || out[len(out)-1].ccc != 0 && out[len(out)-1].ccc < m.ccc) {
			if r, ok := composePair(out[starter].r, m.r); ok {
				out[starter].r = r
				continue
			}
		}
		out = append(out, m)
		if m.ccc == 0 {
			starter = len(out) - 1
		}
	}
	return out
}

// composePair returns the primary composite of two characters.
func composePair(first, second rune) (rune, bool) {
	if r, ok := composeHangul(first, second); ok {
		return r, true
	}
	i, ok := slices.BinarySearchFunc(compositions[:], [2]rune{first, second}, func(c composition, key [2]rune) int {
		if c.first != key[0] {
			return int(c.first - key[0])
		}
		return int(c.second - key[1])
	})
	if !ok {
		return 0, false
	}
	return compositions[i].to, true
}

// Hangul syllables compose by arithmetic: a leading consonant, a vowel and
// perhaps a trailing consonant. Source: The Unicode Standard, section 3.12.
const (
	hangulBase   = 0xAC00
	leadBase     = 0x1100
	vowelBase    = 0x1161
	trailBase    = 0x11A7 // one below the first: 0 is no trailing consonant
	leadCount    = 19
	vowelCount   = 21
	trailCount   = 28
	hangulCount  = leadCount * vowelCount * trailCount
	perLeadCount = vowelCount * trailCount
)

func decomposeHangul(dst []mark, index rune) []mark {
	dst = append(dst, mark{leadBase + index/perLeadCount, 0}, mark{vowelBase + index%perLeadCount/trailCount, 0})
	if trail := index % trailCount; trail != 0 {
		dst = append(dst, mark{trailBase + trail, 0})
	}
	return dst
}

func composeHangul(first, second rune) (rune, bool) {
	lead, vowel := first-leadBase, second-vowelBase
	if lead >= 0 && lead < leadCount && vowel >= 0 && vowel < vowelCount {
		return hangulBase + lead*perLeadCount + vowel*trailCount, true
	}
	syllable, trail := first-hangulBase, second-trailBase
	if syllable >= 0 && syllable < hangulCount && syllable%trailCount == 0 && trail > 0 && trail < trailCount {
		return first + trail, true
	}
	return 0, false
}

// decomposeCompatibility returns s with the full compatibility decomposition of
// each character that has one of its own. What is canonical in it is left to
// normalizeCanonical.
func decomposeCompatibility(s string) string {
	var out []byte
	done := 0 // s[:done] is in out
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, width := utf8.DecodeRuneInString(s[i:])
		if k, ok := slices.BinarySearchFunc(compatibility[:], r, func(d decomposition, r rune) int { return int(d.from - r) }); ok {
			out = append(append(out, s[done:i]...), compatibility[k].to...)
			done = i + width
		}
		i += width
	}
	if done == 0 {
		return s
	}
	return string(append(out, s[done:]...))
}
