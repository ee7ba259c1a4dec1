package jinja

import (
	"math/big"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The lexer follows Jinja's: text up to the next {% {{ or {#, then the tokens
// inside. It applies transformers' settings: trim_blocks drops one newline
// after a block, lstrip_blocks the blanks before it, and the template's single
// last newline is dropped.

type tokenType byte

const (
	tokEOF tokenType = iota
	tokData
	tokVariableBegin
	tokVariableEnd
	tokBlockBegin
	tokBlockEnd
	tokName
	tokString
	tokInteger
	tokFloat
	tokOperator
)

type token struct {
	typ  tokenType
	line int
	text string // data, name, operator, or a string's value
	num  Value  // of an integer or float
}

// describe names a token as Jinja's messages do.
func (t token) describe() string {
	switch t.typ {
	case tokEOF:
		return "end of template"
	case tokData:
		return "template data / text"
	case tokVariableBegin:
		return "begin of print statement"
	case tokVariableEnd:
		return "end of print statement"
	case tokBlockBegin:
		return "begin of statement block"
	case tokBlockEnd:
		return "end of statement block"
	case tokString:
		return "string"
	case tokInteger:
		return "integer"
	case tokFloat:
		return "float"
	}
	return t.text
}

type lexer struct {
	src      string
	pos      int
	newlines []int // byte offsets of "\n" in src
	tokens   []token
	brackets []byte // closers that are due
}

// tokenize splits a template into tokens, tokEOF last.
func tokenize(source string) ([]token, error) {
	if !utf8.ValidString(source) {
		return nil, errf(KindSyntax, "the template is not valid UTF-8")
	}
	source = strings.ReplaceAll(source, "\r\n", "\n")
	source = strings.ReplaceAll(source, "\r", "\n")
	source = strings.TrimSuffix(source, "\n")
	lx := &lexer{src: source}
	for i := range len(source) {
		if source[i] == '\n' {
			lx.newlines = append(lx.newlines, i)
		}
	}
	for lx.pos < len(lx.src) {
		if err := lx.root(); err != nil {
			return nil, err
		}
	}
	lx.emit(tokEOF, len(lx.src), "")
	return lx.tokens, nil
}

// line returns the 1-based line of a byte offset.
func (lx *lexer) line(pos int) int { return 1 + sort.SearchInts(lx.newlines, pos) }

func (lx *lexer) emit(typ tokenType, pos int, text string) {
	lx.tokens = append(lx.tokens, token{typ: typ, line: lx.line(pos), text: text})
}

func (lx *lexer) fail(pos int, format string, args ...any) error {
	return at(lx.line(pos), errf(KindSyntax, format, args...))
}

// root reads text and the tag that ends it.
func (lx *lexer) root() error {
	start := lx.pos
	open := nextTag(lx.src, start)
	if open < 0 {
		lx.data(start, len(lx.src))
		lx.pos = len(lx.src)
		return nil
	}
	kind := lx.src[open+1]
	sign, body := byte(0), open+2
	if body < len(lx.src) && (lx.src[body] == '-' || lx.src[body] == '+') {
		sign = lx.src[body]
		body++
	}
	lx.data(start, lx.textEnd(start, open, sign, kind != '{'))
	if kind == '%' {
		if after, ok := rawBegin(lx.src, body); ok {
			return lx.raw(open, after)
		}
	}
	lx.pos = body
	switch kind {
	case '#':
		return lx.comment(open)
	case '{':
		lx.emit(tokVariableBegin, open, "")
		return lx.tag(open, false)
	default:
		lx.emit(tokBlockBegin, open, "")
		return lx.tag(open, true)
	}
}

func nextTag(s string, from int) int {
	for i := from; ; i++ {
		n := strings.IndexByte(s[i:], '{')
		if n < 0 || i+n+1 >= len(s) {
			return -1
		}
		i += n
		if c := s[i+1]; c == '%' || c == '{' || c == '#' {
			return i
		}
	}
}

// textEnd is where the text before a tag ends: before its blanks if the tag
// opens with "-", or if lstrip_blocks applies (lstrip: not for {{) and only
// blanks stand between the line's start and the tag.
func (lx *lexer) textEnd(start, open int, sign byte, lstrip bool) int {
	text := lx.src[start:open]
	if sign == '-' {
		return start + len(strings.TrimRightFunc(text, isSpace))
	}
	if sign == '+' || !lstrip {
		return open
	}
	lineStart := strings.LastIndexByte(text, '\n') + 1
	if lineStart == 0 && start > 0 && lx.src[start-1] != '\n' {
		return open
	}
	if strings.TrimLeftFunc(text[lineStart:], isSpace) == "" {
		return start + lineStart
	}
	return open
}

func (lx *lexer) data(from, to int) {
	if from < to {
		lx.emit(tokData, from, lx.src[from:to])
	}
}

// rawBegin matches the rest of "{% raw %}" after its sign.
func rawBegin(s string, i int) (after int, ok bool) {
	i = skipSpace(s, i)
	if !strings.HasPrefix(s[i:], "raw") {
		return 0, false
	}
	i = skipSpace(s, i+len("raw"))
	if strings.HasPrefix(s[i:], "-%}") {
		return skipSpace(s, i+3), true
	}
	return i + 2, strings.HasPrefix(s[i:], "%}")
}

// raw copies everything up to {% endraw %}.
func (lx *lexer) raw(open, start int) error {
	for i := start; ; i++ {
		n := strings.Index(lx.src[i:], "{%")
		if n < 0 && start < len(lx.src) {
			return lx.fail(open, "Missing end of raw directive")
		}
		if n < 0 { // Jinja does not mind if nothing follows at all
			lx.pos = start
			return nil
		}
		i += n
		sign, body := byte(0), i+2
		if body < len(lx.src) && (lx.src[body] == '-' || lx.src[body] == '+') {
			sign = lx.src[body]
			body++
		}
		body = skipSpace(lx.src, body)
		if !strings.HasPrefix(lx.src[body:], "endraw") {
			continue
		}
		after, ok := blockEnd(lx.src, skipSpace(lx.src, body+len("endraw")))
		if !ok {
			continue
		}
		lx.data(start, lx.textEnd(start, i, sign, true))
		lx.pos = after
		return nil
	}
}

func (lx *lexer) comment(open int) error {
	if lx.pos == len(lx.src) {
		return nil // Jinja does not mind if nothing follows at all
	}
	n := strings.Index(lx.src[lx.pos:], "#}")
	if n < 0 {
		return lx.fail(open, "Missing end of comment tag")
	}
	end := lx.pos + n
	sign := byte(0)
	if n > 0 {
		sign = lx.src[end-1]
	}
	lx.pos = afterTag(lx.src, end+2, sign)
	return nil
}

// afterTag applies the closing sign of a block or comment.
func afterTag(s string, i int, sign byte) int {
	switch {
	case sign == '-':
		return skipSpace(s, i)
	case sign != '+' && i < len(s) && s[i] == '\n':
		return i + 1 // trim_blocks
	}
	return i
}

// blockEnd matches "%}", "-%}" or "+%}" at i and what it strips.
func blockEnd(s string, i int) (after int, ok bool) {
	sign := byte(0)
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		sign = s[i]
		i++
	}
	if !strings.HasPrefix(s[i:], "%}") {
		return 0, false
	}
	return afterTag(s, i+2, sign), true
}

