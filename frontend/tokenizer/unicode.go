package tokenizer

import "unicode/utf8"

// What pre-tokenizers ask about a character, from the tables of tables.go:
// Unicode 16.0, which Hugging Face tokenizers 0.23 uses, and not the version
// of Go's unicode package. A new Unicode version turns unassigned code points
// into letters and so moves token boundaries.

//go:generate sh -c "python3 unicodegen/gen.py | gofmt > tables.go"

// category is a Unicode general category, or a part of one where a property
// that matters splits it (see unicodegen/gen.py).
type category byte

// categoryOf returns the category of r, which must be at most utf8.MaxRune.
func categoryOf(r rune) category {
	block := int(categoryIndex[r>>8])
	return category(categoryBlocks[block<<8|int(r&0xff)])
}

// class is a set of the properties that the scanners test.
type class uint8

const (
	letter  class = 1 << iota // \p{L}
	number                    // \p{N}
	space                     // \s
	newline                   // \r and \n
	upper                     // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
	lower                     // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
)

// classOfCategory maps a category to the classes of its characters.
var classOfCategory = [256]class{
	catLu:      letter | upper,
	catLl:      letter | lower,
	catLt:      letter | upper,
	catLm:      letter | upper | lower,
	catLo:      letter | upper | lower,
	catMn:      upper | lower,
	catMc:      upper | lower,
	catMe:      upper | lower,
	catNd:      number,
	catNl:      number,
	catNo:      number,
	catZs:      space,
	catZl:      space,
	catZp:      space,
	catCcSpace: space,
}

// asciiClass holds the classes of the ASCII characters, for speed and for
// newline, which is no category.
var asciiClass = func() (table [utf8.RuneSelf]class) {
	for r := range table {
		table[r] = classOfCategory[categoryOf(rune(r))]
	}
	table['\n'] |= newline
	table['\r'] |= newline
	return table
}()

// classAt returns the classes and the width in bytes of the character at s[i:];
// both are 0 at the end. A byte that is not UTF-8 is one character of no class.
func classAt(s string, i int) (class, int) {
	if i >= len(s) {
		return 0, 0
	}
	if b := s[i]; b < utf8.RuneSelf {
		return asciiClass[b], 1
	}
	r, width := utf8.DecodeRuneInString(s[i:])
	return classOfCategory[categoryOf(r)], width
}

// skip returns the end of the run of characters with a class of mask at s[i:].
func skip(s string, i int, mask class) int {
	for i < len(s) {
		if b := s[i]; b < utf8.RuneSelf {
			if asciiClass[b]&mask == 0 {
				break
			}
			i++
			continue
		}
		c, width := classAt(s, i)
		if c&mask == 0 {
			break
		}
		i += width
	}
	return i
}

// skipNot returns the end of the run of characters without a class of mask at
// s[i:].
func skipNot(s string, i int, mask class) int {
	for i < len(s) {
		c, width := classAt(s, i)
		if c&mask != 0 {
			break
		}
		i += width
	}
	return i
}

// skipNewlines returns the end of the run of \r and \n at s[i:].
func skipNewlines(s string, i int) int {
	for i < len(s) && (s[i] == '\r' || s[i] == '\n') {
		i++
	}
	return i
}

// isNumeric is Rust's char::is_numeric, which is of Unicode 17.0.
func isNumeric(r rune) bool {
	c := categoryOf(r)
	return classOfCategory[c]&number != 0 || c == catCnNumeric
}

// isSpace reports whether r has the property White_Space.
func isSpace(r rune) bool { return classOfCategory[categoryOf(r)]&space != 0 }

// isWord is \w of Rust's regex crate: alphabetic characters, marks, decimal
// digits, connectors and joiners.
func isWord(r rune) bool {
	switch c := categoryOf(r); c {
	case catNd, catNl, catPc, catMn, catMc, catMe, catSoAlpha, catCfJoin:
		return true
	default:
		return classOfCategory[c]&letter != 0
	}
}

// isPunctuation reports whether r is one of !"#$%&'()*+,-./:;<=>?@[\]^_`{|}~ or
// in the category P of Unicode 8.0, as BertPreTokenizer and Punctuation ask.
func isPunctuation(r rune) bool {
	if r < utf8.RuneSelf {
		return r > ' ' && r < 0x7F && asciiClass[r]&(letter|number) == 0
	}
	return punctuation8.contains(r)
}
