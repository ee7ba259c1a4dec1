"""Makes features.json: what Python's jinja2, set up as transformers sets it up
for chat templates, gives for templates of our own that use every feature.

    python3 features.py        # needs jinja2 >= 3.1.2
"""
import datetime
import json
import re

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(line)

    def _text(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def strftime_now(layout):
    return datetime.datetime(2025, 6, 7, 8, 9, 10).strftime(layout)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = strftime_now

DATA = {
    "s": "Hello, World", "u": "Straße 你好 ΑΣ", "blank": " \t x \n", "lines": "one\n  two\n\nthree\n", "e": "",
    "i": 7, "f": 2.5, "big": 12345678901234567890, "t": True, "n": None,
    "l": [3, 1, 2], "words": ["b", "A", "c", "a"], "none": [],
    "d": {"b": 1, "a": [1, {"x": "y"}], "items": "I", "é": "\"q\"\n"},
    "rows": [{"k": "x", "v": 2}, {"k": "X", "v": 1}, {"k": "y", "v": None}, {"k": "z"}],
    "html": "<a href='x'>&\"</a>",
    "tree": [{"n": "a", "c": [{"n": "b", "c": [{"n": "c", "c": []}]}, {"n": "d", "c": []}]}],
}

# One line is one case; "|" in a name has no meaning.
EXPRESSIONS = {
    "numbers": """
        1 + 1.0
        7 // 2, -7 // 2, 7 % -3, -7 % 3, 7.5 // 2, -7.5 % 2
        1 / 2, 4 / 2, 0 / -3
        2 ** 10, 2 ** -1, 2 ** 0.5, (-2) ** 3, -2 ** 2
        1e3, 1e16, 1e15, 1.5e-7, 0.0001, 1e100, 123456789.123
        0x1f, 0b101, 0o17, 1_000, 1_0.5
        9223372036854775807 + 1, -9223372036854775808 - 1, big * big, -big, big % 97, big // 1000
        true + 1, true * 3, -true, +true
        0.1 + 0.2, 1 - 0.9, 2.675
        1 == 1.0, 1 == true, big == big * 1.0, 1 < 1.5 < 2, 3 > 2 >= 2 != 3
        9007199254740993 == 9007199254740992.0
        1 / 0
        1 % 0
        1.5 // 0
        'a' + 1
        1 + 'a'
        none + 1
        [1] + 'a'
        -'a'
        2.0 ** 10000
    """,
    "printing": """
        none, true, false, 1, 1.0, 'a', [1, 'b'], (1,), (), {}, {'k': none, 1: 2.0}
        none
        ['it\\'s', "say \\"x\\"", 'both\\'"', 'tab\\t nl\\n cr\\r \\\\', '\\x07 \\x7f \\u200b \\u00e9 \\U0001f600']
        d.keys(), d.values(), rows[0].items()
        range(3), range(1, 9, 2)
        undefined_name
        [undefined_name]
        namespace(a=1, b='x')
        d
        'a' 'b' "c"
        "\\101\\x41\\u0041", '\\d \\é'
    """,
    "strings": """
        s.upper(), s.lower(), s.title(), s.swapcase(), u.upper(), u.lower(), u.title(), u.casefold(), 'ǆ'.capitalize()
        blank.strip(), blank.lstrip(), blank.rstrip(), 'xxaxx'.strip('x'), 'abcba'.lstrip('ab'), 'a'.strip(none)
        s.split(), s.split(','), s.split('l', 1), s.rsplit('l', 1), ' a  b '.split(), ' a  b c'.rsplit(none, 1), 'a,b'.split(sep=',', maxsplit=0)
        lines.splitlines(), lines.splitlines(true), 'a\\r\\nb\\x0bc\\u2028d'.splitlines()
        s.startswith('He'), s.startswith(('x', 'H')), s.endswith('ld'), s.startswith('l', 2), s.startswith('')
        s.replace('l', 'L'), s.replace('l', 'L', 1), 'aa'.replace('', '-'), s.replace('zz', '')
        s.find('o'), s.find('o', 5), s.rfind('o'), s.find('zz'), s.index('W'), s.count('l'), u.find('好'), 'aaa'.count('')
        s.index('zz')
        'a=b=c'.partition('='), 'a=b=c'.rpartition('='), 'abc'.partition('='), 'abc'.rpartition('=')
        '42'.zfill(5), '-42'.zfill(5), 'a'.center(4), 'ab'.center(5, '*'), 'a'.ljust(3, '.'), 'a'.rjust(3)
        'a\\tb'.expandtabs(4), 'prefix-x'.removeprefix('prefix-'), 'x.py'.removesuffix('.py')
        'a1'.isalnum(), 'ab'.isalpha(), '12'.isdigit(), '²'.isdigit(), '½'.isnumeric(), '1'.isdecimal(), ' \\t'.isspace(), 'a_1'.isidentifier(), ''.isalpha()
        'Ab'.istitle(), 'ab'.islower(), 'AB1'.isupper(), '1'.isupper(), 'é'.isascii(), 'a\\n'.isprintable()
        ', '.join(words), ''.join('abc'), '-'.join(d)
        ','.join(l)
        s.replace('a')
        s.replace(old='a', new='b')
        s.split('')
        s.upper(1)
        s.nothing()
        s.nothing is defined, s.upper is defined, s.encode is defined
        'a' in s, 'W' in s, 'x' not in s, '' in e
        1 in s
        'ab' * 3, 3 * 'ab', 'ab' * -1, 'ab' * true
        'a' < 'b', 'a' < 'B', 'é' > 'z', 'a' == 'a', 'a' ~ 1 ~ none ~ 1.0 ~ [1]
        'a' < 1
    """,
    "formatting": """
        '%s|%5s|%-5s|%r|%d|%5d|%05d|%+d|%x|%X|%#o|%c|%%' % ('a', 'b', 'c', 'd', 1.9, 2, -3, 4, 255, 255, 8, 'z')
        '%f|%.2f|%e|%g|%g|%10.3f|%-8.1f|%+.1f' % (1.5, 2.675, 12345.678, 0.0001, 1e20, 3.14159, 2.25, 1)
        '%(a)s-%(b)03d' % {'a': 'x', 'b': 7}
        '%s' % 'x', '%s' % none, '%s' % [1], '%.2s' % 'abc', '%*d' % (5, 3)
        '%s %s' % 'x'
        '%s' % (1, 2)
        '%d' % 'x'
        '{} {}'.format(1, 'a'), '{1}{0}'.format('a', 'b'), '{x}'.format(x=1), '{{}}'.format()
        '{0[k]} {0.k} {1[0]}'.format(rows[0], l)
        '{:>5}|{:<5}|{:^5}|{:*^7}|{:05d}|{:+}|{:,}|{:_}|{:.2f}|{:e}|{:g}|{:%}|{:x}|{:#b}'.format('a', 'b', 'c', 'd', 42, 7, 1234567, 1234567, 2.675, 12345.6, 0.00001, 0.25, 255, 5)
        '{!r} {!s} {!a}'.format('é', 'é', 'é'), '{:{}}'.format('a', 4)
        '{:10.3}|{:.3}|{}'.format(3.14159, 'abcdef', 1e16)
        '{}'.format()
        '{a}'.format(b=1)
        '{a.b}'.format_map({'a': {'b': 1}})
        'x: %s' | format(1), '%s %s' | format('a', 'b'), '%(q)s' | format(q=1)
    """,
    "formatting in detail": """
        '{:14}|{:#x}|{:>015}|{:*<8}|{: d}|{:^9.2e}|{:_x}|{:+,.1f}|{:010,}|{:G}'.format(true, 255, -7, 'ab', 5, 2.5, 1234567, 1234.56, 1234567, 1e20)
        '{:=+7}|{:05}|{:.0f}|{:#.0f}|{:.3}|{:8.3}|{:c}|{:o}|{:n}|{:.2%}'.format(-3, 'ab', 2.5, 2.5, 'abcdef', 1.0, 65, 8, 1234, 0.12345)
        '{:-}'.format('a')
        '{:=5}'.format('a')
        '{:#}'.format('a')
        '{:,}'.format('a')
        '{:d}'.format('a')
        '{:d}'.format(1.5)
        '{:.2d}'.format(1)
        '{:,n}'.format(1)
        '{:+c}'.format(65)
        '{:#c}'.format(65)
        '{:c}'.format(-1)
        '{:5}'.format(none)
        '{:q}'.format(1)
        '{:5'.format(1)
        '}'.format(1)
        '{0} {}'.format(1)
        '{!x}'.format(1)
        '{a[}'.format(a=1)
        '%c|%5c|%-3c|%c' % (65, 'x', 'y', 'é'), '%.3d|%#x|%#X|%+.4d|% d' % (5, 255, 255, 7, 3), '%5.1f|%-7.2e|%#g|%G' % (1.25, 12345.0, 1.0, 1e-10)
        '%a' % 'é', '%i %u' % (1, 2), '%-5s|%5.1s|' % ('a', 'bc'), '%s' % (undefined_name,), '' % undefined_name, '' % {}, '' % []
        '' % 1
        '%' % 1
        '%q' % 1
        '%d' % 1.5, '%d' % true, '%x' % big
        '%x' % 1.5
        '%c' % 'ab'
        '%c' % 1.5
        '%f' % 'a'
        '%(a' % {}
        '%(a)s' % 1
        '%(a)s' % {}
        '%d' % undefined_name
        '%f' % undefined_name
        1e16 | round(-3), 12345.678 | round(-2), 0.5 | round, 1.5 | round, -2.5 | round, 15 | round(-1), 25 | round(-1), 1e300 | round(2), 5 | round(1, 'floor'), 2.345 | round(2, 'ceil')
    """,
    "methods": """
        l.count(1), l.index(1), l.copy(), (1, 2, 1).count(1), (1, 2).index(2), range(5).index(3), range(5).count(9), [1, 1.0, true].count(1)
        l.index(9)
        l.index(3, 1)
        dict.fromkeys('ab'), dict.fromkeys([1], 2), d.fromkeys('a')
        i.real, i.imag, f.real, f.imag, i.numerator, i.denominator, i.bit_length(), big.bit_length(), f.is_integer(), 2.0.is_integer is defined, t.real, i.conjugate()
        range(1, 9, 2).start, range(1, 9, 2).stop, range(1, 9, 2).step
        {'a': 1}.keys() == {'a': 2}.keys(), {'a': 1}.items() == {'a': 1}.items(), {'a': 1}.values() == {'a': 1}.values(), {'a': 1}.keys() == ['a']
        range(3) == range(3), range(0) == range(5, 0), range(0, 3, 2) == range(0, 4, 2), [range(3)] == [range(4)]
        big == 12345678901234567890, big < 1e19, big > 1e20, 9007199254740993 < 9007199254740992.0, 1 < 'inf' | float, (1 > 'nan' | float)
        {1e20: 'a'}[100000000000000000000], {(1, 'a'): 2}[(1.0, 'a')], {none: 1}[none], {1.5: 2}[1.5]
        {'a': 1}.items() | reverse | list, {'a': 1}.keys() | last, range(3) | reverse | list, undefined_name | reverse | list, s | map('upper') | reverse | join
        '٣' | int, ' -5 ' | int, '0b11' | int(base=0), '0b11' | int(base=2), '12' | int(base=37)
        'abc' | attr('upper') is callable, d | attr('__class__') is defined
        undefined_name | attr('x')
        5 | last
        'ab' | striptags, 'a <b>c</b> &amp; <!-- x --> d' | striptags, 'well-known self-made' | wordwrap(8), 'aaaa-bbbb' | wordwrap(6, break_on_hyphens=false), 'abcdefgh ij' | wordwrap(4, false)
        'x' | center(5, 1)
        loop is defined, self is defined, caller is defined
    """,
    "indexing": """
        l[0], l[-1], l[1:], l[::-1], l[:2], l[5:], l[-2:], l[::2], (1, 2, 3)[1:], s[1], s[-1], s[::-1], u[1:3], u[6]
        l[9] is defined, d['zz'] is defined, d.zz is defined, l['a'] is defined, s[0].upper()
        d['b'], d.b, d['items'], d.items is callable, d.a[1].x, d['a'][1]['x'], d['é']
        rows[0].k, rows.0.k, rows[-1]['k'], rows[0]['v']
        range(10)[2:8:2] | list, range(10)[-1], range(3)[::-1]
        l[9].x
        d.zz.x
        undefined_name.x
        undefined_name['x']
        n[1:]
        i[0] is defined
        d[1:]
        l['a':]
        l[::0]
        d.__class__ is defined
        d.__class__.x
        l.append(1)
        d.update({})
        d.pop('a')
        l.append is defined
        none.x is defined
        none.x.y
    """,
    "dicts": """
        d | length, d | list, d.keys() | list, d.values() | list, rows[0].items() | list
        d.get('b'), d.get('zz'), d.get('zz', 5), d.get(n)
        d.get([])
        'b' in d, 'zz' in d, 'b' not in d, 1 in {1: 2}, 1.0 in {1: 2}, true in {1: 2}
        {1: 'a', 1.0: 'b', true: 'c'}
        {[]: 1}
        [] in d
        {'a': 1} == {'a': 1.0}, {'a': 1, 'b': 2} == {'b': 2, 'a': 1}, {'a': 1} != {}
        dict(a=1, b=2), dict([('x', 1)], y=2), dict({'a': 1}, a=2)
        dict([1])
        {'b': 1, 'a': 2} | items | list, rows[0] | items | first
        [1] | items | list
        undefined_name | items | list
        {'b': 1, 'A': 2, 'c': 0} | dictsort, {'b': 1, 'A': 2} | dictsort(true), {'b': 1, 'A': 2} | dictsort(by='value', reverse=true)
        l | dictsort
        d.copy() == d, {'a': 1}.items() | last, {'a': 1}.keys() == {'a': 2}.keys()
        {**d}
    """,
    "logic": """
        1 and 0, 0 or 'x', not 1, not none and true, 1 if e else 2, (1 if e) is undefined
        not '' and not [] and not {} and not 0 and not 0.0 and not none
        none == false, none is none, [] == (), [1] == [1.0], (1, 2) < (1, 3), [1, 'a'] == [1, 'a']
        [1] < ['a']
        1 < 'a'
        none < 1
        undefined_name == none, undefined_name == undefined_other, undefined_name != 1
        undefined_name < 1
        undefined_name + 1
        undefined_name or 'default', undefined_name | default('d'), e | default('d'), e | default('d', true), none | d('x')
        'x' in undefined_name
        1 in none
        1 in 5
    """,
    "tests": """
        n is none, n is defined, undefined_name is defined, undefined_name is undefined, 1 is not none
        s is string, 1 is string, l is string, l is iterable, s is iterable, 1 is iterable, undefined_name is iterable
        l is sequence, d is sequence, s is sequence, 1 is sequence, undefined_name is sequence, d.items() is sequence, range(2) is sequence
        d is mapping, l is mapping, 1 is number, 1.5 is number, true is number, '1' is number
        1 is integer, true is integer, 1.0 is integer, 1.0 is float, 1 is float, true is boolean, 1 is boolean
        true is true, 1 is true, false is false, 0 is false, none is false
        3 is odd, 4 is even, 9 is divisibleby 3, 9 is divisibleby(2), -1 is odd
        1 is eq 1, 1 is equalto 2, 1 is ne 2, 3 is gt 2, 3 is ge 3, 1 is lt 2, 1 is le 0, 3 is greaterthan 2, 1 is lessthan 2
        1 is in [1, 2], 'a' is in 'abc', 1 is not in [2], n is sameas none, true is sameas true
        'ab' is lower, 'AB' is upper, 'x' is escaped, ('x' | escape) is escaped, s.upper is callable, range is callable, 1 is callable
        'upper' is filter, 'nope' is filter, 'odd' is test, 'nope' is test
        'a' is odd
        1 is nothing
        1 is odd is even
    """,
    "filters text": """
        s | upper, s | lower, 'heLLo' | capitalize, 'hello-world (foo) bar' | title, blank | trim, 'xax' | trim('x'), none | trim, 5 | upper
        s | replace('l', 'L'), s | replace('l', 'L', 1), 112 | replace(1, 2), lines | indent, lines | indent(2, true), lines | indent('> ', blank=true), lines | indent(width=1)
        none | indent
        5 | indent
        s | center(20) ~ '|', s | truncate(8), s | truncate(8, true), s | truncate(11), s | truncate(5, true, '', 0), 'a b c d e f' | truncate(7, leeway=0)
        s | truncate(2)
        'a b  c' | wordcount, 'the quick brown fox' | wordwrap(9), 'abcdefgh' | wordwrap(3), 'a-b cd' | wordwrap(3)
        html | escape, html | e | e, html | forceescape, html | safe, html | striptags, ('<b>' | escape) ~ '<i>', ('<b>' | escape) + '<i>', [html | e]
        'a b/c?é' | urlencode, {'a b': 'c/d', 'e': 1} | urlencode
        '12' | int, '12.7' | int, 'x' | int, 'x' | int(5), '0x1f' | int(base=16), 12.9 | int, none | int, true | int, ' 42 ' | int, '1_0' | int, big | int
        '1.5' | float, 'x' | float, 3 | float, 'inf' | float, none | float(2.5), '1e3' | float
        undefined_name | int
        2.5 | round, 3.5 | round, 2.675 | round(2), 1234 | round(-2), 2.1 | round(0, 'ceil'), 2.9 | round(method='floor'), 5 | round, 2.25 | round(1)
        'a' | round
        -3 | abs, -2.5 | abs, true | abs
        'a' | abs
        1000 | filesizeformat, 1 | filesizeformat, 123456789 | filesizeformat(true), 0 | filesizeformat
        1 | string, none | string, [1, 'a'] | string, 1.0 | string
    """,
    "filters sequence": """
        l | length, s | length, u | length, d | count, none | length
        5 | length
        none | length
        n | length
        l | first, l | last, none | first, s | first, s | last, d | first
        5 | first
        l | sort, words | sort, words | sort(case_sensitive=true), l | sort(reverse=true), rows[:2] | sort(attribute='v'), rows | sort(attribute='k') | map(attribute='k') | list, {'b': 1, 'a': 2} | sort
        rows | sort(attribute='v')
        [1, 'a'] | sort
        rows[:2] | sort(attribute='k,v') | map(attribute='v') | list
        l | reverse | list, s | reverse, d | reverse | list, (1, 2) | reverse | list, l | map('string') | reverse | list
        [1, 2, 1, 'a', 'A'] | unique | list, ['a', 'A'] | unique(true) | list, rows | unique(attribute='k') | map(attribute='k') | list
        [1, 2, 3, 4, 5] | batch(2) | list, [1, 2, 3] | batch(2, 'x') | list, [1, 2, 3, 4, 5] | slice(2) | list, [1, 2, 3] | slice(2, 'x') | list
        l | sum, [1.5, 2] | sum(start=1), rows[:2] | sum(attribute='v'), [[1], [2]] | sum(start=[]), none | sum
        ['a'] | sum
        l | min, l | max, words | min, words | max(case_sensitive=true), rows[:2] | max(attribute='v'), (none | min) is undefined
        l | join(', '), words | join, rows | join('-', attribute='k'), 'abc' | join('.'), undefined_name | join(','), d | join(1)
        5 | join
        l | list, s[:3] | list, d | list, undefined_name | list, range(3) | list
        5 | list
        l | map('string') | list, words | map('upper') | join, rows | map(attribute='k') | list, rows | map(attribute='v', default=0) | list, l | map('default', 9) | list, none | map('upper') | list
        rows | map(attribute='k.0') | list, l | map('nofilter') | list
        l | map | list
        l | select('odd') | list, [0, 1, none, 'a'] | select | list, l | reject('gt', 1) | list, [1, 'a'] | select('string') | list, l | select('in', [1, 2]) | list
        rows | selectattr('v') | map(attribute='k') | list, rows | selectattr('k', 'equalto', 'x') | list, rows | rejectattr('v') | map(attribute='k') | list, rows | selectattr('v', 'defined') | map(attribute='k') | list, rows | rejectattr('v', 'none') | list | length
        l | selectattr | list
        rows | groupby('k') | list, rows[:2] | groupby('k', case_sensitive=true), rows[:2] | groupby('v') | map(attribute='grouper') | list
        l | select('odd') | length
        (l | select('odd'))[0] is defined
        (l | select('odd'))[0:]
        l | attr('count') is callable, d | attr('b') is defined, d | attr('nope') is defined
        x | nofilter
    """,
    "tojson": """
        d | tojson, l | tojson, s | tojson, u | tojson, none | tojson, n | tojson, true | tojson, 1.0 | tojson, 1e3 | tojson, big | tojson, html | tojson
        d | tojson(indent=2), l | tojson(2), [] | tojson(indent=2), {} | tojson(indent=1), [[], {'a': []}] | tojson(indent=4), l | tojson(indent=0), l | tojson(indent='--')
        u | tojson(ensure_ascii=true), '😀' | tojson(true), {'b': 1, 'a': 2} | tojson(sort_keys=true), {'a': [1, 2]} | tojson(separators=(',', ':'))
        {1: 2, none: 3, true: 4, 1.5: 5} | tojson, (1, 'a') | tojson, '\\x00\\x1f\\x7f\\u2028' | tojson, 'inf' | float | tojson
        undefined_name | tojson
        {(1, 2): 3} | tojson
        range(3) | tojson
        [undefined_name] | tojson
        {'b': 1, 1: 2} | tojson(sort_keys=true)
        l | tojson(nothing=1)
    """,
    "functions": """
        range(3) | list, range(1, 3) | list, range(5, 0, -2) | list, range(0) | list, 2 in range(3), range(100000) | length
        range(100001)
        range(1.5)
        range(0, 1, 0)
        strftime_now('%Y-%m-%d %H:%M:%S %a %A %b %B %d %j %y %p %I %%'), strftime_now('%-d %e %-I %D %T %F %U %W %w %u %c|%x|%X')
        raise_exception('own words: ' ~ s)
        raise_exception()
        joiner is callable, namespace(a=1).a, namespace({'a': 2}).a, namespace(a=1).b is defined
        s()
        undefined_name()
        none()
        'a'.upper(*[1])
        '{}{}'.format(*'ab'), '{x}'.format(**{'x': 1}), '{}{y}'.format(*[1], **{'y': 2})
        '{}'.format(**[1])
    """,
    "syntax": """
        1 +
        (1
        [1, 2
        1 2
        'open
        {'a' 1}
        1 if
        a b
        1 = 2
        |upper
        'a' | upper()()
        1..a
        a.1.b is defined
        {'a': 1,}, [1, 2,], (1,), (1, 2,)
        not not true, - - 1, 1 if true else 2 if false else 3
        1 not in [2], not 1 in [2], 1 is not none and 2 is defined
        ({'a': {'b': [1, (2, '}}')]}})['a']['b'][1][1]
        '{{ %} #}'
    """,
}

TEMPLATES = {
    "whitespace": [
        "a\n", "a\n\n", "a\r\nb\rc", "  {% if t %}\n  x\n  {% endif %}\n y", "{% if t %} x {% endif %}", "a {{- 1 -}} b",
        "a\n  {{ 1 }}\n b", "a {%- if t -%} b {%- endif -%} c", "  {%+ if t %}x{% endif +%}\ny", "{% if t %}\n\nx{% endif %}",
        "a\n\t{# note #}\nb", "a {#- note -#} b", "a {# x\ny #}b", "{# open", "a{#", "{% raw %}{{ x }}{% endraw %}", " {%- raw -%} {{ x }} {%- endraw -%} ",
        "{% raw %}\nx\n{% endraw %}\ny", "{% raw %}", "{{ 1 }}\n", "{{ 1 }}\n\n", "x{{ '\n' }}", "{%- set a = 1 %}\n{{ a }}", "\n  {% set a = 1 %}  \nb",
        "\u00a0\u2003{%- if t %}x{% endif %}", "a{{ '%}' }}b{% set x = '}}' %}{{ x }}", "{", "{ {", "{{ '{{' }}",
    ],
    "set": [
        "{% set a = 1 %}{{ a }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = [1] %}", "{% set a, b = [1, 2, 3] %}", "{% set a, b = 5 %}",
        "{% set (a, (b, c)) = (1, (2, 3)) %}{{ a }}{{ b }}{{ c }}", "{% set a %}x{{ 1 }}{% endset %}[{{ a }}]", "{% set a | upper | trim %} x {% endset %}[{{ a }}]",
        "{% set ns = namespace(a=1) %}{% for x in l %}{% set ns.a = ns.a + x %}{% endfor %}{{ ns.a }}", "{% set d.x = 1 %}", "{% set nothing.x = 1 %}",
        "{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}", "{% set 1 = 2 %}", "{% set none = 2 %}", "{% set true = 2 %}", "{% set a = %}",
        "{% set ns = namespace() %}{% set ns.a %}x{% endset %}{{ ns.a }}", "{% set nothing.a %}x{% endset %}", "{% set s.a %}x{% endset %}",
        "{% set a = 1, 2 %}{{ a }}", "{% set a = s %}{% set s = 1 %}{{ a }}{{ s }}", "{% set ns = namespace(a=1) %}{% set ns._p = 1 %}{{ ns._p }}",
    ],
    "scope": [
        "{% set x = 0 %}{% for i in l %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}", "{% for i in l %}{% set y = i %}{% endfor %}{{ y }}",
        "{% if t %}{% set y = 1 %}{% endif %}{{ y }}", "{% for i in l %}{% if i == 1 %}{% set s = 'in' %}{% endif %}{{ s }},{% endfor %}{{ s }}",
        "{% set x = 1 %}{% macro m() %}{{ x }}{% set x = 2 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}", "{% macro m() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ m() }}{% set x = 2 %}{{ m() }}",
        "{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}", "{% set i = 9 %}{% for i in l %}{{ i }}{% endfor %}{{ i }}",
        "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}",
        "{% for i in [1] %}{% for j in [2] %}{% set z = i + j %}{{ z }}{% endfor %}{{ z }}{% endfor %}", "{% for x in l %}{% if loop.first %}{% set p = x %}{% else %}{{ p }}{% endif %}{% endfor %}",
        "{% generation %}{% set g = 1 %}{{ g }}{% endgeneration %}{{ g }}", "{% filter upper %}{% set g = 'a' %}{{ g }}{% endfilter %}{{ g }}", "{% set q %}{% set g = 1 %}{{ g }}{% endset %}{{ q }}{{ g }}",
        "{% block one %}{% set b = 1 %}{{ b }}{{ s }}{% endblock %}{{ b }}", "{% set v = 1 %}{% block one %}{{ v }}{% endblock %}{{ self.one() }}", "{% for i in l %}{% block one scoped %}{{ i }}{% endblock %}{% endfor %}", "{% for i in l %}{% block one %}{{ i }}{% endblock %}{% endfor %}",
        "{% if false %}{% set s = 1 %}{% endif %}{{ s }}", "{% set _x = 1 %}{% macro m() %}{{ _x }}{% endmacro %}{{ m() }}", "{% autoescape false %}{{ html }}{% endautoescape %}",
    ],
    "for": [
        "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }};{% endfor %}",
        "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }};{% endfor %}", "{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for x in [1, 1, 2] %}{{ loop.changed(x) }}{% endfor %}",
        "{% for x in none %}{% else %}empty{% endfor %}", "{% for x in none %}a{% endfor %}", "{% for x in n %}{% endfor %}", "{% for x in 5 %}{% endfor %}", "{% for x in undefined_name %}a{% else %}b{% endfor %}",
        "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for a, b in [(1, 2), (3, 4)] %}{{ a }}{{ b }}{% endfor %}", "{% for c in 'aé' %}{{ c }};{% endfor %}",
        "{% for x in l if x > 1 %}{{ loop.index }}{{ x }}{{ loop.length }}{{ loop.last }}{% endfor %}", "{% for x in l if x > 5 %}{% else %}none{% endfor %}", "{% for x in l if x is odd %}{{ x }}{% endfor %}",
        "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "{% break %}", "{% for x in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
        "{% for x in l %}{% continue %}{% else %}else{% endfor %}", "{% for x in l %}{% break %}{% else %}else{% endfor %}", "{% for x in l %}a{% break %}{% else %}else{% endfor %}",
        "{% for t in tree recursive %}{{ t.n }}{{ loop.depth }}({{ loop(t.c) }}){% endfor %}", "{% for t in tree recursive %}{{ loop.depth0 }}{% if t.c %}{{ loop(t.c) }}{% endif %}{% else %}-{% endfor %}", "{% for x in l %}{{ loop(x) }}{% endfor %}",
        "{% for x in l %}{% for y in l %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}", "{% for x in l | map('string') %}{{ loop.length }}{{ loop.nextitem }}{{ x }};{% endfor %}", "{% for x in l %}{{ loop.nothing is defined }}{% endfor %}", "{% for x in l %}{{ loop.nothing.x }}{% endfor %}",
        "{{ loop is defined }}{% for x in l %}{% set loop = 1 %}{% endfor %}", "{% set g = l | map('string') %}{{ g | list }}{{ g | list }}", "{% for x in range(3) %}{{ x }}{% endfor %}", "{% for x in (1, 2) %}{{ x }}{% endfor %}", "{% for x in 1, 2 %}{{ x }}{% endfor %}",
        "{% for x in l %}{{ loop.cycle() }}{% endfor %}", "{% for x in l %}{% set q %}{% if loop.first %}{% continue %}{% endif %}{{ x }}{% endset %}{{ q }}{% endfor %}",
    ],
    "if": [
        "{% if l %}a{% elif t %}b{% else %}c{% endif %}", "{% if e %}a{% elif t %}b{% else %}c{% endif %}", "{% if e %}a{% elif n %}b{% else %}c{% endif %}", "{% if %}{% endif %}", "{% if t %}", "{% endif %}", "{% if t %}{% endfor %}", "{% if t %}{% else %}{% elif t %}{% endif %}",
        "{% if undefined_name %}a{% else %}b{% endif %}", "{% if undefined_name.x %}a{% endif %}", "{% if false %}{{ x | nofilter }}{% endif %}ok", "{% if true %}{{ x | nofilter }}{% endif %}", "{% if false %}{{ x is nothing }}{% endif %}ok", "{{ 1 if true else x | nofilter }}", "{% unknown %}", "{% if t: %}a{% endif %}",
        "{% print 1, s %}", "{% %}",
    ],
    "macro": [
        "{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=1, a=0) }}{{ m() }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(x=2) }}",
        "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}", "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(5) }}", "{% macro m() %}  x  {% endmacro %}[{{ m() | trim }}]", "{% macro m() %}{{ caller('q') }}{% endmacro %}{% call(x) m() %}<{{ x }}>{% endcall %}",
        "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}", "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}", "{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) }}", "{% macro m(a, b=1, c) %}{% endmacro %}",
        "{{ m() }}{% macro m() %}{% endmacro %}", "{% macro m(a, b) %}{% endmacro %}{{ m.name }}{{ m.arguments }}{{ m.caller }}{{ m.catch_varargs }}{{ m }}", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "{% macro m(x) %}{% for i in x %}{{ i }}{{ loop.index }}{% endfor %}{% endmacro %}{{ m(l) }}",
        "{% call 5 %}{% endcall %}", "{% macro m(caller) %}{{ caller() }}{% endmacro %}", "{% macro m(a) %}{{ a is defined }}{{ a }}{% endmacro %}{{ m() }}", "{% set x = 'abc' %}{% macro m(x) %}{{ x }}{% endmacro %}{{ m('q') }}{{ x }}", "{% set f %}{% macro m() %}y{% endmacro %}{{ m() }}{% endset %}{{ f }}",
        "{% filter upper %}a{{ s }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}aaa{% endfilter %}", "{% generation %} x {{ s }} {% endgeneration %}", "{% for x in l %}{% generation %}{% break %}{% endgeneration %}{% endfor %}",
        "{% set j = joiner('-') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}", "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.reset() }}{{ c.current }}", "{{ cycler() }}",
    ],
}


def cases():
    for group, text in EXPRESSIONS.items():
        for line in text.strip().splitlines():
            yield group, "{{ " + line.strip() + " }}"
    for group, templates in TEMPLATES.items():
        for template in templates:
            yield group, template


KINDS = {
    "TemplateSyntaxError": "syntax", "TemplateAssertionError": "syntax", "SyntaxError": "syntax", "UndefinedError": "undefined",
    "SecurityError": "security", "TemplateError": "raised", "TypeError": "type", "AttributeError": "type",
}


def kind(error):
    name = type(error).__name__
    if name == "TemplateRuntimeError":
        return "syntax" if str(error).startswith("No ") else "type"
    return KINDS.get(name, "value")


def main():
    out = []
    for group, template in cases():
        case = {"group": group, "template": template}
        try:
            case["out"] = env.from_string(template).render(**json.loads(json.dumps(DATA)))
        except Exception as e:
            case["kind"], case["error"] = kind(e), str(e)
        if re.search(r" at 0x[0-9a-f]+", case.get("out", "")):
            raise SystemExit(f"not deterministic: {template}")
        out.append(case)
    with open("features.json", "w") as f:
        f.write('{"data": ' + json.dumps(DATA, ensure_ascii=False) + ',\n"cases": [\n')
        f.write(",\n".join(json.dumps(c, ensure_ascii=False) for c in out))
        f.write("\n]}\n")
    print(len(out), "cases,", sum("out" in c for c in out), "with output")


main()
