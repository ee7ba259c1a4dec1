package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Python's three ways to format text: "%" with its conversions, str.format
// with its replacement fields, and the format specification both share.

// maxFormatWidth bounds widths and precisions; one beyond it is a mistake.
const maxFormatWidth = 1 << 20

// spec is a format specification: [[fill]align][sign][z][#][0][width][,][.precision][type].
type spec struct {
	fill      string
	align     byte // '<', '>', '=', '^' or 0
	sign      byte // '+', '-', ' ' or 0
	alt       bool // '#'
	zero      bool
	implicit  bool // align comes from zero alone
	width     int
	group     byte // ',' or '_' or 0
	precision int  // -1 if absent
	typ       byte // 0 if absent
}

func parseSpec(s string) (spec, error) {
	f := spec{fill: " ", precision: -1}
	filled := false
	bad := func() (spec, error) { return f, valueErrf("Invalid format specifier %s", quote(s)) }
	rest := s
	if _, n := utf8.DecodeRuneInString(rest); n > 0 && len(rest) > n && strings.IndexByte("<>=^", rest[n]) >= 0 {
		f.fill, f.align, rest = rest[:n], rest[n], rest[n+1:]
		filled = true
	} else if rest != "" && strings.IndexByte("<>=^", rest[0]) >= 0 {
		f.align, rest = rest[0], rest[1:]
	}
	take := func(set string) byte {
		if rest == "" || strings.IndexByte(set, rest[0]) < 0 {
			return 0
		}
		c := rest[0]
		rest = rest[1:]
		return c
	}
	f.sign = take("+- ")
	f.alt = take("#") != 0
	if take("0") != 0 {
		f.zero = true
		if !filled {
			f.fill = "0"
		}
		if f.align == 0 {
			f.align, f.implicit = '=', true
		}
	}
	var ok bool
	if f.width, rest, ok = formatNumber(rest, 0); !ok {
		return bad()
	}
	f.group = take(",_")
	if take(".") != 0 {
		if f.precision, rest, ok = formatNumber(rest, -1); !ok || f.precision < 0 {
			return f, valueErrf("Format specifier missing precision")
		}
	}
	f.typ = take("bcdeEfFgGnosxX%")
	if rest != "" {
		return bad()
	}
	return f, nil
}

// formatNumber reads leading digits; def if there are none.
func formatNumber(s string, def int) (n int, rest string, ok bool) {
	i := 0
	for i < len(s) && isDecimal(s[i]) {
		i++
	}
	if i == 0 {
		return def, s, true
	}
	n, err := strconv.Atoi(s[:i])
	return n, s[i:], err == nil && n <= maxFormatWidth
}

// format is Python's format(v, s).
func (r *run) format(v Value, s string) (string, error) {
	if s == "" {
		return r.str(v)
	}
	switch v.(type) {
	case Str, markup, Int, bigInt, Bool, Float:
	default:
		return "", typeErrf("unsupported format string passed to %s.__format__", v.typeName())
	}
	f, err := parseSpec(s)
	if err != nil {
		return "", err
	}
	if text, ok := asStr(v); ok {
		return r.formatText(text, f)
	}
	return r.formatNumber(v, f)
}

func (r *run) formatText(s string, f spec) (string, error) {
	switch {
	case f.typ != 0 && f.typ != 's':
		return "", valueErrf("Unknown format code '%c' for object of type 'str'", f.typ)
	case f.sign != 0:
		return "", valueErrf("Sign not allowed in string format specifier")
	case f.alt:
		return "", valueErrf("Alternate form (#) not allowed in string format specifier")
	case f.group != 0:
		return "", valueErrf("Cannot specify '%c' with 's'.", f.group)
	}
	if f.align == '=' {
		if !f.implicit {
			return "", valueErrf("'=' alignment not allowed in string format specifier")
		}
		f.align = '<'
	}
	if f.precision >= 0 && utf8.RuneCountInString(s) > f.precision {
		s = s[:runeOffset(s, utf8.RuneCountInString(s), f.precision)]
	}
	return r.pad("", s, f, '<')
}

