"""Prints tables.go: the Unicode data that tokenization depends on.

    pip install unicodedataplus==16.0.0.post1
    python3 unicodegen/gen.py | gofmt > tables.go        (go generate does this)

Two versions of Unicode are in it on purpose, because the reference (Hugging
Face tokenizers 0.23) mixes them:

  - general categories are Unicode 16.0: its regular expressions (\\p{L}, \\s)
    run on Oniguruma 6.9.10;
  - decompositions, compositions and combining classes are Unicode 9.0: its
    normalizers run on the crate unicode-normalization-alignments. A character
    that came after 9.0 is left alone. Normalization is stable, so the 9.0 data
    are those of 16.0 without the characters that are younger;
  - "is numeric", which the Digits pre-tokenizer asks, is Unicode 17.0, the
    version of Rust's standard library.

All three were found by asking the reference about every code point.
"""

import unicodedataplus as unicode

BLOCK = 256  # code points per second-stage block

CATEGORIES = (
    "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn"
).split()

# Categories of our own, where a property that matters splits a real one.
SPACE_CONTROL = "CcSpace"  # White_Space controls: tab to carriage return, U+0085
ALPHABETIC_SYMBOL = "SoAlpha"  # circled letters: So, and yet \w
JOIN_CONTROL = "CfJoin"  # \w in Rust's regex crate, which single_word uses
NUMERIC_17 = "CnNumeric"  # unassigned in 16.0, numeric in 17.0
ALL = CATEGORIES + [SPACE_CONTROL, ALPHABETIC_SYMBOL, JOIN_CONTROL, NUMERIC_17]

RANGES = {
    SPACE_CONTROL: [(0x09, 0x0D), (0x85, 0x85)],
    ALPHABETIC_SYMBOL: [(0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189)],
    JOIN_CONTROL: [(0x200C, 0x200D)],
    NUMERIC_17: [(0x11DE0, 0x11DE9), (0x16FF4, 0x16FF6)],
}
SPECIAL = {c: name for name, ranges in RANGES.items() for lo, hi in ranges for c in range(lo, hi + 1)}

NORMALIZATION_VERSION = (9, 0)
HANGUL = range(0xAC00, 0xD7A4)


def is_surrogate(c):
    return 0xD800 <= c < 0xE000


def category(c):
    real = "Cs" if is_surrogate(c) else unicode.category(chr(c))
    name = SPECIAL.get(c, real)
    assert name.startswith(real)
    return name


def known(c):
    """Whether normalization knows c: assigned in NORMALIZATION_VERSION."""
    if is_surrogate(c):
        return False
    age = unicode.age(chr(c))
    return age != "Unassigned" and tuple(map(int, age.split("."))) <= NORMALIZATION_VERSION


def canonical(c):
    """The one-step canonical decomposition of c as code points, or ()."""
    mapping = unicode.decomposition(chr(c))
    if not mapping or mapping.startswith("<"):
        return ()
    return tuple(int(x, 16) for x in mapping.split())


def two_stage(values):
    """Splits one value (a character) per code point into shared blocks."""
    blocks, index = {}, []
    for i in range(0, len(values), BLOCK):
        index.append(blocks.setdefault("".join(values[i : i + BLOCK]), len(blocks)))
    assert len(blocks) <= 256
    return index, list(blocks)


def go_string(chunks):
    return '"" +\n\t' + " +\n\t".join(f'"{c}"' for c in chunks)


def go_quote(text):
    return text.replace("\\", "\\\\").replace('"', '\\"')


def go_escape(rune):
    return f"\\u{ord(rune):04x}" if ord(rune) < 0x10000 else f"\\U{ord(rune):08x}"


def print_table(name, doc, index, blocks):
    rows = [index[i : i + 32] for i in range(0, len(index), 32)]
    print(f"\n// {name}Index gives the block of {name}Blocks for each {BLOCK} code points.")
    print(f"const {name}Index = " + go_string("".join(f"\\x{x:02x}" for x in row) for row in rows))
    print(f"\n// {name}Blocks {doc}")
    halves = [b[i : i + 128] for b in blocks for i in range(0, BLOCK, 128)]
    print(f"const {name}Blocks = " + go_string(go_quote(h) for h in halves))


def print_categories():
    letters = [chr(ord("A") + i) for i in range(len(ALL))]
    print("\n// The categories as they stand in categoryBlocks.")
    print("const (")
    for name, letter in zip(ALL, letters):
        print(f"\tcat{name} category = '{go_quote(letter)}'")
    print(")")
    code = dict(zip(ALL, letters))
    index, blocks = two_stage([code[category(c)] for c in range(0x110000)])
    print_table("category", "holds one category per code point, Unicode 16.0.", index, blocks)


def print_normalization():
    full, pairs, seconds = {}, {}, set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    for c in filter(known, range(0x110000)):
        parts = canonical(c)
        if not parts:
            continue
        assert all(map(known, parts))
        full[c] = unicode.normalize("NFD", chr(c))
        if len(parts) == 2 and unicode.normalize("NFC", chr(c)) == chr(c):
            pairs[parts] = c
            seconds.add(parts[1])

    def properties(c):
        """The fields of normKind, in their order."""
        if not known(c):
            return (0, False, False, False, False)
        text = chr(c)
        first = full.get(c, text)[0]
        return (
            unicode.combining(text),
            unicode.normalize("NFC", text) != text,
            c in seconds,
            ord(first) in seconds or unicode.combining(first) != 0,
            c in full or c in HANGUL,
        )

    values = [properties(c) for c in range(0x110000)]
    kinds = sorted(set(values))
    letters = {kind: chr(ord("0") + i) for i, kind in enumerate(kinds)}
    assert len(kinds) <= ord("~") - ord("0")
    print("\n// normKinds are the combinations of properties that occur; a letter of")
    print("// normBlocks less '0' indexes it.")
    print("var normKinds = [...]normKind{")
    for ccc, *flags in kinds:
        print(f"\t{{{ccc}, " + ", ".join(str(flag).lower() for flag in flags) + "},")
    print("}")
    index, blocks = two_stage([letters[v] for v in values])
    print_table("norm", "holds one kind per code point, Unicode 9.0.", index, blocks)

    print("\n// decompositions holds the full canonical decompositions, by code point;")
    print("// those of Hangul syllables are computed.")
    print("var decompositions = [...]decomposition{")
    for c in sorted(full):
        print(f'\t{{0x{c:04X}, "' + "".join(map(go_escape, full[c])) + '"},')
    print("}")
    print("\n// compositions holds the primary composites, by their two parts.")
    print("var compositions = [...]composition{")
    for (a, b), c in sorted(pairs.items()):
        print(f"\t{{0x{a:04X}, 0x{b:04X}, 0x{c:04X}}},")
    print("}")


def main():
    assert unicode.unidata_version == "16.0.0"
    print("// Code generated by unicodegen/gen.py from unicodedataplus 16.0.0.post1; DO NOT EDIT.")
    print("\npackage tokenizer")
    print_categories()
    print_normalization()


main()
