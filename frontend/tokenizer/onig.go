package tokenizer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Split patterns are regular expressions of Oniguruma (Ruby's engine), with
// look-ahead, which Go's regexp lacks. regexp2 has it, but speaks .NET's
// dialect with the Unicode data of the Go release. onigToRegexp2 bridges the
// gap: it rewrites a pattern so that both engines mean the same, character
// classes as explicit ranges of our own tables, and refuses by name what it
// does not know to mean the same.

// onigToRegexp2 translates a pattern, or returns an error that wraps
// ErrUnsupported.
func onigToRegexp2(pattern string) (string, error) {
	p := onigParser{src: pattern}
	if !utf8.ValidString(pattern) {
		return "", p.unsupported("bytes that are not UTF-8")
	}
	if err := p.alternatives(false); err != nil {
		return "", err
	}
	if p.pos < len(p.src) {
		return "", p.unsupported("an unmatched )")
	}
	return p.out.String(), nil
}

// onigParser is a recursive descent over the pattern that writes as it reads.
type onigParser struct {
	src   string
	pos   int
	out   strings.Builder
	depth int // of groups and sets
}

// maxOnigDepth bounds recursion.
const maxOnigDepth = 100

func (p *onigParser) unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s at %d in the pattern %q", ErrUnsupported, fmt.Sprintf(format, args...), p.pos, p.src)
}

// take consumes prefix if it is next.
func (p *onigParser) take(prefix string) bool {
	if strings.HasPrefix(p.src[p.pos:], prefix) {
		p.pos += len(prefix)
		return true
	}
	return false
}

// peek returns the next byte, or 0 at the end.
func (p *onigParser) peek() byte {
	if p.pos == len(p.src) {
		return 0
	}
	return p.src[p.pos]
}

// next consumes a character; there must be one.
func (p *onigParser) next() rune {
	r, width := utf8.DecodeRuneInString(p.src[p.pos:])
	p.pos += width
	return r
}

// alternatives translates up to the end of the pattern or the ) of its group.
// Under fold, (?i:…), letters match in any case.
func (p *onigParser) alternatives(fold bool) error {
	if p.depth++; p.depth > maxOnigDepth {
		return p.unsupported("nesting deeper than %d", maxOnigDepth)
	}
	defer func() { p.depth-- }()
	previous := rune(0) // the folded letter right before, or 0
	for p.pos < len(p.src) && p.peek() != ')' {
		if p.take("|") {
			p.out.WriteByte('|')
			previous = 0
			continue
		}
		start := p.out.Len()
		literal, err := p.atom(fold)
		if err != nil {
			return err
		}
		if fold && literal != 0 {
			// Oniguruma folds some pairs to one character: ss to ß, fi to ﬁ.
			if slices.Contains([]string{"ss", "st", "ff", "fi", "fl"}, string([]rune{previous, literal})) {
				return p.unsupported("%c%c in any case", previous, literal)
			}
		}
		previous = literal
		if err := p.quantifier(start); err != nil {
			return err
		}
	}
	return nil
}

// atom translates one character, set, escape or group. It returns the
// character, lowered, if it is one under fold.
func (p *onigParser) atom(fold bool) (literal rune, err error) {
	switch c := p.next(); c {
	case '(':
		return 0, p.group(fold)
	case '[':
		set, err := p.set(fold)
		if err != nil {
			return 0, err
		}
		p.writeSet(set)
		return 0, nil
	case '.':
		p.out.WriteByte('.') // anything but \n, in both engines
		return 0, nil
	case '\\':
		set, err := p.escape()
		if err != nil {
			return 0, err
		}
		return p.writeAtom(set, fold)
	case '^', '$', '*', '+', '?', '{':
		p.pos--
		return 0, p.unsupported("%c here", c)
	default:
		return p.writeAtom(runeSet{{c, c}}, fold)
	}
}

