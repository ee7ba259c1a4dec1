package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// bertNormalizer is the normalizer BertNormalizer.
type bertNormalizer struct {
	clean        bool // control characters go, white space is a space
	spaceHan     bool // spaces around Chinese characters
	stripAccents bool
	lowercase    bool
}

func (n bertNormalizer) normalize(s string) (string, error) {
	if n.clean {
		s = strings.Map(cleanText, s)
	}
	if n.spaceHan {
		s = spaceHan(s)
	}
	if n.stripAccents {
		s = withoutSet(normalizeCanonical(s, false), nonspacing8)
	}
	if n.lowercase {
		s = lowered(s)
	}
	return s, nil
}

// cleanText maps a character to what is left of it, -1 for nothing.
func cleanText(r rune) rune {
	switch {
	case r >= ' ' && r < 0x7F:
		return r
	case r == '\t' || r == '\n' || r == '\r':
		return ' '
	case r == 0 || r == utf8.RuneError || other8.contains(r):
		return -1
	case isSpace(r):
		return ' '
	}
	return r
}

// bertHan are the characters that BertNormalizer takes for Chinese. One of the
// blocks begins late: so the reference.
var bertHan = runeSet{
	{0x3400, 0x4DBF}, {0x4E00, 0x9FFF}, {0xF900, 0xFAFF}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
	{0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F},
}

func spaceHan(s string) string {
	if !strings.ContainsFunc(s, bertHan.contains) {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		if bertHan.contains(r) {
			out.WriteByte(' ')
			out.WriteRune(r)
			out.WriteByte(' ')
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// withoutSet returns s without the characters of a set.
func withoutSet(s string, set runeSet) string {
	return strings.Map(func(r rune) rune {
		if set.contains(r) {
			return -1
		}
		return r
	}, s)
}

// contains reports whether r is in the set.
func (s runeSet) contains(r rune) bool {
	if len(s) == 0 || r < s[0].lo {
		return false
	}
	_, ok := slices.BinarySearchFunc(s, r, runeRange.compare)
	return ok
}

// lowerRun is every stepth character of a range, whose lower case is distance
// away.
type lowerRun struct {
	runeRange
	step, distance rune
}

// lowered returns s in lower case, character by character as Rust's
// char::to_lowercase.
func lowered(s string) string {
	const dottedI = 'İ' // the only one that becomes two characters
	s = strings.ReplaceAll(s, string(dottedI), "i\u0307")
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf {
			if 'A' <= r && r <= 'Z' {
				r += 'a' - 'A'
			}
			return r
		}
		i, ok := slices.BinarySearchFunc(lowerRuns[:], r, func(run lowerRun, r rune) int { return run.compare(r) })
		if ok && (r-lowerRuns[i].lo)%lowerRuns[i].step == 0 {
			r += lowerRuns[i].distance
		}
		return r
	}, s)
}