func variableEnd(s string, i int) (after int, ok bool) {
	if strings.HasPrefix(s[i:], "-}}") {
		return skipSpace(s, i+3), true
	}
	return i + 2, strings.HasPrefix(s[i:], "}}")
}

// tag reads the tokens of a block or print statement up to its end.
func (lx *lexer) tag(open int, block bool) error {
	for lx.pos < len(lx.src) {
		if len(lx.brackets) == 0 {
			end, typ := variableEnd, tokVariableEnd
			if block {
				end, typ = blockEnd, tokBlockEnd
			}
			if after, ok := end(lx.src, lx.pos); ok {
				lx.emit(typ, lx.pos, "")
				lx.pos = after
				return nil
			}
		}
		if after := skipSpace(lx.src, lx.pos); after > lx.pos {
			lx.pos = after
			continue
		}
		if err := lx.token(); err != nil {
			return err
		}
	}
	return nil // the parser meets tokEOF and says what it was looking for
}

func (lx *lexer) token() error {
	c, size := utf8.DecodeRuneInString(lx.src[lx.pos:])
	switch {
	case c >= '0' && c <= '9':
		return lx.number()
	case isNameRune(c):
		return lx.name()
	case c == '"' || c == '\'':
		return lx.str(byte(c))
	}
	op := lx.src[lx.pos : lx.pos+size]
	switch two := lx.src[lx.pos:min(lx.pos+2, len(lx.src))]; two {
	case "//", "**", "==", "!=", ">=", "<=":
		op = two
	default:
		if !strings.Contains("+-/*%~[](){}<>=.:|,;", op) {
			return lx.fail(lx.pos, "unexpected char %s at %d", quote(op), lx.pos)
		}
	}
	if err := lx.balance(op); err != nil {
		return err
	}
	lx.emit(tokOperator, lx.pos, op)
	lx.pos += len(op)
	return nil
}