// pad fills sign+digits up to the width.
func (r *run) pad(sign, body string, f spec, align byte) (string, error) {
	if f.align != 0 {
		align = f.align
	}
	n := f.width - utf8.RuneCountInString(sign) - utf8.RuneCountInString(body)
	if n <= 0 {
		return sign + body, r.charge(len(sign) + len(body))
	}
	if err := r.charge(len(sign) + len(body) + n*len(f.fill)); err != nil {
		return "", err
	}
	fill := strings.Repeat(f.fill, n)
	switch align {
	case '<':
		return sign + body + fill, nil
	case '=':
		return sign + fill + body, nil
	case '^':
		half := n / 2 * len(f.fill)
		return fill[:half] + sign + body + fill[half:], nil
	}
	return fill + sign + body, nil
}

func (r *run) formatNumber(v Value, f spec) (string, error) {
	i, isInt := asInt(v)
	typ := max(f.typ, 1) // no type is no byte of these lists
	if f.group != 0 && strings.IndexByte("\x01deEfFgG%", typ) < 0 && !(f.group == '_' && strings.IndexByte("boxX", typ) >= 0) {
		return "", valueErrf("Cannot specify '%c' with '%c'.", f.group, f.typ)
	}
	if isInt && strings.IndexByte("eEfFgG%", typ) < 0 {
		return r.formatInt(i, f)
	}
	if !isInt && strings.IndexByte("\x01eEfFgGn%", typ) < 0 {
		return "", valueErrf("Unknown format code '%c' for object of type 'float'", f.typ)
	}
	x, _, err := asFloat(v)
	if err != nil {
		return "", err
	}
	return r.formatFloat(x, f)
}

func (r *run) formatInt(v Value, f spec) (string, error) {
	if f.precision >= 0 {
		return "", valueErrf("Precision not allowed in integer format specifier")
	}
	z := toBig(v)
	sign := signText(z.Sign() < 0, f.sign)
	z = new(big.Int).Abs(z)
	base, prefix, every := 10, "", 3
	switch f.typ {
	case 0, 'd', 'n':
	case 'b':
		base, prefix, every = 2, "0b", 4
	case 'o':
		base, prefix, every = 8, "0o", 4
	case 'x', 'X':
		base, prefix, every = 16, "0"+string(f.typ), 4
	case 'c':
		switch {
		case f.sign != 0:
			return "", valueErrf("Sign not allowed with integer format specifier 'c'")
		case f.alt:
			return "", valueErrf("Alternate form (#) not allowed with integer format specifier 'c'")
		}
		if !z.IsInt64() || sign == "-" || !utf8.ValidRune(rune(min(z.Int64(), 1<<30))) {
			return "", valueErrf("%%c arg not in range(0x110000)")
		}
		return r.pad("", string(rune(z.Int64())), f, '>')
	default:
		return "", valueErrf("Unknown format code '%c' for object of type 'int'", f.typ)
	}
	digits := z.Text(base)
	if base == 10 && len(digits) > maxIntDigits {
		_, err := intText(v)
		return "", err
	}
	if f.typ == 'X' {
		digits = strings.ToUpper(digits)
	}
	if f.alt {
		sign += prefix
	}
	return r.pad(sign, groupDigits(digits, f, every, len(sign)), f, '>')
}

func signText(negative bool, sign byte) string {
	switch {
	case negative:
		return "-"
	case sign == '+' || sign == ' ':
		return string(sign)
	}
	return ""
}

// groupDigits inserts the thousands separator, zero padding included.
func groupDigits(s string, f spec, every, signLen int) string {
	if f.group == 0 {
		return s
	}
	digits, tail := s, ""
	if i := strings.IndexFunc(s, func(c rune) bool { return c == '.' || c == 'e' || c == 'E' || c == '%' }); i >= 0 && every == 3 {
		digits, tail = s[:i], s[i:]
	}
	if f.fill == "0" && f.align == '=' {
		n := len(digits)
		for n+(n-1)/every+len(tail)+signLen < f.width {
			n++
		}
		digits = strings.Repeat("0", n-len(digits)) + digits
	}
	var b strings.Builder
	for i := range len(digits) {
		if i > 0 && (len(digits)-i)%every == 0 {
			b.WriteByte(f.group)
		}
		b.WriteByte(digits[i])
	}
	return b.String() + tail
}

func (r *run) formatFloat(x float64, f spec) (string, error) {
	sign := signText(math.Signbit(x) && !math.IsNaN(x), f.sign)
	body, err := floatBody(math.Abs(x), f)
	if err != nil {
		return "", err
	}
	return r.pad(sign, groupDigits(body, f, 3, len(sign)), f, '>')
}

