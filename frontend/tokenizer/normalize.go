package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// normalizer rewrites a text before it is split. It returns its argument itself
// where nothing changes.
type normalizer interface {
	normalize(s string) (string, error)
}

// canonicalForm is Unicode normalization: form C if it composes, else form D.
type canonicalForm struct{ compose bool }

func (n canonicalForm) normalize(s string) (string, error) {
	return normalizeCanonical(s, n.compose), nil
}

// compatibleForm is Unicode normalization: form KC if it composes, else form KD.
type compatibleForm struct{ compose bool }

func (n compatibleForm) normalize(s string) (string, error) {
	return normalizeCanonical(decomposeCompatibility(s), n.compose), nil
}

// lowercase is the normalizer Lowercase.
type lowercase struct{}

func (lowercase) normalize(s string) (string, error) { return lowered(s), nil }

// stripAccents removes combining marks.
type stripAccents struct{}

func (stripAccents) normalize(s string) (string, error) { return withoutSet(s, combining9), nil }

// nmt removes controls and makes spaces of others, as for machine translation.
type nmt struct{}

func (nmt) normalize(s string) (string, error) {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 1 && r <= 8, r == 0xB, r >= 0xE && r <= 0x1F, r == 0x7F, r == 0x8F, r == 0x9F:
			return -1
		case r == '\t', r == '\n', r == '\f', r == '\r', r == 0x1680, r >= 0x200B && r <= 0x200F,
			r == 0x2028, r == 0x2029, r == 0x2581, r == 0xFEFF, r == utf8.RuneError:
			return ' '
		}
		return r
	}, s), nil
}

// precompiled is the normalizer Precompiled: SentencePiece's charsmap as the
// reference applies it. A grapheme cluster of less than 6 bytes is replaced as a
// whole if it begins with a string of the map, of which the shortest counts, and
// whatever follows in the cluster is lost; else each character is.
type precompiled struct{ charsmap *charsMap }

func (n precompiled) normalize(s string) (string, error) {
	var out []byte
	done := 0 // s[:done] is in out
	replace := func(start, end int) bool {
		replacement, length := n.charsmap.match(s[start:end], false)
		if length > 0 {
			out = append(append(out, s[done:start]...), replacement...)
			done = end
		}
		return length > 0
	}
	for i := 0; i < len(s); {
		end := i + graphemeLength(s[i:])
		const wholeBelow = 6
		if end-i < wholeBelow && replace(i, end) {
			i = end
			continue
		}
		for i < end {
			next := i + runeLen(s[i:])
			replace(i, next)
			i = next
		}
	}
	if done == 0 {
		return s, nil
	}
	return string(append(out, s[done:]...)), nil
}

// prepend puts a string before every text that is not empty.
type prepend string

func (n prepend) normalize(s string) (string, error) {
	if s == "" {
		return s, nil
	}
	return string(n) + s, nil
}

// replace replaces every match by a string.
type replace struct {
	matcher matcher
	content string
}

func (n replace) normalize(s string) (string, error) {
	var out strings.Builder
	done := 0
	err := n.matcher.matches(s, func(start, end int) {
		out.WriteString(s[done:start])
		out.WriteString(n.content)
		done = end
	})
	if err != nil || out.Len() == 0 && done == 0 {
		return s, err
	}
	out.WriteString(s[done:])
	return out.String(), nil
}

// strip removes white space at the ends.
type strip struct{ left, right bool }

func (n strip) normalize(s string) (string, error) {
	if n.left {
		s = strings.TrimLeftFunc(s, isSpace)
	}
	if n.right {
		s = strings.TrimRightFunc(s, isSpace)
	}
	return s, nil
}

// normalizers apply one after the other.
type normalizers []normalizer

func (ns normalizers) normalize(s string) (string, error) {
	for _, n := range ns {
		var err error
		if s, err = n.normalize(s); err != nil {
			return "", err
		}
	}
	return s, nil
}
