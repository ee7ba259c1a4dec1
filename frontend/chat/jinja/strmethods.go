package jinja

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The methods of str. On Markup they return Markup, as markupsafe's do, and
// escape the text they take in.

var strMethods map[string]method

func init() { // not a literal: format reaches attributes, and so this table
	strMethods = map[string]method{
		"capitalize": strMap("str.capitalize", capitalize), "casefold": strMap("str.casefold", casefold),
		"lower": strMap("str.lower", lower), "upper": strMap("str.upper", upper),
		"title": strMap("str.title", titleCase), "swapcase": strMap("str.swapcase", swapcase),
		"strip": strStrip("str.strip", true, true), "lstrip": strStrip("str.lstrip", true, false),
		"rstrip": strStrip("str.rstrip", false, true),
		"center": strJustify("str.center"), "ljust": strJustify("str.ljust"), "rjust": strJustify("str.rjust"),
		"zfill": strZfill, "expandtabs": strExpandtabs, "replace": strReplace, "join": strJoin,
		"split": strSplit("split", false), "rsplit": strSplit("rsplit", true), "splitlines": strSplitlines,
		"partition": strPartition("str.partition", false), "rpartition": strPartition("str.rpartition", true),
		"removeprefix": strRemove("str.removeprefix", strings.TrimPrefix),
		"removesuffix": strRemove("str.removesuffix", strings.TrimSuffix),
		"startswith":   strAffix("startswith", strings.HasPrefix), "endswith": strAffix("endswith", strings.HasSuffix),
		"count": strCount, "find": strFind("find", false, false), "rfind": strFind("rfind", true, false),
		"index": strFind("index", false, true), "rindex": strFind("rindex", true, true),
		"isalnum": strAll("str.isalnum", isAlnum), "isalpha": strAll("str.isalpha", unicode.IsLetter),
		"isdecimal": strAll("str.isdecimal", func(c rune) bool { return unicode.Is(unicode.Nd, c) }),
		"isdigit":   strAll("str.isdigit", isDigitRune), "isnumeric": strAll("str.isnumeric", isNumericRune),
		"isspace": strAll("str.isspace", isSpace), "isascii": strIs("str.isascii", isASCII),
		"isprintable": strIs("str.isprintable", isPrintable), "isidentifier": strIs("str.isidentifier", isIdentifier),
		"islower": strIs("str.islower", isLower), "isupper": strIs("str.isupper", isUpper),
		"istitle": strIs("str.istitle", isTitle),
		"format":  strFormat, "format_map": strFormatMap,
	}
}

func strOf(v Value) string {
	s, _ := asStr(v)
	return s
}

// textArg is an argument that must be a str.
func textArg(v Value, fn, what string) (string, error) {
	s, ok := asStr(v)
	if !ok {
		return "", typeErrf("%s %s must be str, not %s", fn, what, v.typeName())
	}
	return s, nil
}

// intArg is an optional argument that must be an int.
func intArg(v Value, def int) (int, error) {
	if v == nil {
		return def, nil
	}
	n, ok := asIndex(v)
	if !ok {
		if u, ok := v.(*undefined); ok {
			return 0, typeErrf("'%s' object cannot be interpreted as an integer", u.typeName())
		}
		return 0, typeErrf("'%s' object cannot be interpreted as an integer", v.typeName())
	}
	return n, nil
}

// incoming is text that recv takes in: Markup escapes it.
func incoming(recv, v Value) Value {
	if _, ok := recv.(markup); !ok {
		return v
	}
	if s, ok := v.(Str); ok {
		return markup(escapeHTML(string(s)))
	}
	return v
}

func strMap(fn string, f func(string) string) method {
	return func(r *run, recv Value, a args) (Value, error) {
		if _, err := a.positional(fn, 0, 0); err != nil {
			return nil, err
		}
		s := strOf(recv)
		if err := r.charge(len(s)); err != nil {
			return nil, err
		}
		return likeText(recv, f(s)), nil
	}
}

