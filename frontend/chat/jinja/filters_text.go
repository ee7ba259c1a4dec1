package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The filters of text and numbers.

// softStr is str(x), Markup staying Markup.
func softStr(st *state, x Value) (string, error) { return st.run.str(x) }

// textFilter makes a filter of a text function without arguments.
func textFilter(name string, f func(string) string) func(*state, Value, args) (Value, error) {
	return func(st *state, x Value, a args) (Value, error) {
		if _, err := a.bind("do_" + name); err != nil {
			return nil, err
		}
		s, err := softStr(st, x)
		if err != nil {
			return nil, err
		}
		return likeText(x, f(s)), st.run.charge(len(s))
	}
}

// titleWords is Jinja's own title: words start after blanks, dashes and brackets.
func titleWords(s string) string {
	isBreak := func(c rune) bool { return isSpace(c) || strings.ContainsRune("-({[<", c) }
	var b strings.Builder
	for s != "" {
		end := strings.IndexFunc(s, isBreak)
		if end < 0 {
			end = len(s)
		}
		_, first := utf8.DecodeRuneInString(s[:end])
		b.WriteString(upper(s[:first]))
		b.WriteString(lower(s[first:end]))
		s = s[end:]
		word := len(s) - len(strings.TrimLeftFunc(s, isBreak))
		b.WriteString(s[:word])
		s = s[word:]
	}
	return b.String()
}

func filterAbs(_ *state, x Value, a args) (Value, error) {
	if _, err := a.positional("abs", 0, 0); err != nil {
		return nil, err
	}
	if f, ok := x.(Float); ok {
		return Float(math.Abs(float64(f))), nil
	}
	i, ok := asInt(x)
	if !ok {
		return nil, typeErrf("bad operand type for abs(): '%s'", x.typeName())
	}
	return normInt(new(big.Int).Abs(toBig(i)))
}

func filterCenter(st *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_center", "width?")
	if err != nil {
		return nil, err
	}
	width, err := intArg(v[0], 80)
	if err != nil {
		return nil, err
	}
	s, err := softStr(st, x)
	if err != nil {
		return nil, err
	}
	s, err = justify(st.run, s, width, " ", "center")
	return likeText(x, s), err
}

func filterString(st *state, x Value, a args) (Value, error) {
	if _, err := a.positional("soft_str", 0, 0); err != nil {
		return nil, err
	}
	s, err := softStr(st, x)
	return likeText(x, s), err
}

func filterReplace(st *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_replace", "old", "new", "count?")
	if err != nil {
		return nil, err
	}
	var text [3]string
	for i, arg := range []Value{x, v[0], v[1]} {
		if text[i], err = st.run.str(arg); err != nil {
			return nil, err
		}
	}
	count := -1
	if v[2] != nil && v[2] != None {
		if count, err = intArg(v[2], -1); err != nil {
			return nil, err
		}
	}
	s, err := replace(st.run, text[0], text[1], text[2], count)
	return Str(s), err
}

func filterTrim(st *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_trim", "chars?")
	if err != nil {
		return nil, err
	}
	s, err := softStr(st, x)
	if err != nil {
		return nil, err
	}
	s, err = strip(st.run, s, v[0], true, true)
	return likeText(x, s), err
}

func filterIndent(st *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_indent", "width?", "first?", "blank?")
	if err != nil {
		return nil, err
	}
	indent := "    "
	if v[0] != nil {
		if s, ok := asStr(v[0]); ok {
			indent = s
		} else if n, ok := asIndex(v[0]); ok {
			if n > maxFormatWidth {
				return nil, errf(KindLimit, "indent %d exceeds the limit of %d", n, maxFormatWidth)
			}
			indent = strings.Repeat(" ", max(n, 0))
		} else {
			return nil, typeErrf("can't multiply sequence by non-int of type '%s'", v[0].typeName())
		}
	}
	s, ok := asStr(x)
	if !ok {
		_, err := st.run.binary("+", x, Str("\n"))
		if err == nil {
			err = typeErrf("'%s' object has no attribute 'splitlines'", x.typeName())
		}
		return nil, err
	}
	if _, safe := x.(markup); safe {
		indent = escapeHTML(indent)
	}
	first, blank := v[1] != nil && truth(v[1]), v[2] != nil && truth(v[2])
	w := &writer{run: st.run}
	for i, l := range splitLines(s+"\n", false) {
		if i > 0 {
			l = "\n" + l
			if blank || len(l) > 1 {
				l = "\n" + indent + l[1:]
			}
		} else if first {
			l = indent + l
		}
		if err := w.write(l); err != nil {
			return nil, err
		}
	}
	return likeText(x, w.String()), nil
}

