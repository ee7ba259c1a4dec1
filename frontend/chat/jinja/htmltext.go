package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The filters that treat text as HTML, as URLs or as paragraphs: rare in chat
// templates, there for completeness.

func filterStriptags(st *state, x Value, a args) (Value, error) {
	if _, err := a.bind("do_striptags"); err != nil {
		return nil, err
	}
	s, err := st.run.str(x)
	if err != nil {
		return nil, err
	}
	if err := st.run.charge(len(s)); err != nil {
		return nil, err
	}
	return Str(unescapeHTML(strings.Join(strings.FieldsFunc(stripTags(s), isSpace), " "))), nil
}

// stripTags removes comments, then tags; an unclosed one stays.
func stripTags(s string) string {
	return cutAll(cutAll(s, "<!--", "-->"), "<", ">")
}

func cutAll(s, open, end string) string {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(s, open)
		if !ok {
			break
		}
		_, rest, closed := strings.Cut(after, end)
		if !closed {
			break
		}
		b.WriteString(before)
		s = rest
	}
	return b.String() + s
}

var htmlUnescaper = strings.NewReplacer("&amp;", "&", "&gt;", ">", "&lt;", "<", "&#39;", "'", "&#34;", `"`, "&quot;", `"`)

// unescapeHTML undoes escapeHTML.
func unescapeHTML(s string) string { return htmlUnescaper.Replace(s) }

func filterURLEncode(st *state, x Value, a args) (Value, error) {
	if _, err := a.bind("do_urlencode"); err != nil {
		return nil, err
	}
	it, ok := iterate(x)
	if _, isText := asStr(x); isText || !ok {
		s, err := st.run.str(x)
		if err != nil {
			return nil, err
		}
		return Str(urlQuote(s, false)), st.run.charge(3 * len(s))
	}
	if d, ok := x.(*Dict); ok {
		it = &viewIter{view: &dictView{d, 'i'}}
	}
	pairs, err := st.run.drain(it)
	if err != nil {
		return nil, err
	}
	w := &writer{run: st.run}
	for i, pair := range pairs {
		kv, err := st.run.collect(pair)
		if err != nil {
			return nil, err
		}
		if len(kv) != 2 {
			return nil, valueErrf("expected 2 values to unpack, got %d", len(kv))
		}
		var text [2]string
		for j, v := range kv {
			s, err := st.run.str(v)
			if err != nil {
				return nil, err
			}
			text[j] = urlQuote(s, true)
		}
		s := text[0] + "=" + text[1]
		if i > 0 {
			s = "&" + s
		}
		if err := w.write(s); err != nil {
			return nil, err
		}
	}
	return Str(w.String()), nil
}

// urlQuote is Python's urllib.parse.quote; in a query "/" is quoted and a blank is "+".
func urlQuote(s string, query bool) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDecimal(c) || strings.IndexByte("_.-~", c) >= 0,
			c == '/' && !query:
			b.WriteByte(c)
		case c == ' ' && query:
			b.WriteByte('+')
		default:
			b.WriteByte('%')
			b.WriteByte("0123456789ABCDEF"[c>>4])
			b.WriteByte("0123456789ABCDEF"[c&15])
		}
	}
	return b.String()
}

func filterWordwrap(st *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_wordwrap", "width?", "break_long_words?", "wrapstring?", "break_on_hyphens?")
	if err != nil {
		return nil, err
	}
	width, err := intArg(v[0], 79)
	if err != nil {
		return nil, err
	}
	sep := "\n"
	if v[2] != nil && v[2] != None {
		if sep, err = textArg(v[2], "wordwrap", "wrapstring"); err != nil {
			return nil, err
		}
	}
	s, ok := asStr(x)
	if !ok {
		return nil, typeErrf("'%s' object has no attribute 'splitlines'", x.typeName())
	}
	if width <= 0 {
		return nil, valueErrf("invalid width %d (must be > 0)", width)
	}
	if err := st.run.charge(2*len(s) + len(s)/width*len(sep)); err != nil {
		return nil, err
	}
	p := paragraph{
		width:   width,
		long:    v[1] == nil || truth(v[1]),
		hyphens: v[3] == nil || truth(v[3]),
	}
	var lines []string
	for _, l := range splitLines(s, false) {
		lines = append(lines, strings.Join(p.wrap(l), sep))
	}
	return Str(strings.Join(lines, sep)), nil
}

