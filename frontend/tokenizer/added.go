package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// addedToken is an entry of added_tokens: a string that is one token wherever
// it stands, found before the pre-tokenizer and the model see the text.
type addedToken struct {
	id         int32
	content    string
	pattern    string // what it is found by and decodes to: the content, normalized if so
	singleWord bool   // only if no word character touches it
	lstrip     bool   // takes the white space before it
	rstrip     bool   // takes the white space after it
	normalized bool   // found in normalized text, by its normalized content
	special    bool   // left out of decoded text if asked
}

// addedMatcher finds added tokens in a text: of those that begin leftmost, the
// longest.
type addedMatcher struct {
	patterns prefixTable
	tokens   []*addedToken // by pattern
	only     int           // the byte that all patterns begin with, or -1
}

// newAddedMatcher returns a matcher for the tokens, by their patterns.
func newAddedMatcher(tokens []*addedToken) (*addedMatcher, error) {
	m := &addedMatcher{tokens: slices.Clone(tokens), only: -1}
	slices.SortFunc(m.tokens, func(a, b *addedToken) int { return strings.Compare(a.pattern, b.pattern) })
	keys := make([]string, len(tokens))
	for i, token := range m.tokens {
		keys[i] = token.pattern
		if token.pattern == "" {
			return nil, fmt.Errorf("added token %q is empty when normalized", token.content)
		}
		if i > 0 && token.pattern == keys[i-1] {
			return nil, fmt.Errorf("added tokens %q and %q are the same when normalized", m.tokens[i-1].content, token.content)
		}
	}
	m.patterns = newPrefixTable(keys)
	if n := len(keys); n > 0 && keys[0][0] == keys[n-1][0] {
		m.only = int(keys[0][0])
	}
	return m, nil
}

// next returns the token and range of the first match at s[from:].
func (m *addedMatcher) next(s string, from int) (token *addedToken, start, end int) {
	if len(m.tokens) == 0 {
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
	for walk := m.patterns.walk(s[i:]); ; {
		key, ok := walk.next()
		if !ok {
			return token, end
		}
		token, end = m.tokens[key], i+walk.depth
	}
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