func filterInt(st *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_int", "default?", "base?")
	if err != nil {
		return nil, err
	}
	def := Value(Int(0))
	if v[0] != nil {
		def = v[0]
	}
	if u, ok := x.(*undefined); ok {
		return nil, u.err()
	}
	switch x := x.(type) {
	case Int, bigInt, Bool:
		i, _ := asInt(x)
		return i, nil
	case Float:
		if math.IsNaN(float64(x)) {
			return def, nil
		}
		return truncFloat(float64(x))
	case Str, markup:
		base, err := intArg(v[1], 10)
		if err != nil {
			return nil, err
		}
		if i, ok := intFromText(strOf(x), base); ok {
			return i, nil
		}
		f, ok := floatFromText(strOf(x))
		if !ok || math.IsInf(f, 0) || math.IsNaN(f) {
			return def, nil
		}
		return truncFloat(f)
	}
	return def, nil
}

// intFromText is Python's int(s, base).
func intFromText(s string, base int) (Value, bool) {
	if base == 1 || base < 0 || base > 36 {
		return nil, false
	}
	s = strings.TrimFunc(s, isSpace)
	sign, digits := "", s
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, digits = s[:1], s[1:]
	}
	if len(digits) > 2 && digits[0] == '0' {
		if want := map[byte]int{'b': 2, 'o': 8, 'x': 16}[digits[1]|0x20]; want != 0 && (base == want || base == 0) {
			base = want
			digits = strings.TrimPrefix(digits[2:], "_")
		}
	}
	if base == 0 {
		base = 10
		if strings.HasPrefix(digits, "0") && strings.Trim(digits, "0_") != "" {
			return nil, false
		}
	}
	if digits == "" || strings.HasPrefix(digits, "_") || strings.HasSuffix(digits, "_") || strings.Contains(digits, "__") {
		return nil, false
	}
	digits = asciiDigits(strings.ReplaceAll(digits, "_", ""))
	if strings.ContainsAny(digits, "+-") {
		return nil, false
	}
	v, err := parseInt(sign+digits, base)
	return v, err == nil
}

// asciiDigits replaces other scripts' decimal digits, as int() and float() do.
func asciiDigits(s string) string {
	if isASCII(s) {
		return s
	}
	return strings.Map(func(c rune) rune {
		if c < utf8.RuneSelf || !unicode.Is(unicode.Nd, c) {
			return c
		}
		return '0' + c - zeroOf(c)
	}, s)
}

// zeroOf finds the zero of c's script: ranges of Nd start at one and hold whole tens.
func zeroOf(c rune) rune {
	for _, r := range unicode.Nd.R16 {
		if c >= rune(r.Lo) && c <= rune(r.Hi) {
			return c - (c-rune(r.Lo))%10
		}
	}
	for _, r := range unicode.Nd.R32 {
		if c >= rune(r.Lo) && c <= rune(r.Hi) {
			return c - (c-rune(r.Lo))%10
		}
	}
	return c
}