// paragraph wraps one line as Python's textwrap does.
type paragraph struct {
	width   int
	long    bool // break words longer than the width
	hyphens bool // break after hyphens
}

func (p paragraph) wrap(s string) []string {
	chunks := p.chunks(s)
	var lines []string
	for len(chunks) > 0 {
		if strings.TrimSpace(chunks[0]) == "" && len(lines) > 0 {
			chunks = chunks[1:] // a line does not start with the blanks of the break
			continue
		}
		var line []string
		n := 0
		for len(chunks) > 0 && n+utf8.RuneCountInString(chunks[0]) <= p.width {
			n += utf8.RuneCountInString(chunks[0])
			line = append(line, chunks[0])
			chunks = chunks[1:]
		}
		if len(chunks) > 0 && utf8.RuneCountInString(chunks[0]) > p.width {
			line, chunks = p.breakLong(line, chunks, p.width-n)
		}
		if len(line) > 0 && strings.TrimSpace(line[len(line)-1]) == "" {
			line = line[:len(line)-1]
		}
		if len(line) > 0 {
			lines = append(lines, strings.Join(line, ""))
		}
	}
	return lines
}

// breakLong puts what fits of an overlong chunk on the line.
func (p paragraph) breakLong(line, chunks []string, room int) (newLine, rest []string) {
	word := chunks[0] // a full line takes "", which then shields its last blanks
	if !p.long {
		if len(line) == 0 {
			return []string{word}, chunks[1:]
		}
		return line, chunks
	}
	end := runeOffset(word, utf8.RuneCountInString(word), room)
	if p.hyphens {
		if i := strings.LastIndexByte(word[:end], '-'); i > 0 && strings.Trim(word[:i], "-") != "" {
			end = i + 1
		}
	}
	chunks[0] = word[end:]
	return append(line, word[:end]), chunks
}

// chunks splits a line into blanks and the pieces that may not be broken.
func (p paragraph) chunks(s string) []string {
	const blanks = "\t\n\v\f\r "
	var out []string
	for s != "" {
		i := strings.IndexAny(s, blanks)
		if i == 0 {
			n := len(s) - len(strings.TrimLeft(s, blanks))
			out = append(out, s[:n])
			s = s[n:]
			continue
		}
		if i < 0 {
			i = len(s)
		}
		word := s[:i]
		s = s[i:]
		if !p.hyphens {
			out = append(out, word)
			continue
		}
		out = append(out, splitHyphens(word)...)
	}
	return out
}

// splitHyphens breaks a word after hyphens between letters, and around dashes.
func splitHyphens(word string) []string {
	var out []string
	letter := func(i int) bool {
		c, _ := utf8.DecodeRuneInString(word[i:])
		return unicode.IsLetter(c)
	}
	start := 0
	for i := 1; i < len(word); i++ {
		if word[i] != '-' {
			continue
		}
		run := len(word[i:]) - len(strings.TrimLeft(word[i:], "-"))
		before, _ := utf8.DecodeLastRuneInString(word[start:i])
		switch {
		case run >= 2 && i+run < len(word) && (unicode.IsLetter(before) || unicode.IsDigit(before)):
			out = append(out, word[start:i], word[i:i+run])
			start = i + run
		case run == 1 && i-start >= 2 && unicode.IsLetter(before) && i+2 < len(word) && letter(i+1):
			out = append(out, word[start:i+1])
			start = i + 1
		}
		i += run - 1
	}
	return append(out, word[start:])
}