// floatBody writes a float that is not negative.
func floatBody(x float64, f spec) (string, error) {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		s := strings.TrimPrefix(floatRepr(x), "-")
		if f.typ == 'F' || f.typ == 'E' || f.typ == 'G' {
			s = strings.ToUpper(s)
		}
		if f.typ == '%' {
			s += "%"
		}
		return s, nil
	}
	if f.precision > 1100 { // a double has no more digits
		return "", errf(KindLimit, "precision %d exceeds the limit of 1100", f.precision)
	}
	precision := f.precision
	if precision < 0 {
		precision = 6
	}
	switch f.typ {
	case 'f', 'F':
		return point(strconv.FormatFloat(x, 'f', precision, 64), f.alt), nil
	case 'e', 'E':
		return point(strconv.FormatFloat(x, f.typ, precision, 64), f.alt), nil
	case '%':
		return point(strconv.FormatFloat(x*100, 'f', precision, 64), f.alt) + "%", nil
	case 0:
		if f.precision < 0 {
			return point(floatRepr(x), f.alt), nil
		}
		s := generalFloat(x, max(precision, 1), 'e', f.alt, 1)
		if !strings.ContainsAny(s, ".e") {
			s += ".0"
		}
		return s, nil
	}
	exp := byte('e')
	if f.typ == 'G' {
		exp = 'E'
	}
	return generalFloat(x, max(precision, 1), exp, f.alt, 0), nil
}

// point gives a number without a fraction its point, in the alternate form.
func point(s string, alt bool) string {
	if !alt || strings.Contains(s, ".") {
		return s
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		return s[:i] + "." + s[i:]
	}
	return s + "."
}

// generalFloat is C's %g: fixed for exponents in -4..precision-early, else with
// an exponent; trailing zeros go unless alt.
func generalFloat(x float64, precision int, exp byte, alt bool, early int) string {
	s := strconv.FormatFloat(x, 'e', precision-1, 64)
	i := strings.IndexByte(s, 'e')
	e, _ := strconv.Atoi(s[i+1:]) // FormatFloat writes a number there
	mantissa, tail := s[:i], strings.Replace(s[i:], "e", string(exp), 1)
	if e >= -4 && e < precision-early {
		mantissa, tail = strconv.FormatFloat(x, 'f', precision-1-e, 64), ""
	}
	if !alt && strings.Contains(mantissa, ".") {
		mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
	}
	return point(mantissa, alt) + tail
}

// percentFormat is Python's s % v.
func (r *run) percentFormat(s string, v Value) (string, error) {
	p := &percent{run: r, w: &writer{run: r}, values: []Value{v}}
	if t, ok := v.(*tuple); ok {
		p.values = t.items
	}
	p.mapping, _ = v.(*Dict)
	for s != "" {
		i := strings.IndexByte(s, '%')
		if i < 0 {
			i = len(s)
		}
		if err := p.w.write(s[:i]); err != nil {
			return "", err
		}
		if i == len(s) {
			break
		}
		n, err := p.conversion(s[i+1:])
		if err != nil {
			return "", err
		}
		s = s[i+1+n:]
	}
	if p.next < len(p.values) && !mayBeLeft(v) && !p.keyed {
		return "", typeErrf("not all arguments converted during string formatting")
	}
	return p.w.String(), nil
}

// mayBeLeft reports whether a value that "%" does not use is no error: what has
// subscripts might be a mapping.
func mayBeLeft(v Value) bool {
	switch v.(type) {
	case *Dict, *List, *pyRange, *undefined:
		return true
	}
	return false
}

type percent struct {
	run     *run
	w       *writer
	values  []Value
	mapping *Dict
	next    int
	keyed   bool // the value came from the mapping
}

func (p *percent) value() (Value, error) {
	if p.next >= len(p.values) {
		return nil, typeErrf("not enough arguments for format string")
	}
	p.next++
	return p.values[p.next-1], nil
}