// writeAtom writes a set, of one character or more, in any case under fold.
func (p *onigParser) writeAtom(set runeSet, fold bool) (literal rune, err error) {
	if fold {
		if set, err = p.foldSet(set); err != nil {
			return 0, err
		}
		for _, r := range set {
			if 'a' <= r.lo && r.lo <= 'z' {
				literal = r.lo
			}
		}
	}
	p.writeSet(set)
	return literal, nil
}

// foldSet adds the other cases of a set's letters, which must be ASCII.
func (p *onigParser) foldSet(set runeSet) (runeSet, error) {
	out := slices.Clone(set)
	for _, run := range set {
		if run.hi >= utf8.RuneSelf {
			return nil, p.unsupported("characters beyond ASCII in any case")
		}
		for r := run.lo; r <= run.hi; r++ {
			switch lowered := r | 0x20; {
			case lowered < 'a' || lowered > 'z':
				continue
			case lowered == 's':
				out = append(out, runeRange{'ſ', 'ſ'})
			case lowered == 'k':
				out = append(out, runeRange{'\u212A', '\u212A'}) // the Kelvin sign
			}
			out = append(out, runeRange{r ^ 0x20, r ^ 0x20})
		}
	}
	return out.canonical(), nil
}

// group translates a group after its opening parenthesis. Nothing refers back
// to a group, so none captures.
func (p *onigParser) group(fold bool) error {
	open := "(?:"
	switch {
	case p.take("?:"):
	case fold:
		return p.unsupported("a group within (?i:")
	case p.take("?i:"):
		fold = true
	case p.take("?="):
		open = "(?="
	case p.take("?!"):
		open = "(?!"
	case p.take("?<="):
		open = "(?<="
	case p.take("?<!"):
		open = "(?<!"
	case p.take("?>"):
		open = "(?>"
	case p.peek() == '?':
		return p.unsupported("this kind of group")
	}
	p.out.WriteString(open)
	if err := p.alternatives(fold); err != nil {
		return err
	}
	if !p.take(")") {
		return p.unsupported("a group without its )")
	}
	p.out.WriteByte(')')
	return nil
}

// quantifier translates the quantifier, if any, of the atom written at start.
func (p *onigParser) quantifier(start int) error {
	interval := false
	switch {
	case p.take("*"):
		p.out.WriteByte('*')
	case p.take("+"):
		p.out.WriteByte('+')
	case p.take("?"):
		p.out.WriteByte('?')
	case p.peek() == '{':
		interval = true
		if err := p.interval(); err != nil {
			return err
		}
	default:
		return nil
	}
	switch {
	case !interval && p.take("+"): // possessive
		p.wrap(start, "(?>", ")")
	case interval && p.take("+"): // not possessive after an interval
		p.wrap(start, "(?:", ")+")
	case !interval && p.take("?"):
		p.out.WriteByte('?')
	}
	switch c := p.peek(); c {
	case '*', '+', '?', '{':
		return p.unsupported("a second quantifier %c", c)
	}
	return nil
}

// wrap puts what is written since start between open and end.
func (p *onigParser) wrap(start int, open, end string) {
	written := p.out.String()
	p.out.Reset()
	p.out.WriteString(written[:start] + open + written[start:] + end)
}

// interval translates {n}, {n,}, {n,m} or {,m}.
func (p *onigParser) interval() error {
	body, _, found := strings.Cut(p.src[p.pos+1:], "}")
	low, high, ranged := strings.Cut(body, ",")
	if ranged && low == "" && high != "" {
		low = "0"
	}
	valid := func(s string) bool { n, err := strconv.ParseUint(s, 10, 16); return err == nil && n <= 1000 }
	if !found || !valid(low) || high != "" && !valid(high) {
		return p.unsupported("this use of {")
	}
	p.pos += len("{}") + len(body)
	p.out.WriteString("{" + low)
	if ranged {
		p.out.WriteString("," + high)
	}
	p.out.WriteByte('}')
	return nil
}

