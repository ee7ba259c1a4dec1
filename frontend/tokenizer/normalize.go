package tokenizer

import (
	"strings"
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