// maxBrackets bounds nesting: Python's own parser gives up near 100 as well.
const maxBrackets = 100

func (lx *lexer) balance(op string) error {
	switch op {
	case "(":
		lx.brackets = append(lx.brackets, ')')
	case "[":
		lx.brackets = append(lx.brackets, ']')
	case "{":
		lx.brackets = append(lx.brackets, '}')
	case ")", "]", "}":
		if len(lx.brackets) == 0 {
			return lx.fail(lx.pos, "unexpected '%s'", op)
		}
		last := lx.brackets[len(lx.brackets)-1]
		lx.brackets = lx.brackets[:len(lx.brackets)-1]
		if op[0] != last {
			return lx.fail(lx.pos, "unexpected '%s', expected '%c'", op, last)
		}
	}
	if len(lx.brackets) > maxBrackets {
		return lx.fail(lx.pos, "brackets nested deeper than %d", maxBrackets)
	}
	return nil
}

func (lx *lexer) name() error {
	start := lx.pos
	for lx.pos < len(lx.src) {
		c, size := utf8.DecodeRuneInString(lx.src[lx.pos:])
		if !isNameRune(c) {
			break
		}
		lx.pos += size
	}
	name := lx.src[start:lx.pos]
	for i, c := range name {
		if c != '_' && !unicode.IsLetter(c) && !unicode.Is(unicode.Nl, c) && (i == 0 || !unicode.Is(unicode.Nd, c)) {
			return lx.fail(start, "Invalid character in identifier")
		}
	}
	lx.emit(tokName, start, name)
	return nil
}

// isNameRune is \w of Python's re.
func isNameRune(c rune) bool {
	return c == '_' || unicode.IsLetter(c) || unicode.IsNumber(c)
}

// number reads an integer or a float in Python's spelling, underscores included.
func (lx *lexer) number() error {
	start, s := lx.pos, lx.src
	if n := floatLen(s[start:]); n > 0 && (start == 0 || s[start-1] != '.') {
		lx.pos += n
		f, err := strconv.ParseFloat(strings.ReplaceAll(s[start:lx.pos], "_", ""), 64)
		if err != nil && f == 0 {
			return lx.fail(start, "invalid number %s", s[start:lx.pos])
		}
		lx.emit(tokFloat, start, s[start:lx.pos])
		lx.tokens[len(lx.tokens)-1].num = Float(f)
		return nil
	}
	n := integerLen(s[start:])
	lx.pos += n
	text := strings.ReplaceAll(s[start:lx.pos], "_", "")
	z, ok := new(big.Int).SetString(text, 0)
	if !ok || len(text) > maxIntDigits {
		return lx.fail(start, "Exceeds the limit (%d digits) for integer string conversion", maxIntDigits)
	}
	v, err := normInt(z)
	if err != nil {
		return at(lx.line(start), err)
	}
	lx.emit(tokInteger, start, text)
	lx.tokens[len(lx.tokens)-1].num = v
	return nil
}