// conversion handles what follows a "%" and returns its length.
func (p *percent) conversion(s string) (int, error) {
	i := 0
	var keyed Value
	if strings.HasPrefix(s, "(") {
		if p.mapping == nil {
			return 0, typeErrf("format requires a mapping")
		}
		end := strings.IndexByte(s, ')')
		if end < 0 {
			return 0, valueErrf("incomplete format key")
		}
		v, ok := p.mapping.Get(s[1:end])
		if !ok {
			return 0, valueErrf("%s", quote(s[1:end]))
		}
		keyed, p.keyed = v, true
		i = end + 1
	}
	f := spec{fill: " ", precision: -1, align: '>'}
	for ; i < len(s) && strings.IndexByte("#0- +", s[i]) >= 0; i++ {
		switch s[i] {
		case '#':
			f.alt = true
		case '0':
			f.zero = true
		case '-':
			f.align = '<'
		default:
			if f.sign != '+' {
				f.sign = s[i]
			}
		}
	}
	var err error
	if f.width, i, err = p.size(s, i, 0); err != nil {
		return 0, err
	}
	if f.width < 0 {
		f.width, f.align = -f.width, '<'
	}
	if i < len(s) && s[i] == '.' {
		if f.precision, i, err = p.size(s, i+1, 0); err != nil {
			return 0, err
		}
		f.precision = max(f.precision, 0)
	}
	for i < len(s) && strings.IndexByte("hlL", s[i]) >= 0 {
		i++
	}
	if i >= len(s) {
		return 0, valueErrf("incomplete format")
	}
	c, n := utf8.DecodeRuneInString(s[i:])
	if c == '%' {
		return i + n, p.w.write("%")
	}
	v := keyed
	if v == nil {
		if v, err = p.value(); err != nil {
			return 0, err
		}
	}
	if c >= utf8.RuneSelf {
		return 0, valueErrf("unsupported format character %s", quote(string(c)))
	}
	f.typ = byte(c)
	text, err := p.convert(v, f)
	if err != nil {
		return 0, err
	}
	return i + n, p.w.write(text)
}

// size reads a width or precision at s[i:], "*" taking the next value.
func (p *percent) size(s string, i, def int) (n, next int, err error) {
	if i < len(s) && s[i] == '*' {
		v, err := p.value()
		if err != nil {
			return 0, 0, err
		}
		n, ok := asIndex(v)
		if !ok {
			return 0, 0, typeErrf("* wants int")
		}
		if n > maxFormatWidth || n < -maxFormatWidth {
			return 0, 0, errf(KindLimit, "width %d exceeds the limit of %d", n, maxFormatWidth)
		}
		return n, i + 1, nil
	}
	n, rest, ok := formatNumber(s[i:], def)
	if !ok {
		return 0, 0, errf(KindLimit, "width exceeds the limit of %d", maxFormatWidth)
	}
	return n, len(s) - len(rest), nil
}

func (p *percent) convert(v Value, f spec) (string, error) {
	switch f.typ {
	case 's', 'r', 'a':
		text, err := p.run.repr(v)
		if f.typ == 's' {
			text, err = p.run.str(v)
		} else if f.typ == 'a' {
			text = asciiRepr(text)
		}
		if err != nil {
			return "", err
		}
		f.typ, f.sign, f.alt = 0, 0, false
		if f.align == '>' {
			return p.run.padText(text, f, '>')
		}
		return p.run.padText(text, f, '<')
	case 'c':
		return p.char(v, f)
	case 'd', 'i', 'u':
		return p.integer(v, f, 'd')
	case 'o', 'x', 'X':
		return p.integer(v, f, f.typ)
	case 'e', 'E', 'f', 'F', 'g', 'G':
		x, ok, err := asFloat(v)
		if err != nil {
			return "", err
		}
		if !ok {
			if u, isUndefined := v.(*undefined); isUndefined {
				return "", u.err()
			}
			return "", typeErrf("must be real number, not %s", v.typeName())
		}
		zeroFill(&f)
		return p.run.formatFloat(x, f)
	}
	return "", valueErrf("unsupported format character '%c' (0x%x)", f.typ, f.typ)
}

// padText pads text on one side, cut to the precision.
func (r *run) padText(s string, f spec, align byte) (string, error) {
	f.align, f.zero = align, false
	return r.formatText(s, f)
}

// zeroFill applies "%0": zeros after the sign, unless left-adjusted.
func zeroFill(f *spec) {
	if f.zero && f.align != '<' {
		f.fill, f.align = "0", '='
	}
}

