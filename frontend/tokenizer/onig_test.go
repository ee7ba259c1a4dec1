package tokenizer

import (
	"errors"
	"strings"
	"testing"
)

// TestOnigToRegexp2 holds the text of translations; TestPreTokenizers compares
// what they match with the reference.
func TestOnigToRegexp2(t *testing.T) {
	for _, tt := range []struct{ pattern, want string }{
		{`ab|c`, `ab|c`},
		{`a.b`, `a.b`},
		{`\.\[\-é`, `\x2E\x5B\x2Dé`},
		{`\x41\x{1F600}\u0430\n`, `A😀а\x0A`},
		{`(a)(?:b)(?=c)(?!d)(?<=e)(?<!f)(?>g)`, `(?:a)(?:b)(?=c)(?!d)(?<=e)(?<!f)(?>g)`},
		{`a*b+?c?+d{2}e{2,}f{,3}g{1,2}+`, `a*b+?(?>c?)d{2}e{2,}f{0,3}(?:g{1,2})+`},
		{`[a-cb-d]`, `[a-d]`},
		{`[^\x{0}-\x{FFFF}]`, "[\U00010000-\U0010FFFF]"},
		{`[a-f&&d-z&&[^e]]`, `[df]`},
		{`[a[c[e]]-]`, `[\x2Dace]`},
		{`[a&&b]`, `(?!)`},
		{`\p{Cs}`, `(?!)`},
		{`[\p{Zl}\p{Zp}]`, "[\u2028-\u2029]"},
		{`(?i:'s|k[a-b])`, "(?:\\x27[Ssſ]|[Kk\u212A][A-Ba-b])"},
	} {
		got, err := onigToRegexp2(tt.pattern)
		if err != nil || got != tt.want {
			t.Errorf("onigToRegexp2(%q) = %q, %v, want %q", tt.pattern, got, err, tt.want)
		}
	}
}

func TestOnigUnsupported(t *testing.T) {
	for _, tt := range []struct{ pattern, want string }{
		{`^a`, `^ here at 0`},
		{`a$`, `$ here at 1`},
		{`\bword`, `\b`},
		{`\Aa`, `\A`},
		{`\R`, `\R`},
		{`(a)\1`, `\1`},
		{`\p{Han}`, `\p{Han}`},
		{`\pL`, `\p without {`},
		{`\p{L`, `\p{ without }`},
		{`[[:alpha:]]`, `a POSIX bracket`},
		{`[]a]`, `] first in a set`},
		{`[a`, `a set without its ]`},
		{`[b-a]`, `this range`},
		{`[a-\d]`, `this range`},
		{`[a-[b]]`, `- here in a set`},
		{`(?i)a`, `this kind of group`},
		{`(?<n>a)`, `this kind of group`},
		{`(a`, `a group without its )`},
		{`a)`, `an unmatched )`},
		{`*a`, `* here`},
		{`a**`, `a second quantifier *`},
		{`a{2}?`, `a second quantifier ?`},
		{`a{x}`, `this use of {`},
		{`a{1001}`, `this use of {`},
		{`(?i:ss)`, `ss in any case`},
		{`(?i:fi)`, `fi in any case`},
		{`(?i:é)`, `beyond ASCII`},
		{`(?i:\p{Lu})`, `beyond ASCII`},
		{`(?i:a(b))`, `a group within (?i:`},
		{`\xFF`, `"FF" as a character`},
		{`\x{110000}`, `"110000" as a character`},
		{`\x{D800}`, `"D800" as a character`},
		{`\u12`, `"12" as a character`},
		{`a\`, `a backslash at the end`},
		{"a\xff", `not UTF-8`},
		{strings.Repeat("(", 200), `nesting deeper than 100`},
		{strings.Repeat("[a", 200), `nesting deeper than 100`},
	} {
		got, err := onigToRegexp2(tt.pattern)
		if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("onigToRegexp2(%q) = %q, %v, want not supported: %s", abbreviate(tt.pattern), got, err, tt.want)
		}
	}
}
