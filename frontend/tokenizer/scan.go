package tokenizer

import "strings"

// Hand-written scanners for the split patterns that most models use. Each is
// the pattern above it, one alternative after the other, in one pass over the
// text; a regular expression engine that backtracks takes several times as long.
//
// A scanner takes a text and a position before its end and returns the end of
// the piece that begins there; the patterns match everywhere, so pieces cover
// the text.
type scanner func(s string, i int) int

const (
	gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

	llama3Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

	qwen2Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

	o200kPattern = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// scanners are chosen by the pattern, to the letter.
var scanners = map[string]scanner{
	gpt2Pattern:   scanGPT2,
	llama3Pattern: func(s string, i int) int { return scanLlama3(s, i, 3) },
	qwen2Pattern:  func(s string, i int) int { return scanLlama3(s, i, 1) },
	o200kPattern:  scanO200k,
}

// scanGPT2 is gpt2Pattern, the one of ByteLevel itself.
func scanGPT2(s string, i int) int {
	if s[i] == '\'' {
		if n := contraction(s[i:]); n > 0 {
			return i + n
		}
	}
	j := i
	c, width := classAt(s, j)
	if s[i] == ' ' {
		if after, w := classAt(s, i+1); w > 0 && after&space == 0 {
			j, c, width = i+1, after, w
		}
	}
	switch {
	case c&letter != 0:
		return skip(s, j+width, letter)
	case c&number != 0:
		return skip(s, j+width, number)
	case c&space == 0:
		return skipNot(s, j+width, space|letter|number)
	}
	return scanSpace(s, i)
}

// scanLlama3 is llama3Pattern, and qwen2Pattern if maxDigits is 1.
func scanLlama3(s string, i, maxDigits int) int {
	if s[i] == '\'' {
		if n := foldedContraction(s[i:]); n > 0 {
			return i + n
		}
	}
	c, width := classAt(s, i)
	j := i + width
	if c&letter != 0 {
		return skip(s, j, letter)
	}
	if c&number != 0 {
		return skipDigits(s, j, maxDigits-1)
	}
	after, afterWidth := classAt(s, j)
	if c&newline == 0 && after&letter != 0 {
		return skip(s, j+afterWidth, letter)
	}
	if end := scanSymbols(s, i, c, width); end > i {
		return skipNewlines(s, end)
	}
	return scanSpaceLines(s, i)
}

// scanO200k is o200kPattern.
func scanO200k(s string, i int) int {
	c, width := classAt(s, i)
	j := i + width
	prefix := c&(newline|letter|number) == 0
	end := -1
	if prefix {
		end = scanCamel(s, j)
	}
	if end < 0 {
		end = scanCamel(s, i)
	}
	if end < 0 && prefix {
		end = scanCapitals(s, j)
	}
	if end < 0 {
		end = scanCapitals(s, i)
	}
	if end >= 0 {
		if end < len(s) && s[end] == '\'' {
			end += foldedContraction(s[end:])
		}
		return end
	}
	if c&number != 0 {
		return skipDigits(s, j, 2)
	}
	if end := scanSymbols(s, i, c, width); end > i {
		for end < len(s) && (s[end] == '\r' || s[end] == '\n' || s[end] == '/') {
			end++
		}
		return end
	}
	return scanSpaceLines(s, i)
}

// scanCamel returns the end of [\p{Lu}…]*[\p{Ll}…]+ at s[i:], or -1. Characters
// of both classes go to the first part, as many as leave one for the second.
func scanCamel(s string, i int) int {
	lastLower := -1
	for {
		c, width := classAt(s, i)
		if c&upper == 0 {
			break
		}
		i += width
		if c&lower != 0 {
			lastLower = i
		}
	}
	if end := skip(s, i, lower); end > i {
		return end
	}
	return lastLower
}

// scanCapitals returns the end of [\p{Lu}…]+[\p{Ll}…]* at s[i:], or -1.
func scanCapitals(s string, i int) int {
	end := skip(s, i, upper)
	if end == i {
		return -1
	}
	return skip(s, end, lower)
}

// scanSymbols returns the end of ` ?[^\s\p{L}\p{N}]+` at s[i:], or i. The
// character there has class c and the given width.
func scanSymbols(s string, i int, c class, width int) int {
	const not = space | letter | number
	if s[i] == ' ' {
		c, width = classAt(s, i+1)
		if width == 0 || c&not != 0 {
			return i
		}
		return skipNot(s, i+1+width, not)
	}
	if c&not != 0 {
		return i
	}
	return skipNot(s, i+width, not)
}

// skipDigits skips at most n numbers.
func skipDigits(s string, i, n int) int {
	for range n {
		c, width := classAt(s, i)
		if c&number == 0 {
			break
		}
		i += width
	}
	return i
}

// scanSpace returns the end of `\s+(?!\S)|\s+` at s[i:], which begins with
// white space: all of it if the text ends there or it is one character, else
// all but the last, which goes to the word that follows.
func scanSpace(s string, i int) int {
	end, last, _ := spaceRun(s, i)
	if end == len(s) || last == i {
		return end
	}
	return last
}

// scanSpaceLines returns the end of `\s*[\r\n]+|\s+(?!\S)|\s+` at s[i:], which
// begins with white space: up to the last line break if it has one.
func scanSpaceLines(s string, i int) int {
	end, last, afterLine := spaceRun(s, i)
	if afterLine > i {
		return afterLine
	}
	if end == len(s) || last == i {
		return end
	}
	return last
}

// spaceRun returns the end of the white space at s[i:], where its last
// character begins, and the end of its last line break, or i.
func spaceRun(s string, i int) (end, last, afterLine int) {
	end, last, afterLine = i, i, i
	for {
		c, width := classAt(s, end)
		if c&space == 0 {
			return end, last, afterLine
		}
		last = end
		end += width
		if s[last] == '\n' || s[last] == '\r' {
			afterLine = end
		}
	}
}

// contraction returns the length of 's|'t|'re|'ve|'m|'ll|'d at the start of s,
// which begins with the apostrophe, or 0.
func contraction(s string) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v', 'l':
		if len(s) > 2 && (s[1] == 'l' && s[2] == 'l' || s[1] != 'l' && s[2] == 'e') {
			return 3
		}
	}
	return 0
}

// foldedContraction is contraction in any case. U+017F, the long s, folds to s.
func foldedContraction(s string) int {
	if strings.HasPrefix(s[1:], "ſ") {
		return 1 + len("ſ")
	}
	lowered := [3]byte{'\''}
	n := 1
	for n < min(len(s), len(lowered)) {
		lowered[n] = s[n]
		if 'A' <= s[n] && s[n] <= 'Z' {
			lowered[n] += 'a' - 'A'
		}
		n++
	}
	return contraction(string(lowered[:n]))
}