// set reads a bracketed set after its [: ranges, escapes, nested sets, which
// are united, and &&, which intersects all before with all after it.
func (p *onigParser) set(fold bool) (runeSet, error) {
	if p.depth++; p.depth > maxOnigDepth {
		return nil, p.unsupported("nesting deeper than %d", maxOnigDepth)
	}
	defer func() { p.depth-- }()
	negated := p.take("^")
	var set runeSet
	intersection := runeSet{{0, utf8.MaxRune}}
	for first := true; ; first = false {
		switch {
		case p.pos == len(p.src):
			return nil, p.unsupported("a set without its ]")
		case p.take("]"):
			if first {
				return nil, p.unsupported("] first in a set")
			}
			set = set.intersect(intersection)
			if fold {
				var err error
				if set, err = p.foldSet(set); err != nil {
					return nil, err
				}
			}
			if negated {
				set = set.negate()
			}
			return set, nil
		case p.take("&&"):
			intersection = intersection.intersect(set)
			set = nil
		default:
			item, err := p.setItem()
			if err != nil {
				return nil, err
			}
			set = set.union(item)
		}
	}
}

// setItem reads a character, a range, an escape or a nested set.
func (p *onigParser) setItem() (runeSet, error) {
	if p.take("[") {
		if p.peek() == ':' {
			return nil, p.unsupported("a POSIX bracket")
		}
		return p.set(false)
	}
	low, err := p.setAtom()
	if err != nil {
		return nil, err
	}
	if len(low) != 1 || low[0].lo != low[0].hi || p.peek() != '-' || strings.HasPrefix(p.src[p.pos:], "-]") {
		return low, nil
	}
	p.pos++
	if p.peek() == '[' || p.pos == len(p.src) {
		return nil, p.unsupported("- here in a set")
	}
	high, err := p.setAtom()
	if err != nil {
		return nil, err
	}
	if len(high) != 1 || high[0].lo != high[0].hi || high[0].lo < low[0].lo {
		return nil, p.unsupported("this range in a set")
	}
	return runeSet{{low[0].lo, high[0].lo}}, nil
}

// setAtom reads one character or escape of a set.
func (p *onigParser) setAtom() (runeSet, error) {
	switch c := p.next(); c {
	case '\\':
		return p.escape()
	default:
		return runeSet{{c, c}}, nil
	}
}

// escape reads an escape after its backslash and returns what it matches.
func (p *onigParser) escape() (runeSet, error) {
	if p.pos == len(p.src) {
		return nil, p.unsupported("a backslash at the end")
	}
	one := func(r rune) (runeSet, error) { return runeSet{{r, r}}, nil }
	switch c := p.next(); c {
	case 'n':
		return one('\n')
	case 'r':
		return one('\r')
	case 't':
		return one('\t')
	case 'f':
		return one('\f')
	case 'v':
		return one('\v')
	case 'a':
		return one('\a')
	case 'e':
		return one('\x1b')
	case 's':
		return setOfClass(space), nil
	case 'S':
		return setOfClass(space).negate(), nil
	case 'd':
		return setOfCategories(func(c category) bool { return c == catNd }), nil
	case 'D':
		return setOfCategories(func(c category) bool { return c != catNd }), nil
	case 'w':
		return onigWord(), nil
	case 'W':
		return onigWord().negate(), nil
	case 'p', 'P':
		return p.property(c == 'P')
	case 'x':
		return p.hexadecimal()
	case 'u':
		return p.hexDigits(4)
	default:
		if c >= utf8.RuneSelf || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' {
			return nil, p.unsupported("\\%c", c)
		}
		return one(c)
	}
}

// onigWord is \w of Oniguruma: as Rust's, without joiners, and with the six
// superscripts and fractions of Latin-1.
func onigWord() runeSet {
	word := setOfCategories(func(c category) bool {
		switch c {
		case catNd, catNl, catPc, catMn, catMc, catMe, catSoAlpha:
			return true
		}
		return classOfCategory[c]&letter != 0
	})
	return word.union(runeSet{{'²', '³'}, {'¹', '¹'}, {'¼', '¾'}})
}

