package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Pre-tokenization cuts a text into words; the model works on each alone. It
// is a chain of stages, each of which cuts the pieces of the one before. If the
// vocabulary is byte-level it ends in ByteLevel, which leaves words as bytes.

// stage cuts a text into pieces, in order, none empty. first says that the
// whole text begins with s, or with the piece.
type stage interface {
	split(s string, first bool, emit emitPiece) error
}

type emitPiece func(piece string, first bool) error

// byteLevelStage is the pre-tokenizer ByteLevel without its last act, spelling
// bytes as characters: the model takes bytes.
type byteLevelStage struct {
	addPrefixSpace bool // a piece that does not begin with a space gets one
	useRegex       bool // cut with gpt2Pattern
}

func (st byteLevelStage) split(s string, first bool, emit emitPiece) error {
	if st.addPrefixSpace && s[0] != ' ' {
		s = " " + s
	}
	if !st.useRegex {
		return emit(s, first)
	}
	for i := 0; i < len(s); {
		end := scanGPT2(s, i)
		if err := emit(s[i:end], first && i == 0); err != nil {
			return err
		}
		i = end
	}
	return nil
}

// preTokenizer is the chain of stages.
type preTokenizer struct {
	stages []stage
	// scan is the one scanner that does the work of all stages, if there is one.
	scan scanner
}

func newPreTokenizer(stages []stage) preTokenizer {
	return preTokenizer{stages, soleScanner(stages)}
}

// soleScanner returns the scanner that alone does what stages do, or nil:
// GPT-2's ByteLevel, or one Split and a ByteLevel that does not cut.
func soleScanner(stages []stage) scanner {
	if len(stages) == 0 {
		return nil
	}
	last, ok := stages[len(stages)-1].(byteLevelStage)
	if !ok || last.addPrefixSpace {
		return nil
	}
	switch {
	case len(stages) == 1 && last.useRegex:
		return scanGPT2
	case len(stages) == 2 && !last.useRegex:
		st, ok := stages[0].(*splitStage)
		// A scanner matches everywhere: to isolate matches, and to remove what
		// does not match, is to keep them all.
		if ok && (st.behavior == isolated || st.behavior == removed && st.invert) {
			scan, _ := st.matcher.(scanner)
			return scan
		}
	}
	return nil
}

// appendWords cuts s into words and appends the model's tokens for each.
func (p *preTokenizer) appendWords(dst []int32, s string, first bool, model model) ([]int32, error) {
	if p.scan != nil {
		for i := 0; i < len(s); {
			end := p.scan(s, i)
			dst = model.appendWord(dst, s[i:end])
			i = end
		}
		return dst, nil
	}
	err := split(p.stages, s, first, func(word string, _ bool) error {
		dst = model.appendWord(dst, word)
		return nil
	})
	return dst, err
}

// split runs the stages on s, depth first.
func split(stages []stage, s string, first bool, emit emitPiece) error {
	if s == "" {
		return nil
	}
	if len(stages) == 0 {
		return emit(s, first)
	}
	return stages[0].split(s, first, func(piece string, first bool) error {
		return split(stages[1:], piece, first, emit)
	})
}

// prependScheme says which texts Metaspace gives a leading space.
type prependScheme string

const (
	prependAlways prependScheme = "always"
	prependFirst  prependScheme = "first" // those that the whole text begins with
	prependNever  prependScheme = "never"
)

// metaspaceStage is the pre-tokenizer Metaspace: spaces become the replacement,
// and a word begins with each.
type metaspaceStage struct {
	replacement string // one character
	prepend     prependScheme
	cut         bool
}

func (st metaspaceStage) split(s string, first bool, emit emitPiece) error {
	s = strings.ReplaceAll(s, " ", st.replacement)
	if (st.prepend == prependAlways || st.prepend == prependFirst && first) && !strings.HasPrefix(s, st.replacement) {
		s = st.replacement + s
	}
	if !st.cut {
		return emit(s, first)
	}
	for start := 0; start < len(s); first = false {
		end := len(s)
		next := start + runeLen(s[start:])
		if i := strings.Index(s[next:], st.replacement); i >= 0 {
			end = next + i
		}
		if err := emit(s[start:end], first); err != nil {
			return err
		}
		start = end
	}
	return nil
}

// runeLen returns the length of the first character of s.
func runeLen(s string) int {
	_, width := utf8.DecodeRuneInString(s)
	return width
}

// characterMatcher finds each character that has a property.
type characterMatcher func(r rune) bool

func (has characterMatcher) matches(s string, yield func(start, end int)) error {
	for i := 0; i < len(s); {
		r, width := utf8.DecodeRuneInString(s[i:])
		if has(r) {
			yield(i, i+width)
		}
		i += width
	}
	return nil
}

// wordMatcher finds \w+|[^\w\s]+, for the pre-tokenizer Whitespace.
type wordMatcher struct{}

func (wordMatcher) matches(s string, yield func(start, end int)) error {
	kindOf := func(r rune) int {
		switch {
		case isWord(r):
			return 1
		case isSpace(r):
			return 0
		}
		return 2
	}
	start, last := 0, 0
	for i := 0; i <= len(s); {
		r, width := utf8.DecodeRuneInString(s[i:])
		kind := 0
		if width > 0 {
			kind = kindOf(r)
		}
		if kind != last {
			if last != 0 {
				yield(start, i)
			}
			start, last = i, kind
		}
		i += max(width, 1)
	}
	return nil
}