// digits is how much of s matches d(_?d)*.
func digits(s string, isDigit func(byte) bool) int {
	i := 0
	for i < len(s) && (isDigit(s[i]) || s[i] == '_' && i > 0 && s[i-1] != '_' && i+1 < len(s) && isDigit(s[i+1])) {
		i++
	}
	return i
}

func isDecimal(c byte) bool { return c >= '0' && c <= '9' }

func floatLen(s string) int {
	i := digits(s, isDecimal)
	isFloat := false
	if i < len(s) && s[i] == '.' {
		if n := digits(s[i+1:], isDecimal); n > 0 {
			i += 1 + n
			isFloat = true
		}
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		j := i + 1
		if j < len(s) && (s[j] == '+' || s[j] == '-') {
			j++
		}
		if n := digits(s[j:], isDecimal); n > 0 {
			return j + n
		}
	}
	if !isFloat {
		return 0
	}
	return i
}

func integerLen(s string) int {
	prefixed := func(isDigit func(byte) bool) int {
		rest := strings.TrimPrefix(s[2:], "_")
		if n := digits(rest, isDigit); n > 0 {
			return len(s) - len(rest) + n
		}
		return 1
	}
	if s[0] != '0' {
		return digits(s, isDecimal)
	}
	if len(s) > 2 {
		switch s[1] | 0x20 {
		case 'b':
			return prefixed(func(c byte) bool { return c == '0' || c == '1' })
		case 'o':
			return prefixed(func(c byte) bool { return c >= '0' && c <= '7' })
		case 'x':
			return prefixed(func(c byte) bool { return isDecimal(c) || c|0x20 >= 'a' && c|0x20 <= 'f' })
		}
	}
	return digits(s, func(c byte) bool { return c == '0' })
}

func (lx *lexer) str(q byte) error {
	start := lx.pos
	for i := start + 1; i < len(lx.src); i++ {
		switch lx.src[i] {
		case '\\':
			i++
		case q:
			text, err := unescape(lx.src[start+1 : i])
			if err != nil {
				return at(lx.line(start), err)
			}
			lx.emit(tokString, start, text)
			lx.pos = i + 1
			return nil
		}
	}
	return lx.fail(start, "unexpected char %s at %d", quote(string(q)), start)
}

// unescape decodes Python's string escapes as Jinja does.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b = append(b, s[i])
			continue
		}
		i++
		c := s[i]
		if n := strings.IndexByte(`abfnrtv\'"`, c); n >= 0 {
			b = append(b, "\a\b\f\n\r\t\v\\'\""[n])
			continue
		}
		switch {
		case c == '\n': // a continued line
		case c >= '0' && c <= '7':
			n := 1
			for n < 3 && i+n < len(s) && s[i+n] >= '0' && s[i+n] <= '7' {
				n++
			}
			v, _ := strconv.ParseUint(s[i:i+n], 8, 32)
			b = utf8.AppendRune(b, rune(v))
			i += n - 1
		case c == 'x' || c == 'u' || c == 'U':
			n := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
			v, err := strconv.ParseUint(s[i+1:min(i+1+n, len(s))], 16, 32)
			if err != nil || i+1+n > len(s) {
				return "", errf(KindSyntax, "truncated \\%c escape", c)
			}
			if !utf8.ValidRune(rune(v)) || v > unicode.MaxRune {
				return "", errf(KindSyntax, "illegal Unicode character \\%s", s[i:i+1+n])
			}
			b = utf8.AppendRune(b, rune(v))
			i += n
		case c == 'N':
			return "", errf(KindUnsupported, `\N{...} character names are not supported: write \u or the character itself`)
		case c >= utf8.RuneSelf:
			// Jinja turns the character into an escape of its own before it
			// decodes, so the backslash escapes that escape's backslash.
			r, size := utf8.DecodeRuneInString(s[i:])
			b = appendEscape(b, r)
			i += size - 1
		default: // an unknown escape stays
			b = append(b, '\\', c)
		}
	}
	return string(b), nil
}

// isSpace is Python's str.isspace for one code point.
func isSpace(c rune) bool {
	return unicode.IsSpace(c) || c >= 0x1c && c <= 0x1f
}

func skipSpace(s string, i int) int {
	return len(s) - len(strings.TrimLeftFunc(s[i:], isSpace))
}
