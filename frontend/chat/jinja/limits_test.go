package jinja

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
)

func parseT(tb testing.TB, source string) *Template {
	tb.Helper()
	t, err := Parse(source)
	if err != nil {
		tb.Fatalf("Parse(%q) = %v", source, err)
	}
	return t
}

func wantKind(t *testing.T, what string, err error, kind Kind) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Kind != kind {
		t.Errorf("%s = %v, want a %s error", what, err, kind)
	}
}

// Each template would run for ages or fill the memory without its limit.
func TestLimits(t *testing.T) {
	small := Limits{Steps: 100_000, Bytes: 1 << 20, Output: 1 << 16, Depth: 50}
	for _, source := range []string{
		"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
		"{% for a in range(99999) %}{{ a }}{% endfor %}",
		"{{ 'x' * 10**9 }}", "{{ 'x' * 10**18 }}", "{{ [1] * 10**9 }}", "{{ (1,) * 10**18 }}",
		"{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
		"{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
		"{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
		"{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
		"{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s | tojson }}",
		"{% set ns = namespace(s=[1], t=[1]) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% set ns.t = [ns.t, ns.t] %}{% endfor %}{{ ns.s == ns.t }}",
		"{% set ns = namespace(s=1) %}{% for i in range(5000) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}",
		"{% set ns = namespace(s=1) %}{% for i in range(5000) %}{% set ns.s = (ns.s,) %}{% endfor %}{{ {ns.s: 1} }}",
		"{% set ns = namespace(s=1) %}{% set ns.me = ns %}{{ ns }}",
		"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{% macro m(n) %}{{ n | map('string') | list }}{{ m([n]) }}{% endmacro %}{{ m([1]) }}",
		"{% for x in [[[]]] recursive %}{{ loop([[[]]]) }}{% endfor %}", "{% block b %}{{ self.b() }}{% endblock %}",
		"{{ 10 ** 99999 }}", "{{ 2 ** 99999999 }}", "{{ (2 ** 60000) * (2 ** 60000) }}",
		"{{ 'ab'.replace('', 'x' * 100000) }}", "{{ 'x'.center(10**9) }}", "{{ 'x'.zfill(10**9) }}", "{{ 'x' | center(10**12) }}",
		"{{ '%1000000d' % 1 }}", "{{ '%*d' % (10**9, 1) }}", "{{ '{:1000000}'.format(1) }}", "{{ '{:.1000000f}'.format(1.5) }}",
		"{{ '\t'.expandtabs(10**9) }}", "{{ 'a\nb' | indent(10**9) }}", "{{ [1] | tojson(indent=10**9) }}",
		"{{ [1] | batch(10**9, 0) | list }}", "{{ [1] | slice(10**9) | list }}", "{{ (['x' * 10000] * 1000) | join }}",
		"{% set ns = namespace(s=[1]) %}{% for i in range(5000) %}{% set ns.s = ns.s | map('string') %}{% endfor %}{{ ns.s | list }}",
		"{% set ns = namespace(s=range(6000)) %}{% for i in range(5000) %}{% for x in ns.s %}{% set ns.s = loop | map('string') %}{% break %}{% endfor %}{% endfor %}",
		"{% set ns = namespace(s=(1,)) %}{% for i in range(60) %}{% set ns.s = (ns.s, ns.s) %}{% endfor %}{{ {ns.s: 1} }}",
		"{{ range(99999) | map('string') | map('length') | map('string') | join | length }}{{ range(99999) | sum }}",
	} {
		_, err := parseT(t, source).Render(NewDict(), Options{Limits: small})
		wantKind(t, "Render("+source+")", err, KindLimit)
	}
}

func TestParseDepth(t *testing.T) {
	for name, source := range map[string]string{
		"parentheses": "{{ " + strings.Repeat("(", 5000) + strings.Repeat(")", 5000) + " }}",
		"lists":       "{{ " + strings.Repeat("[", 5000) + " }}",
		"sum":         "{{ 1" + strings.Repeat("+1", 100_000) + " }}",
		"attributes":  "{{ a" + strings.Repeat(".b", 100_000) + " }}",
		"filters":     "{{ a" + strings.Repeat("|upper", 100_000) + " }}",
		"calls":       "{{ a" + strings.Repeat("()", 100_000) + " }}",
		"not":         "{{ " + strings.Repeat("not ", 100_000) + "1 }}",
		"minus":       "{{ " + strings.Repeat("-", 100_000) + "1 }}",
		"conditions":  "{{ " + strings.Repeat("1 if 1 else ", 100_000) + "1 }}",
		"blocks":      strings.Repeat("{% if 1 %}", 100_000) + strings.Repeat("{% endif %}", 100_000),
	} {
		_, err := Parse(source)
		wantKind(t, "Parse of deep "+name, err, KindSyntax)
	}
}

