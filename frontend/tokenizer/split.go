package tokenizer

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dlclark/regexp2/v2"
)

// splitTimeLimit bounds what one piece of text, and one match, may cost a pattern
// that backtracks. Ordinary ones take a second for some megabytes.
const splitTimeLimit = 5 * time.Second

// ErrSplitTimeout reports that a split pattern took too long on a text. It is
// the fault of the model's pattern, but the text found it.
var ErrSplitTimeout = errors.New("tokenizer: the model's split pattern takes too long on this text; send less, or less of the same, at a time")

// matcher finds the matches of a pattern.
type matcher interface {
	// matches calls yield with each match in s, left to right.
	matches(s string, yield func(start, end int)) error
}

// newMatcher returns the matcher of a regular expression: a hand-written
// scanner if there is one, else regexp2.
func newMatcher(pattern string) (matcher, error) {
	if scan, ok := scanners[pattern]; ok {
		return scan, nil
	}
	return newRegexpMatcher(pattern)
}

func (scan scanner) matches(s string, yield func(start, end int)) error {
	for i := 0; i < len(s); {
		end := scan(s, i)
		yield(i, end)
		i = end
	}
	return nil
}

// literalMatcher finds a string.
type literalMatcher string

func (m literalMatcher) matches(s string, yield func(start, end int)) error {
	for i := 0; ; {
		offset := strings.Index(s[i:], string(m))
		if offset < 0 {
			return nil
		}
		i += offset + len(m)
		yield(i-len(m), i)
	}
}

// regexpMatcher finds any other pattern. Safe for concurrent use.
type regexpMatcher struct {
	re    *regexp2.Regexp
	limit time.Duration
}

func newRegexpMatcher(pattern string) (*regexpMatcher, error) {
	translated, err := onigToRegexp2(pattern)
	if err != nil {
		return nil, err
	}
	re, err := regexp2.Compile(translated, regexp2.None, regexp2.OptionMaxBacktrackingStackSize(-1))
	if err != nil {
		return nil, fmt.Errorf("%w: the pattern %q: %w", ErrUnsupported, pattern, err)
	}
	re.MatchTimeout = splitTimeLimit
	return &regexpMatcher{re, splitTimeLimit}, nil
}

func (m *regexpMatcher) matches(s string, yield func(start, end int)) error {
	// The engine works on runes; a byte that is not UTF-8 is U+FFFD.
	runes := make([]rune, 0, len(s))
	offsets := make([]int, 0, len(s)+1)
	for i, r := range s {
		runes = append(runes, r)
		offsets = append(offsets, i)
	}
	offsets = append(offsets, len(s))

	started := time.Now()
	lastEnd := -1
	for pos := 0; len(s) > 0 && pos <= len(runes); { // an empty text has no matches, not even empty ones
		if time.Since(started) > m.limit {
			return ErrSplitTimeout
		}
		match, err := m.re.FindRunesMatchStartingAt(runes, pos)
		if err != nil { // the engine's only error here is its own time limit
			return fmt.Errorf("%w (%w)", ErrSplitTimeout, err)
		}
		if match == nil {
			return nil
		}
		start, end := match.RuneIndex, match.RuneIndex+match.RuneLength
		if start == end && start == lastEnd {
			pos++ // an empty match right after a match does not count
			continue
		}
		yield(offsets[start], offsets[end])
		pos, lastEnd = end, end
	}
	return nil
}

// splitBehavior says what becomes of a match.
type splitBehavior string

const (
	isolated           splitBehavior = "Isolated"           // a piece of its own
	removed            splitBehavior = "Removed"            // left out
	contiguous         splitBehavior = "Contiguous"         // one piece with adjacent matches
	mergedWithPrevious splitBehavior = "MergedWithPrevious" // the end of the piece before
	mergedWithNext     splitBehavior = "MergedWithNext"     // the start of the piece after
)

// check makes sure that b is one of the above.
func (b splitBehavior) check() error {
	switch b {
	case isolated, removed, contiguous, mergedWithPrevious, mergedWithNext:
		return nil
	}
	return fmt.Errorf("%w: behavior %q", ErrUnsupported, b)
}

// splitStage is the pre-tokenizer Split, and others that are cases of it.
type splitStage struct {
	matcher  matcher
	behavior splitBehavior
	invert   bool // what does not match is the match
}

// piece is a part of a text; consecutive pieces cover it.
type piece struct {
	start, end int
	match      bool
}

func (st *splitStage) split(s string, first bool, emit emitPiece) error {
	pieces, err := st.pieces(s)
	if err != nil {
		return err
	}
	for _, p := range st.behave(pieces) {
		if p.start == p.end || st.behavior == removed && p.match {
			continue
		}
		if err := emit(s[p.start:p.end], first && p.start == 0); err != nil {
			return err
		}
	}
	return nil
}

// pieces returns the matches in s and what is between them.
func (st *splitStage) pieces(s string) ([]piece, error) {
	var pieces []piece
	done := 0
	err := st.matcher.matches(s, func(start, end int) {
		if done < start {
			pieces = append(pieces, piece{done, start, st.invert})
		}
		pieces = append(pieces, piece{start, end, !st.invert})
		done = end
	})
	if done < len(s) {
		pieces = append(pieces, piece{done, len(s), st.invert})
	}
	return pieces, err
}

// behave joins pieces as the behavior asks.
func (st *splitStage) behave(pieces []piece) []piece {
	// joins reports whether the later of two adjacent pieces goes into the earlier.
	var joins func(earlier, later piece) bool
	switch st.behavior {
	case contiguous:
		joins = func(earlier, later piece) bool { return earlier.match == later.match }
	case mergedWithPrevious:
		joins = func(earlier, later piece) bool { return later.match && !earlier.match }
	case mergedWithNext:
		joins = func(earlier, later piece) bool { return earlier.match && !later.match }
	default:
		return pieces
	}
	out := pieces[:0]
	for _, p := range pieces {
		if n := len(out); n > 0 && joins(out[n-1], p) {
			out[n-1].end, out[n-1].match = p.end, p.match
			continue
		}
		out = append(out, p)
	}
	return out
}