func (p *percent) char(v Value, f spec) (string, error) {
	f.typ, f.precision, f.sign, f.alt = 0, -1, 0, false
	if s, ok := asStr(v); ok && utf8.RuneCountInString(s) == 1 {
		return p.run.padText(s, f, f.align)
	}
	n, ok := asInt(v)
	if !ok {
		return "", typeErrf("%%c requires int or char")
	}
	i, _ := asIndex(n)
	if i < 0 || i > utf8.MaxRune {
		return "", valueErrf("%%c arg not in range(0x110000)")
	}
	return p.run.padText(string(rune(i)), f, f.align)
}

func (p *percent) integer(v Value, f spec, typ byte) (string, error) {
	if x, ok := v.(Float); ok && typ == 'd' {
		i, err := truncFloat(float64(x))
		if err != nil {
			return "", err
		}
		v = i
	}
	i, ok := asInt(v)
	if !ok {
		if u, isUndefined := v.(*undefined); isUndefined && typ == 'd' {
			return "", u.err()
		}
		what := "an integer is required"
		if typ == 'd' {
			what = "a real number is required"
		}
		return "", typeErrf("%%%c format: %s, not %s", typ, what, v.typeName())
	}
	digits := ""
	if f.precision >= 0 { // at least that many digits
		z := new(big.Int).Abs(toBig(i))
		base := map[byte]int{'d': 10, 'o': 8, 'x': 16, 'X': 16}[typ]
		digits = z.Text(base)
		digits = strings.Repeat("0", max(0, f.precision-len(digits))) + digits
		if typ == 'X' {
			digits = strings.ToUpper(digits)
		}
		sign := signText(toBig(i).Sign() < 0, f.sign)
		if f.alt && typ != 'd' {
			sign += "0" + string(typ)
		}
		zeroFill(&f)
		return p.run.pad(sign, digits, f, '>')
	}
	zeroFill(&f)
	f.typ = typ
	return p.run.formatInt(i, f)
}

// asciiRepr escapes what is not ASCII in a repr.
func asciiRepr(s string) string {
	var b []byte
	for _, c := range s {
		if c < utf8.RuneSelf {
			b = append(b, byte(c))
		} else {
			b = appendEscape(b, c)
		}
	}
	return string(b)
}

// truncFloat is Python's int(x).
func truncFloat(x float64) (Value, error) {
	switch {
	case math.IsNaN(x):
		return nil, valueErrf("cannot convert float NaN to integer")
	case math.IsInf(x, 0):
		return nil, &Error{Kind: KindValue, Msg: "cannot convert float infinity to integer"}
	}
	z, _ := big.NewFloat(x).Int(nil)
	return normInt(z)
}

func strFormat(r *run, recv Value, a args) (Value, error) {
	named := NewDict()
	for _, k := range a.kw {
		named.Set(k.name, k.val)
	}
	f := &fieldFormatter{run: r, recv: recv, pos: a.pos, named: named}
	text, err := f.format(strOf(recv), 2)
	return likeText(recv, text), err
}

func strFormatMap(r *run, recv Value, a args) (Value, error) {
	v, err := a.positional("format_map", 1, 1)
	if err != nil {
		return nil, err
	}
	named, ok := v[0].(*Dict)
	if !ok {
		return nil, typeErrf("format_map() argument must be a mapping, not %s", v[0].typeName())
	}
	f := &fieldFormatter{run: r, recv: recv, named: named}
	text, err := f.format(strOf(recv), 2)
	return likeText(recv, text), err
}

// fieldFormatter is the sandbox's string.Formatter.
type fieldFormatter struct {
	run    *run
	recv   Value
	pos    []Value
	named  *Dict
	auto   int
	manual bool
}

func (f *fieldFormatter) format(s string, depth int) (string, error) {
	if depth < 0 {
		return "", valueErrf("Max string recursion exceeded")
	}
	w := &writer{run: f.run}
	for s != "" {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			i = len(s)
		}
		if err := w.write(s[:i]); err != nil {
			return "", err
		}
		if s = s[i:]; s == "" {
			break
		}
		if len(s) > 1 && s[1] == s[0] {
			if err := w.write(s[:1]); err != nil {
				return "", err
			}
			s = s[2:]
			continue
		}
		if s[0] == '}' {
			return "", valueErrf("Single '}' encountered in format string")
		}
		end := fieldEnd(s)
		if end < 0 {
			if s == "{" {
				return "", valueErrf("Single '{' encountered in format string")
			}
			return "", valueErrf("expected '}' before end of string")
		}
		text, err := f.field(s[1:end], depth)
		if err == nil {
			err = w.write(text)
		}
		if err != nil {
			return "", err
		}
		s = s[end+1:]
	}
	return w.String(), nil
}