// floatFromText is Python's float(s).
func floatFromText(s string) (float64, bool) {
	s = asciiDigits(strings.TrimFunc(s, isSpace))
	for i := range len(s) {
		if s[i] == '_' && (i == 0 || i+1 == len(s) || !isDecimal(s[i-1]) || !isDecimal(s[i+1])) {
			return 0, false
		}
	}
	s = strings.ReplaceAll(s, "_", "")
	if strings.ContainsAny(s, "xXpP") { // Go's hexadecimal floats
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

func filterFloat(_ *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_float", "default?")
	if err != nil {
		return nil, err
	}
	def := Value(Float(0))
	if v[0] != nil {
		def = v[0]
	}
	if u, ok := x.(*undefined); ok {
		return nil, u.err()
	}
	if s, ok := asStr(x); ok {
		if f, ok := floatFromText(s); ok {
			return Float(f), nil
		}
		return def, nil
	}
	f, ok, err := asFloat(x)
	if err != nil || ok {
		return Float(f), err
	}
	return def, nil
}

func filterRound(_ *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_round", "precision?", "method?")
	if err != nil {
		return nil, err
	}
	method := "common"
	if v[1] != nil {
		method, _ = asStr(v[1])
	}
	if method != "common" && method != "ceil" && method != "floor" {
		return nil, valueErrf("method must be common, ceil or floor")
	}
	precision, err := intArg(v[0], 0)
	if err != nil {
		return nil, err
	}
	if method != "common" {
		return roundUpDown(x, precision, method)
	}
	if f, ok := x.(Float); ok {
		r, err := roundFloat(float64(f), precision)
		return Float(r), err
	}
	i, ok := asInt(x)
	if !ok {
		return nil, typeErrf("type %s doesn't define __round__ method", x.typeName())
	}
	return roundInt(i, precision)
}

// roundUpDown is func(x * 10**precision) / 10**precision.
func roundUpDown(x Value, precision int, method string) (Value, error) {
	scale, err := intArith("**", Int(10), Int(precision))
	if err != nil {
		return nil, err
	}
	r := &run{limits: DefaultLimits}
	scaled, err := r.binary("*", x, scale)
	if err != nil {
		return nil, err
	}
	if f, ok := scaled.(Float); ok {
		up := math.Floor(float64(f))
		if method == "ceil" {
			up = math.Ceil(float64(f))
		}
		if scaled, err = truncFloat(up); err != nil {
			return nil, err
		}
	} else if !isNumber(scaled) {
		return nil, typeErrf("must be real number, not %s", x.typeName())
	}
	return r.binary("/", scaled, scale)
}

func filterFilesize(_ *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_filesizeformat", "binary?")
	if err != nil {
		return nil, err
	}
	if u, ok := x.(*undefined); ok {
		return nil, u.err()
	}
	size, ok, err := asFloat(x)
	if err != nil {
		return nil, err
	}
	if s, isText := asStr(x); isText {
		if size, ok = floatFromText(s); !ok {
			return nil, valueErrf("could not convert string to float: %s", quote(s))
		}
	}
	if !ok {
		return nil, typeErrf("float() argument must be a string or a real number, not '%s'", x.typeName())
	}
	base, units := 1000.0, []string{"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"}
	if isSet(v[0]) {
		base, units = 1024, []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}
	}
	if size == 1 {
		return Str("1 Byte"), nil
	}
	if size < base {
		n, err := truncFloat(size)
		if err != nil {
			return nil, err
		}
		text, err := intText(n)
		return Str(text + " Bytes"), err
	}
	unit := base
	i := 0
	for i < len(units)-1 && size >= unit*base {
		unit *= base
		i++
	}
	text, err := floatBody(size/unit, spec{typ: 'f', precision: 1})
	return Str(text + " " + units[i]), err
}

func filterFormat(st *state, x Value, a args) (Value, error) {
	if len(a.pos) > 0 && len(a.kw) > 0 {
		return nil, valueErrf("can't handle positional and keyword arguments at the same time")
	}
	s, err := softStr(st, x)
	if err != nil {
		return nil, err
	}
	var arg Value = newTuple(a.pos...)
	if len(a.kw) > 0 {
		d := NewDict()
		for _, k := range a.kw {
			d.Set(k.name, k.val)
		}
		arg = d
	}
	text, err := st.run.percentFormat(s, arg)
	return likeText(x, text), err
}

func filterTruncate(_ *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_truncate", "length?", "killwords?", "end?", "leeway?")
	if err != nil {
		return nil, err
	}
	limit, err := intArg(v[0], 255)
	if err != nil {
		return nil, err
	}
	end := "..."
	if v[2] != nil {
		if end, err = textArg(v[2], "truncate", "end"); err != nil {
			return nil, err
		}
	}
	leeway := 5
	if v[3] != nil && v[3] != None {
		if leeway, err = intArg(v[3], 0); err != nil {
			return nil, err
		}
	}
	n := utf8.RuneCountInString(end)
	if limit < n {
		return nil, valueErrf("expected length >= %d, got %d", n, limit)
	}
	if leeway < 0 {
		return nil, valueErrf("expected leeway >= 0, got %d", leeway)
	}
	s, ok := asStr(x)
	if !ok {
		if size, ok := length(x); !ok {
			return nil, typeErrf("object of type '%s' has no len()", x.typeName())
		} else if size <= limit+leeway {
			return x, nil
		}
		return nil, typeErrf("'%s' object cannot be truncated", x.typeName())
	}
	size := utf8.RuneCountInString(s)
	if limit > size || size-limit <= leeway {
		return x, nil
	}
	cut := s[:runeOffset(s, size, limit-n)]
	if !isSet(v[1]) {
		if i := strings.LastIndexByte(cut, ' '); i >= 0 {
			cut = cut[:i]
		}
	}
	return likeText(x, cut+end), nil
}

func filterWordcount(st *state, x Value, a args) (Value, error) {
	if _, err := a.bind("do_wordcount"); err != nil {
		return nil, err
	}
	s, err := softStr(st, x)
	if err != nil {
		return nil, err
	}
	n, inWord := 0, false
	for _, c := range s {
		if word := isNameRune(c); word != inWord {
			inWord = word
			if word {
				n++
			}
		}
	}
	return Int(n), st.run.tick(len(s) / bytesPerStep)
}

func filterEscape(st *state, x Value, a args) (Value, error) {
	if _, err := a.positional("escape", 0, 0); err != nil {
		return nil, err
	}
	if m, ok := x.(markup); ok {
		return m, nil
	}
	return escaped(st, x)
}

func filterForceEscape(st *state, x Value, a args) (Value, error) {
	if _, err := a.bind("do_forceescape"); err != nil {
		return nil, err
	}
	return escaped(st, x)
}

func escaped(st *state, x Value) (Value, error) {
	s, err := st.run.str(x)
	if err != nil {
		return nil, err
	}
	return markup(escapeHTML(s)), st.run.charge(len(s))
}

var htmlEscaper = strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;")

func escapeHTML(s string) string { return htmlEscaper.Replace(s) }

func filterSafe(st *state, x Value, a args) (Value, error) {
	if _, err := a.bind("do_mark_safe"); err != nil {
		return nil, err
	}
	s, err := st.run.str(x)
	return markup(s), err
}