func strIs(fn string, f func(string) bool) method {
	return func(r *run, recv Value, a args) (Value, error) {
		if _, err := a.positional(fn, 0, 0); err != nil {
			return nil, err
		}
		s := strOf(recv)
		return Bool(f(s)), r.tick(len(s) / bytesPerStep)
	}
}

// strAll tests every code point of a text that is not empty.
func strAll(fn string, f func(rune) bool) method {
	return strIs(fn, func(s string) bool {
		return s != "" && strings.IndexFunc(s, func(c rune) bool { return !f(c) }) < 0
	})
}

func strStrip(fn string, left, right bool) method {
	return func(r *run, recv Value, a args) (Value, error) {
		v, err := a.positional(fn, 0, 1)
		if err != nil {
			return nil, err
		}
		s, err := strip(r, strOf(recv), v[0], left, right)
		return likeText(recv, s), err
	}
}

// strip removes the code points of chars, or blanks if it is nil or None.
func strip(r *run, s string, chars Value, left, right bool) (string, error) {
	cut := isSpace
	if chars != nil && chars != None {
		set, ok := asStr(chars)
		if !ok {
			return "", typeErrf("strip arg must be None or str")
		}
		if err := r.tick(len(s) * len(set) / bytesPerStep); err != nil {
			return "", err
		}
		cut = func(c rune) bool { return strings.ContainsRune(set, c) }
	}
	if left {
		s = strings.TrimLeftFunc(s, cut)
	}
	if right {
		s = strings.TrimRightFunc(s, cut)
	}
	return s, nil
}

func strJustify(fn string) method {
	return func(r *run, recv Value, a args) (Value, error) {
		v, err := a.positional(fn, 1, 2)
		if err != nil {
			return nil, err
		}
		width, err := intArg(v[0], 0)
		if err != nil {
			return nil, err
		}
		fill := " "
		if v[1] != nil {
			var ok bool
			if fill, ok = asStr(v[1]); !ok || utf8.RuneCountInString(fill) != 1 {
				return nil, typeErrf("The fill character must be exactly one character long")
			}
		}
		s, err := justify(r, strOf(recv), width, fill, fn[len("str."):])
		return likeText(recv, s), err
	}
}

func justify(r *run, s string, width int, fill, how string) (string, error) {
	pad := width - utf8.RuneCountInString(s)
	if pad <= 0 {
		return s, nil
	}
	if pad > r.limits.Bytes/len(fill) {
		pad = r.limits.Bytes/len(fill) + 1
	}
	if err := r.charge(len(s) + pad*len(fill)); err != nil {
		return "", err
	}
	left := 0
	switch how {
	case "rjust":
		left = pad
	case "center":
		left = pad/2 + pad&width&1 // CPython's choice of the longer side
	}
	return strings.Repeat(fill, left) + s + strings.Repeat(fill, pad-left), nil
}

func strZfill(r *run, recv Value, a args) (Value, error) {
	v, err := a.positional("str.zfill", 1, 1)
	if err != nil {
		return nil, err
	}
	width, err := intArg(v[0], 0)
	if err != nil {
		return nil, err
	}
	s := strOf(recv)
	sign := ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = s[:1], s[1:]
		width--
	}
	s, err = justify(r, s, width, "0", "rjust")
	return likeText(recv, sign+s), err
}

func strExpandtabs(r *run, recv Value, a args) (Value, error) {
	v, err := a.bind("expandtabs", "tabsize?")
	if err != nil {
		return nil, err
	}
	size, err := intArg(v[0], 8)
	if err != nil {
		return nil, err
	}
	size = min(size, 1<<20)
	w := &writer{run: r}
	column := 0
	for _, c := range strOf(recv) {
		text := string(c)
		switch {
		case c == '\t':
			text = ""
			if size > 0 {
				text = strings.Repeat(" ", size-column%size)
			}
			column += len(text)
		case c == '\n' || c == '\r':
			column = 0
		default:
			column++
		}
		if err := w.write(text); err != nil {
			return nil, err
		}
	}
	return likeText(recv, w.String()), nil
}