// fieldEnd finds the brace that closes the field at s[0].
func fieldEnd(s string) int {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// field renders "name!conversion:spec".
func (f *fieldFormatter) field(s string, depth int) (string, error) {
	name, specText := s, ""
	bracket := false
	cut := strings.IndexFunc(s, func(c rune) bool {
		switch c {
		case '[':
			bracket = true
		case ']':
			bracket = false
		}
		return !bracket && (c == ':' || c == '!')
	})
	conv := byte(0)
	if cut >= 0 {
		name, specText = s[:cut], s[cut+1:]
		if s[cut] == '!' {
			if specText == "" {
				return "", valueErrf("end of string while looking for conversion specifier")
			}
			conv, specText = specText[0], specText[1:]
			if specText != "" && specText[0] != ':' {
				return "", valueErrf("expected ':' after conversion specifier")
			}
			specText = strings.TrimPrefix(specText, ":")
		}
	}
	v, err := f.value(name)
	if err != nil {
		return "", err
	}
	switch conv {
	case 0:
	case 's', 'r', 'a':
		text, err := f.run.str(v)
		if conv != 's' {
			text, err = f.run.repr(v)
		}
		if err != nil {
			return "", err
		}
		if conv == 'a' {
			text = asciiRepr(text)
		}
		v = Str(text)
	default:
		return "", valueErrf("Unknown conversion specifier %s", quote(string(rune(conv))))
	}
	if specText, err = f.format(specText, depth-1); err != nil {
		return "", err
	}
	if _, ok := f.recv.(markup); ok && specText == "" {
		text, err := f.run.str(v)
		if _, safe := v.(markup); !safe {
			text = escapeHTML(text)
		}
		return text, err
	}
	return f.run.format(v, specText)
}

// value looks up "first.attr[item]…".
func (f *fieldFormatter) value(name string) (Value, error) {
	i := strings.IndexAny(name, ".[")
	if i < 0 {
		i = len(name)
	}
	v, err := f.first(name[:i])
	if err != nil {
		return nil, err
	}
	for rest := name[i:]; rest != ""; {
		if rest[0] == '.' {
			n := strings.IndexAny(rest[1:], ".[")
			if n < 0 {
				n = len(rest) - 1
			}
			if n == 0 {
				return nil, valueErrf("Empty attribute in format string")
			}
			v, err = f.run.getattr(v, rest[1:1+n])
			rest = rest[1+n:]
		} else {
			n := strings.IndexByte(rest, ']')
			if n < 0 {
				return nil, valueErrf("Missing ']' in format string")
			}
			if n == 1 {
				return nil, valueErrf("Empty attribute in format string")
			}
			key := rest[1:n]
			rest = rest[n+1:]
			if rest != "" && rest[0] != '.' && rest[0] != '[' {
				return nil, valueErrf("Only '.' or '[' may follow ']' in format field specifier")
			}
			var k Value = Str(key)
			if num, err := strconv.Atoi(key); err == nil && isDecimal(key[0]) {
				k = Int(num)
			}
			v, err = f.run.getitem(v, k)
		}
		if err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (f *fieldFormatter) first(name string) (Value, error) {
	if name == "" {
		if f.manual {
			return nil, valueErrf("cannot switch from manual field specification to automatic field numbering")
		}
		f.auto++
		return f.positional(f.auto - 1)
	}
	if n, err := strconv.Atoi(name); err == nil && isDecimal(name[0]) {
		if f.auto > 0 {
			return nil, valueErrf("cannot switch from manual field specification to automatic field numbering")
		}
		f.manual = true
		return f.positional(n)
	}
	if v, ok := f.named.Get(name); ok {
		return v, nil
	}
	return nil, valueErrf("%s", quote(name))
}

func (f *fieldFormatter) positional(n int) (Value, error) {
	if n >= len(f.pos) {
		return nil, valueErrf("Replacement index %d out of range for positional args tuple", n)
	}
	return f.pos[n], nil
}