func TestContextEndsRender(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := parseT(t, "{% for a in range(99999) %}{% endfor %}").Render(NewDict(), Options{Context: ctx})
	wantKind(t, "Render with a cancelled context", err, KindLimit)
}

func TestUnsupported(t *testing.T) {
	for _, source := range []string{
		"{% include 'a' %}", "{% import 'a' as b %}", "{% from 'a' import b %}", "{% extends 'a' %}",
		"{% autoescape true %}{% endautoescape %}", "{% autoescape x %}{% endautoescape %}",
		"{{ [1] | random }}", "{{ 'x' | urlize }}", "{{ {} | xmlattr }}", "{{ 1 | pprint }}", `{{ "\N{BULLET}" }}`,
		"{% block a %}{{ super() }}{% endblock %}", "{% block a required %}{% endblock %}",
	} {
		_, err := Parse("\n" + source)
		wantKind(t, "Parse("+source+")", err, KindUnsupported)
		var e *Error
		if errors.As(err, &e) && e.Line != 2 {
			t.Errorf("Parse(%q): error at line %d, want 2", source, e.Line)
		}
	}
	for _, source := range []string{"{{ lipsum() }}", "{{ 'a'.encode() }}", "{{ (-8) ** 0.5 }}", "{{ ['random'] | map('random') | list }}{{ [1] | map('random') | list }}"} {
		_, err := parseT(t, source).Render(NewDict(), Options{})
		wantKind(t, "Render("+source+")", err, KindUnsupported)
	}
}

// Jinja's set block writes into any dict; the sandbox should not have let it.
func TestSetBlockKeepsDicts(t *testing.T) {
	d := NewDict()
	vars := NewDict()
	vars.Set("d", d)
	_, err := parseT(t, "{% set d.x %}text{% endset %}").Render(vars, Options{})
	wantKind(t, "Render of a set block on a dict", err, KindType)
	if d.Len() != 0 {
		t.Errorf("a set block changed the caller's dict: it has %d keys", d.Len())
	}
}

func TestErrorLine(t *testing.T) {
	for _, c := range []struct {
		source string
		line   int
	}{
		{"a\n{{ 1 +\n }}", 3}, {"a\n\n{% if %}", 3}, {"{% if 1 %}\n\n", 2}, {"\n{{ x.y }}", 2}, {"\n\n{% for a in 5 %}{% endfor %}", 3},
		{"{% macro m() %}\n{{ 1/0 }}\n{% endmacro %}\n\n{{ m() }}", 2}, {"a\r\nb\r\n{{ none + 1 }}", 3}, {"{#\n\n#}{{ 'a' | nope }}", 3},
		{"\n{% set a, b = 1 %}", 2}, {"\n{{ raise_exception('x') }}", 2},
	} {
		_, err := render(c.source, NewDict())
		var e *Error
		if !errors.As(err, &e) || e.Line != c.line {
			t.Errorf("render(%q) = %#v, want an error at line %d", c.source, err, c.line)
		}
	}
}

func TestErrorText(t *testing.T) {
	_, err := render("\n{{ raise_exception('Roles must alternate') }}", NewDict())
	if got, want := err.Error(), "Roles must alternate"; got != want {
		t.Errorf("raise_exception: Error() = %q, want %q", got, want)
	}
	_, err = render("\n{{ none + 1 }}", NewDict())
	if got, want := err.Error(), "line 2: unsupported operand type(s) for +: 'NoneType' and 'int'"; got != want {
		t.Errorf("none + 1: Error() = %q, want %q", got, want)
	}
}

func TestInvalidUTF8(t *testing.T) {
	_, err := Parse("a\xffb")
	wantKind(t, "Parse of invalid UTF-8", err, KindSyntax)
}

// One template renders in many goroutines over the same values.
func TestConcurrentRender(t *testing.T) {
	tmpl := parseT(t, benchTemplate)
	data := benchConversation(t)
	want, err := tmpl.Render(data, Options{Now: corpusNow})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if got, err := tmpl.Render(data, Options{Now: corpusNow}); err != nil || got != want {
					t.Errorf("concurrent Render = %q, %v, want %q", got, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestBenchTemplate(t *testing.T) {
	got, err := parseT(t, benchTemplate).Render(benchConversation(t), Options{Now: corpusNow})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"<|begin|><|head|>system<|end_head|>\n\nToday is 07 Jun 2025\nAnswer briefly.<|eot|>",
		`{"name": "weather", "arguments": {"city": "Zürich", "days": 1, "units": "C"}}<|eot|>`,
		`<|head|>ipython<|end_head|>` + "\n\n" + `{"temperature": 21.5, "sky": "clear"}<|eot|>`,
		"<|head|>user<|end_head|>\n\nAnd tomorrow?<|eot|>",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("bench template: output lacks %q:\n%s", want, got)
		}
	}
}
