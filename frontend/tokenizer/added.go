package tokenizer

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

// addedToken is an entry of added_tokens: a string that is one token wherever
// it stands, found before the pre-tokenizer and the model see the text.
type addedToken struct {
	id         int32
	content    string
	singleWord bool // only if no word character touches it
	lstrip     bool // takes the white space before it
	rstrip     bool // takes the white space after it
	normalized bool // found in normalized text, by its normalized content
	special    bool // left out of decoded text if asked
}

// addedMatcher finds added tokens in a text: of those that begin leftmost, the
// longest. Patterns are sorted, so that those with a common prefix are a range,
// which each further byte of the text narrows.
type addedMatcher struct {
	patterns []string // sorted, not empty, no two alike
	tokens   []*addedToken
	first    [256]span // range of patterns that begin with a byte
	only     int       // the byte that all patterns begin with, or -1
}

// newAddedMatcher returns a matcher for the tokens; pattern gives what each is
// found by.
func newAddedMatcher(tokens []*addedToken, pattern func(*addedToken) string) (*addedMatcher, error) {
	m := &addedMatcher{tokens: slices.Clone(tokens), only: -1}
	slices.SortFunc(m.tokens, func(a, b *addedToken) int { return strings.Compare(pattern(a), pattern(b)) })
	for i, token := range m.tokens {
		p := pattern(token)
		if p == "" {
			return nil, fmt.Errorf("added token %q is empty when normalized", token.content)
		}
		if i > 0 && p == m.patterns[i-1] {
			return nil, fmt.Errorf("added tokens %q and %q are the same when normalized", m.tokens[i-1].content, token.content)
		}
		m.patterns = append(m.patterns, p)
		r := &m.first[p[0]]
		if r.end == 0 {
			r.start = uint32(i)
		}
		r.end = uint32(i) + 1
	}
	if n := len(m.patterns); n > 0 && m.patterns[0][0] == m.patterns[n-1][0] {
		m.only = int(m.patterns[0][0])
	}
	return m, nil
}

// next returns the token and range of the first match at s[from:].
func (m *addedMatcher) next(s string, from int) (token *addedToken, start, end int) {
	if len(m.patterns) == 0 {
		return nil, 0, 0
	}
	for i := from; i < len(s); i++ {
		if m.only >= 0 {
			offset := strings.IndexByte(s[i:], byte(m.only))
			if offset < 0 {
				break
			}
			i += offset
		}
		if token, end := m.longest(s, i); token != nil {
			return token, i, end
		}
	}
	return nil, 0, 0
}

// longest returns the longest token that s[i:] begins with, and its end.
func (m *addedMatcher) longest(s string, i int) (token *addedToken, end int) {
	lo, hi := int(m.first[s[i]].start), int(m.first[s[i]].end)
	for depth := 1; lo < hi; depth++ {
		if len(m.patterns[lo]) == depth {
			token, end = m.tokens[lo], i+depth
			lo++
		}
		if i+depth == len(s) {
			break
		}
		b := s[i+depth]
		lo += sort.Search(hi-lo, func(k int) bool { return m.patterns[lo+k][depth] >= b })
		hi = lo + sort.Search(hi-lo, func(k int) bool { return m.patterns[lo+k][depth] > b })
	}
	return token, end
}

// addedScan cuts a text at its added tokens.
type addedScan struct {
	matcher  *addedMatcher
	s        string
	pos      int // where to look for the next match
	done     int // s[:done] was handed out
	spaceEnd int // the end of the white space that rstrip saw last
}

// next returns the text up to the next added token, which may be empty, and
// the token; nil at the end of the text.
//
// As in the reference, a match that single_word refuses still hides the
// matches that overlap it, and the white space that rstrip takes does not hide
// those within it.
func (a *addedScan) next() (text string, token *addedToken) {
	for {
		token, start, end := a.matcher.next(a.s, a.pos)
		if token == nil {
			text = a.s[a.done:]
			a.done = len(a.s)
			return text, nil
		}
		a.pos = end
		if token.singleWord && a.touchesWord(start, end) {
			continue
		}
		if token.lstrip {
			for start > a.done {
				r, width := utf8.DecodeLastRuneInString(a.s[:start])
				if !isSpace(r) {
					break
				}
				start -= width
			}
			start = max(start, a.done)
		}
		if token.rstrip {
			a.spaceEnd = skip(a.s, max(end, a.spaceEnd), space)
			end = a.spaceEnd
		}
		if start >= end {
			continue // an earlier token took all of it
		}
		if a.done < start {
			text = a.s[a.done:start]
		}
		a.done = end
		return text, token
	}
}

// touchesWord reports whether a word character stands right before start or
// right after end.
func (a *addedScan) touchesWord(start, end int) bool {
	before, _ := utf8.DecodeLastRuneInString(a.s[:start])
	after, _ := utf8.DecodeRuneInString(a.s[end:])
	return isWord(before) || isWord(after)
}
