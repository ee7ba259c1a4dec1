package tokenizer

import (
	"slices"
	"unicode/utf8"
)

// Grapheme clusters: what a reader takes for one character. Only Precompiled
// normalizers ask for them. Source: Unicode Standard Annex #29, extended
// grapheme clusters.

// graphemeClass is what a character is to grapheme clusters.
type graphemeClass uint8

const (
	graphemeOther graphemeClass = iota
	graphemeCR
	graphemeLF
	graphemeControl
	graphemeExtend
	graphemeLinker // an Extend that joins consonants
	graphemeZWJ
	graphemePrepend
	graphemeSpacingMark
	graphemeRegionalIndicator
	graphemePictographic
	graphemeConsonant
	graphemeL
	graphemeV
	graphemeT
	graphemeLV
	graphemeLVT
)

type graphemeRun struct {
	runeRange
	class graphemeClass
}

func graphemeClassOf(r rune) graphemeClass {
	if r >= hangulBase && r < hangulBase+hangulCount {
		if (r-hangulBase)%trailCount == 0 {
			return graphemeLV
		}
		return graphemeLVT
	}
	i, ok := slices.BinarySearchFunc(graphemeRuns[:], r, func(run graphemeRun, r rune) int { return run.compare(r) })
	if !ok {
		return graphemeOther
	}
	return graphemeRuns[i].class
}

// compare tells whether r is before, in or after a range, for binary search.
func (x runeRange) compare(r rune) int {
	switch {
	case r < x.lo:
		return 1
	case r > x.hi:
		return -1
	}
	return 0
}

// graphemeLength returns the length of the cluster that s begins with.
func graphemeLength(s string) int {
	if isPlain(s[0]) && (len(s) == 1 || isPlain(s[1])) {
		return 1
	}
	r, i := utf8.DecodeRuneInString(s)
	var (
		last         = graphemeClassOf(r)
		indicators   = 0                            // regional ones in a row
		pictographic = last == graphemePictographic // then only marks came
		consonant    = last == graphemeConsonant    // then only marks and linkers came
		linked       = false                        // with a linker
	)
	for i < len(s) {
		if last == graphemeRegionalIndicator {
			indicators++
		} else {
			indicators = 0
		}
		r, width := utf8.DecodeRuneInString(s[i:])
		next := graphemeClassOf(r)
		switch {
		case joinsGrapheme(last, next):
		case next == graphemeRegionalIndicator && indicators%2 == 1:
		case next == graphemePictographic && last == graphemeZWJ && pictographic:
		case next == graphemeConsonant && consonant && linked:
		default:
			return i
		}
		isMark := next == graphemeExtend || next == graphemeLinker || next == graphemeZWJ
		pictographic = next == graphemePictographic || pictographic && isMark && last != graphemeZWJ
		consonant = next == graphemeConsonant || consonant && isMark
		linked = consonant && isMark && (linked || next == graphemeLinker)
		last = next
		i += width
	}
	return i
}

// isPlain reports whether b is an ASCII character that joins no other.
func isPlain(b byte) bool { return b >= ' ' && b < 0x7F }

// joinsGrapheme reports whether two adjacent characters are of one cluster,
// whatever is before them.
func joinsGrapheme(a, b graphemeClass) bool {
	switch {
	case a == graphemeCR && b == graphemeLF:
		return true
	case a <= graphemeControl && a != graphemeOther, b <= graphemeControl && b != graphemeOther:
		return false
	}
	switch b {
	case graphemeExtend, graphemeLinker, graphemeZWJ, graphemeSpacingMark:
		return true
	case graphemeL, graphemeLV, graphemeLVT:
		return a == graphemeL || a == graphemePrepend
	case graphemeV:
		return a == graphemeL || a == graphemeV || a == graphemeLV || a == graphemePrepend
	case graphemeT:
		return a == graphemeV || a == graphemeT || a == graphemeLV || a == graphemeLVT || a == graphemePrepend
	}
	return a == graphemePrepend
}