func strReplace(r *run, recv Value, a args) (Value, error) {
	v, err := a.positional("str.replace", 2, 3)
	if err != nil {
		return nil, err
	}
	old, err := textArg(v[0], "replace()", "argument 1")
	if err != nil {
		return nil, err
	}
	repl, err := textArg(incoming(recv, v[1]), "replace()", "argument 2")
	if err != nil {
		return nil, err
	}
	count, err := intArg(v[2], -1)
	if err != nil {
		return nil, err
	}
	s, err := replace(r, strOf(recv), old, repl, count)
	return likeText(recv, s), err
}

func replace(r *run, s, old, repl string, count int) (string, error) {
	n := 0
	if old == "" {
		n = utf8.RuneCountInString(s) + 1
	} else {
		n = strings.Count(s, old)
	}
	if count >= 0 {
		n = min(n, count)
	}
	if err := r.tick(len(s) / bytesPerStep); err != nil || n == 0 {
		return s, err
	}
	grown := len(repl) - len(old)
	if grown > 0 && n > r.limits.Bytes/grown {
		return "", r.charge(r.limits.Bytes + 1)
	}
	if err := r.charge(len(s) + n*grown); err != nil {
		return "", err
	}
	return strings.Replace(s, old, repl, n), nil
}

func strJoin(r *run, recv Value, a args) (Value, error) {
	v, err := a.positional("str.join", 1, 1)
	if err != nil {
		return nil, err
	}
	if _, ok := iterate(v[0]); !ok {
		return nil, typeErrf("can only join an iterable")
	}
	items, err := r.collect(v[0])
	if err != nil {
		return nil, err
	}
	w := &writer{run: r}
	for i, item := range items {
		item = incoming(recv, item)
		s, ok := asStr(item)
		if _, escapes := recv.(markup); escapes && !ok {
			if s, err = r.str(item); err != nil {
				return nil, err
			}
			s, ok = escapeHTML(s), true
		}
		if !ok {
			return nil, typeErrf("sequence item %d: expected str instance, %s found", i, item.typeName())
		}
		if i > 0 {
			s = strOf(recv) + s
		}
		if err := w.write(s); err != nil {
			return nil, err
		}
	}
	return likeText(recv, w.String()), nil
}

// texts makes a list of parts, each of recv's type.
func texts(r *run, recv Value, parts []string) (Value, error) {
	if err := r.chargeItems(2 * len(parts)); err != nil {
		return nil, err
	}
	items := make([]Value, len(parts))
	for i, p := range parts {
		items[i] = likeText(recv, p)
	}
	return &List{items}, nil
}

func strSplit(fn string, right bool) method {
	return func(r *run, recv Value, a args) (Value, error) {
		v, err := a.bind(fn, "sep?", "maxsplit?")
		if err != nil {
			return nil, err
		}
		limit, err := intArg(v[1], -1)
		if err != nil {
			return nil, err
		}
		s := strOf(recv)
		if err := r.tick(len(s) / 8); err != nil {
			return nil, err
		}
		if v[0] == nil || v[0] == None {
			return texts(r, recv, splitSpace(s, limit, right))
		}
		sep, err := textArg(v[0], "sep", "argument")
		if err != nil {
			return nil, typeErrf("must be str or None, not %s", v[0].typeName())
		}
		if sep == "" {
			return nil, valueErrf("empty separator")
		}
		return texts(r, recv, splitText(s, sep, limit, right))
	}
}

func splitText(s, sep string, limit int, right bool) []string {
	if limit < 0 || limit >= strings.Count(s, sep) && !right {
		return strings.Split(s, sep)
	}
	if !right {
		return strings.SplitN(s, sep, limit+1)
	}
	var parts []string
	for limit > len(parts) {
		i := strings.LastIndex(s, sep)
		if i < 0 {
			break
		}
		parts = append(parts, s[i+len(sep):])
		s = s[:i]
	}
	parts = append(parts, s)
	slices.Reverse(parts)
	return parts
}