// property reads {L}, {^L} and their like: a general category or the letter
// that begins several.
func (p *onigParser) property(negated bool) (runeSet, error) {
	if !p.take("{") {
		return nil, p.unsupported("\\p without {")
	}
	if p.take("^") {
		negated = !negated
	}
	name, _, found := strings.Cut(p.src[p.pos:], "}")
	if !found {
		return nil, p.unsupported("\\p{ without }")
	}
	set := setOfCategories(func(c category) bool {
		real := categoryNames[c]
		return real == name || len(name) == 1 && real[:1] == name
	})
	if set == nil {
		return nil, p.unsupported("\\p{%s}", name)
	}
	p.pos += len(name) + len("}")
	if negated {
		set = set.negate()
	}
	return set, nil
}

// categoryNames are the general categories, ours under the name of the real one.
var categoryNames = [256]string{
	catLu: "Lu", catLl: "Ll", catLt: "Lt", catLm: "Lm", catLo: "Lo",
	catMn: "Mn", catMc: "Mc", catMe: "Me",
	catNd: "Nd", catNl: "Nl", catNo: "No",
	catPc: "Pc", catPd: "Pd", catPs: "Ps", catPe: "Pe", catPi: "Pi", catPf: "Pf", catPo: "Po",
	catSm: "Sm", catSc: "Sc", catSk: "Sk", catSo: "So", catSoAlpha: "So",
	catZs: "Zs", catZl: "Zl", catZp: "Zp",
	catCc: "Cc", catCcSpace: "Cc", catCf: "Cf", catCfJoin: "Cf",
	catCs: "Cs", catCo: "Co", catCn: "Cn", catCnNumeric: "Cn",
}

// hexadecimal reads the rest of \xHH or \x{H…}.
func (p *onigParser) hexadecimal() (runeSet, error) {
	if !p.take("{") {
		return p.hexDigits(2)
	}
	digits := strings.IndexByte(p.src[p.pos:], '}')
	if digits < 1 || digits > 6 {
		return nil, p.unsupported("\\x{ without its digits and }")
	}
	set, err := p.hexDigits(digits)
	p.pos += len("}")
	return set, err
}

// hexDigits reads a character as exactly n hexadecimal digits. Two stand for a
// byte, so above ASCII they are part of a character, which we don't piece together.
func (p *onigParser) hexDigits(n int) (runeSet, error) {
	digits := p.src[p.pos:min(p.pos+n, len(p.src))]
	value, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || len(digits) < n || !utf8.ValidRune(rune(value)) || n == 2 && value >= utf8.RuneSelf {
		return nil, p.unsupported("%q as a character", digits)
	}
	p.pos += n
	return runeSet{{rune(value), rune(value)}}, nil
}

// validRunes are the characters: all code points but the surrogates.
var validRunes = runeSet{{0, 0xD7FF}, {0xE000, utf8.MaxRune}}

// writeSet writes a set as one character or as ranges of characters.
func (p *onigParser) writeSet(set runeSet) {
	set = set.intersect(validRunes)
	switch {
	case len(set) == 0:
		p.out.WriteString("(?!)") // never matches
	case len(set) == 1 && set[0].lo == set[0].hi:
		p.writeRune(set[0].lo)
	default:
		p.out.WriteByte('[')
		for _, r := range set {
			p.writeRune(r.lo)
			if r.lo < r.hi {
				p.out.WriteByte('-')
				p.writeRune(r.hi)
			}
		}
		p.out.WriteByte(']')
	}
}

// writeRune writes a character so that it means itself in and out of a set.
func (p *onigParser) writeRune(r rune) {
	switch {
	case r >= utf8.RuneSelf || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9':
		p.out.WriteRune(r)
	default:
		fmt.Fprintf(&p.out, `\x%02X`, r)
	}
}