// splitSpace splits at runs of blanks, at most limit times if it is not negative.
func splitSpace(s string, limit int, right bool) []string {
	var parts []string
	if right {
		for s = strings.TrimRightFunc(s, isSpace); s != ""; s = strings.TrimRightFunc(s, isSpace) {
			i := strings.LastIndexFunc(s, isSpace)
			if i < 0 || limit >= 0 && len(parts) >= limit {
				parts = append(parts, s)
				break
			}
			_, size := utf8.DecodeRuneInString(s[i:])
			parts = append(parts, s[i+size:])
			s = s[:i]
		}
		slices.Reverse(parts)
		return parts
	}
	for s = strings.TrimLeftFunc(s, isSpace); s != ""; s = strings.TrimLeftFunc(s, isSpace) {
		i := strings.IndexFunc(s, isSpace)
		if i < 0 || limit >= 0 && len(parts) >= limit {
			parts = append(parts, s)
			break
		}
		parts = append(parts, s[:i])
		s = s[i:]
	}
	return parts
}

// isLineEnd is what str.splitlines splits at; "\r\n" counts once.
func isLineEnd(c rune) bool {
	switch c {
	case '\n', '\r', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
		return true
	}
	return false
}

func splitLines(s string, keepEnds bool) []string {
	var lines []string
	for s != "" {
		i := strings.IndexFunc(s, isLineEnd)
		if i < 0 {
			return append(lines, s)
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		end := i + size
		if strings.HasPrefix(s[i:], "\r\n") {
			end = i + 2
		}
		if keepEnds {
			lines = append(lines, s[:end])
		} else {
			lines = append(lines, s[:i])
		}
		s = s[end:]
	}
	return lines
}

func strSplitlines(r *run, recv Value, a args) (Value, error) {
	v, err := a.bind("splitlines", "keepends?")
	if err != nil {
		return nil, err
	}
	s := strOf(recv)
	if err := r.tick(len(s) / 8); err != nil {
		return nil, err
	}
	return texts(r, recv, splitLines(s, v[0] != nil && truth(v[0])))
}

func strPartition(fn string, right bool) method {
	return func(_ *run, recv Value, a args) (Value, error) {
		v, err := a.positional(fn, 1, 1)
		if err != nil {
			return nil, err
		}
		sep, err := textArg(v[0], fn+"()", "argument")
		if err != nil {
			return nil, err
		}
		if sep == "" {
			return nil, valueErrf("empty separator")
		}
		s := strOf(recv)
		before, after, found := strings.Cut(s, sep)
		if i := strings.LastIndex(s, sep); right && i >= 0 {
			before, after = s[:i], s[i+len(sep):]
		}
		if !found {
			sep = ""
			if right {
				before, after = "", s
			}
		}
		return newTuple(likeText(recv, before), likeText(recv, sep), likeText(recv, after)), nil
	}
}

func strRemove(fn string, f func(s, affix string) string) method {
	return func(_ *run, recv Value, a args) (Value, error) {
		v, err := a.positional(fn, 1, 1)
		if err != nil {
			return nil, err
		}
		affix, err := textArg(v[0], fn+"()", "argument")
		return likeText(recv, f(strOf(recv), affix)), err
	}
}

func strAffix(fn string, has func(s, affix string) bool) method {
	return func(r *run, recv Value, a args) (Value, error) {
		v, err := a.positional(fn, 1, 3)
		if err != nil {
			return nil, err
		}
		s, inside, err := within(strOf(recv), v[1:])
		if err != nil {
			return nil, err
		}
		affixes := []Value{v[0]}
		if t, ok := v[0].(*tuple); ok {
			affixes = t.items
		}
		for _, affix := range affixes {
			text, ok := asStr(affix)
			if !ok && len(affixes) == 1 && affix == v[0] {
				return nil, typeErrf("%s first arg must be str or a tuple of str, not %s", fn, affix.typeName())
			}
			if !ok {
				return nil, typeErrf("tuple for %s must only contain str, not %s", fn, affix.typeName())
			}
			if err := r.tick(len(text) / bytesPerStep); err != nil {
				return nil, err
			}
			if inside && has(s, text) {
				return Bool(true), nil
			}
		}
		return Bool(false), nil
	}
}

// within cuts s to the optional start and stop; ok is false if start is past
// both stop and the end, where not even "" is found.
func within(s string, bounds []Value) (part string, ok bool, err error) {
	if bounds[0] == nil {
		return s, true, nil
	}
	n := utf8.RuneCountInString(s)
	from, to, err := searchBounds(bounds, n)
	if err != nil || from > to {
		return "", false, err
	}
	return s[runeOffset(s, n, from):runeOffset(s, n, to)], true, nil
}

func strCount(r *run, recv Value, a args) (Value, error) {
	v, err := a.positional("count", 1, 3)
	if err != nil {
		return nil, err
	}
	sub, err := textArg(v[0], "count()", "argument 1")
	if err != nil {
		return nil, err
	}
	s, ok, err := within(strOf(recv), v[1:])
	if err != nil || !ok {
		return Int(0), err
	}
	return Int(strings.Count(s, sub)), r.tick(len(s) / bytesPerStep)
}

func strFind(fn string, right, must bool) method {
	return func(r *run, recv Value, a args) (Value, error) {
		v, err := a.positional(fn, 1, 3)
		if err != nil {
			return nil, err
		}
		sub, err := textArg(v[0], fn+"()", "argument 1")
		if err != nil {
			return nil, err
		}
		s := strOf(recv)
		n := utf8.RuneCountInString(s)
		if err := r.tick(len(s) / bytesPerStep); err != nil {
			return nil, err
		}
		from, to, err := searchBounds(v[1:], n)
		if err != nil {
			return nil, err
		}
		found := -1
		if from <= to {
			part := s[runeOffset(s, n, from):runeOffset(s, n, to)]
			find := strings.Index
			if right {
				find = strings.LastIndex
			}
			if i := find(part, sub); i >= 0 {
				found = from + utf8.RuneCountInString(part[:i])
			}
		}
		if found < 0 && must {
			return nil, valueErrf("substring not found")
		}
		return Int(found), nil
	}
}

// Case mappings are Unicode's full ones: one code point may become several.

func upper(s string) string { return mapCase(s, unicode.ToUpper, specialUpper) }

func lower(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	var b strings.Builder
	for i, c := range s {
		switch c {
		case 'İ':
			b.WriteString("i̇")
		case 'Σ':
			if finalSigma(s, i) {
				b.WriteRune('ς')
			} else {
				b.WriteRune('σ')
			}
		default:
			b.WriteRune(unicode.ToLower(c))
		}
	}
	return b.String()
}

// finalSigma reports whether the sigma at byte i ends a word: a cased letter
// before it and none after, case-ignorable marks skipped.
func finalSigma(s string, i int) bool {
	before := strings.TrimRightFunc(s[:i], caseIgnorable)
	last, _ := utf8.DecodeLastRuneInString(before)
	after := strings.TrimLeftFunc(s[i+len("Σ"):], caseIgnorable)
	next, _ := utf8.DecodeRuneInString(after)
	return before != "" && isCased(last) && (after == "" || !isCased(next))
}

func isCased(c rune) bool {
	return unicode.IsUpper(c) || unicode.IsLower(c) || unicode.IsTitle(c) ||
		unicode.Is(unicode.Other_Lowercase, c) || unicode.Is(unicode.Other_Uppercase, c)
}

func caseIgnorable(c rune) bool {
	switch c {
	case '\'', '.', ':', '^', '`', 0xa8, 0xad, 0xaf, 0xb4, 0xb7, 0xb8, 0x2018, 0x2019, 0x2024, 0x2027:
		return true
	}
	return unicode.In(c, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk)
}

func casefold(s string) string {
	return mapCase(s, func(c rune) rune {
		if c >= 0x13a0 && c <= 0x13f5 { // Cherokee folds to upper case
			return c
		}
		if c >= 0xab70 && c <= 0xabbf {
			return c - 0xab70 + 0x13a0
		}
		switch c {
		case 'µ', 'ς', 'ſ', 'ϐ', 'ϑ', 'ϕ', 'ϖ', 'ϰ', 'ϱ', 'ϵ', 'ẛ', 0x1fbe, 0x345:
			return unicode.ToLower(unicode.ToUpper(c))
		}
		return unicode.ToLower(c)
	}, specialFold)
}

func capitalize(s string) string {
	c, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return ""
	}
	return titleRune(c) + lower(s)[len(lower(s[:size])):]
}

func titleRune(c rune) string {
	if t, ok := specialTitle[c]; ok {
		return t
	}
	return string(unicode.ToTitle(c))
}

// titleCase is str.title: every run of cased letters starts in title case.
func titleCase(s string) string {
	var b strings.Builder
	inWord := false
	for i, c := range s {
		switch {
		case !inWord:
			b.WriteString(titleRune(c))
		case c == 'Σ' && finalSigma(s, i):
			b.WriteRune('ς')
		default:
			b.WriteString(lower(string(c)))
		}
		inWord = isCased(c)
	}
	return b.String()
}

func swapcase(s string) string {
	var b strings.Builder
	for i, c := range s {
		switch {
		case c == 'Σ' && finalSigma(s, i):
			b.WriteRune('ς')
		case unicode.IsUpper(c):
			b.WriteString(lower(string(c)))
		case unicode.IsLower(c):
			b.WriteString(upper(string(c)))
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

func mapCase(s string, one func(rune) rune, special map[rune]string) string {
	if isASCII(s) {
		return strings.Map(one, s)
	}
	var b strings.Builder
	for _, c := range s {
		if t, ok := special[c]; ok {
			b.WriteString(t)
		} else {
			b.WriteRune(one(c))
		}
	}
	return b.String()
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func isPrintable(s string) bool {
	return strings.IndexFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }) < 0
}

func isIdentifier(s string) bool {
	for i, c := range s {
		if c != '_' && !unicode.IsLetter(c) && (i == 0 || !unicode.In(c, unicode.Nd, unicode.Mn, unicode.Mc)) {
			return false
		}
	}
	return s != ""
}

// isDigitRune is Numeric_Type=Digit or Decimal: Nd, superscripts and circled digits.
func isDigitRune(c rune) bool {
	return unicode.Is(unicode.Nd, c) || unicode.Is(digitRunes, c)
}

var digitRunes = &unicode.RangeTable{R16: []unicode.Range16{
	{0xb2, 0xb3, 1}, {0xb9, 0xb9, 1}, {0x1369, 0x1371, 1}, {0x19da, 0x19da, 1}, {0x2070, 0x2070, 1},
	{0x2074, 0x2079, 1}, {0x2080, 0x2089, 1}, {0x2460, 0x2468, 1}, {0x2474, 0x247c, 1}, {0x2488, 0x2490, 1},
	{0x24ea, 0x24ea, 1}, {0x24f5, 0x24fd, 1}, {0x24ff, 0x24ff, 1}, {0x2776, 0x277e, 1}, {0x2780, 0x2788, 1},
	{0x278a, 0x2792, 1},
}}

// isNumericRune is Numeric_Type of any kind, but for the CJK numerals beyond
// the common ones.
func isNumericRune(c rune) bool {
	return unicode.IsNumber(c) || strings.ContainsRune("〇一二三四五六七八九十百千万億兆零壱弐参拾", c)
}

func isAlnum(c rune) bool {
	return unicode.IsLetter(c) || isDigitRune(c) || isNumericRune(c)
}

func isLower(s string) bool {
	return isCase(s, unicode.IsLower, unicode.Other_Lowercase, unicode.IsUpper)
}

func isUpper(s string) bool {
	return isCase(s, unicode.IsUpper, unicode.Other_Uppercase, unicode.IsLower)
}

// isCase reports whether s has a letter of the case and none of another.
func isCase(s string, is func(rune) bool, other *unicode.RangeTable, not func(rune) bool) bool {
	found := false
	for _, c := range s {
		switch {
		case is(c) || unicode.Is(other, c):
			found = true
		case not(c) || unicode.IsTitle(c):
			return false
		}
	}
	return found
}

func isTitle(s string) bool {
	found, inWord := false, false
	for _, c := range s {
		switch {
		case unicode.IsUpper(c) || unicode.IsTitle(c):
			if inWord {
				return false
			}
			found, inWord = true, true
		case unicode.IsLower(c):
			if !inWord {
				return false
			}
			found, inWord = true, true
		default:
			inWord = false
		}
	}
	return found
}
