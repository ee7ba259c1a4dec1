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

  - what BertNormalizer, BertPreTokenizer and Punctuation ask is Unicode 8.0, of
    the crate unicode_categories, with slips of its own; what StripAccents asks
    is 9.0 as above;
  - lower case is Unicode 17.0, Rust's, and so are grapheme clusters, of the
    crate unicode-segmentation.

All were found by asking the reference about every code point.
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


def age(c):
    name = "Unassigned" if is_surrogate(c) else unicode.age(chr(c))
    return (99, 0) if name == "Unassigned" else tuple(map(int, name.split(".")))


def in_category(prefixes, version, plus=(), minus=()):
    """The code points in categories of a version, with corrections."""
    found = {
        c for c in range(0x110000) if not is_surrogate(c) and age(c) <= version and unicode.category(chr(c)).startswith(prefixes)
    }
    return sorted((found | set(plus)) - set(minus))


def ranges_of(points):
    """[first, last] of each run of code points."""
    out = []
    for c in points:
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def print_set(name, doc, points):
    print(f"\n// {name} {doc}")
    print(f"var {name} = runeSet{{")
    for lo, hi in ranges_of(points):
        print(f"\t{{0x{lo:04X}, 0x{hi:04X}}},")
    print("}")


def print_sets():
    print_set("punctuation8", "is the category P of Unicode 8.0.", in_category("P", (8, 0), plus=[0x166D, 0x111C9]))
    print_set("other8", "is the categories Cc, Cf and Co of Unicode 8.0.", in_category(("Cc", "Cf", "Co"), (8, 0)))
    print_set(
        "nonspacing8",
        "is the category Mn of Unicode 8.0.",
        in_category("Mn", (8, 0), plus=[0x1734, 0x1171E], minus=[0x1885, 0x1886, 0xA9BD, 0x111C9]),
    )
    print_set(
        "combining9", "is the category M of Unicode 9.0.", in_category("M", (9, 0), plus=[0x1CF2, 0x1CF3], minus=[0x111C9])
    )


# Lower case that Unicode 16.0 and 17.0 brought: (first, last, distance, step).
LOWER_SINCE_16 = [
    (0x1C89, 0x1C89, 1, 1),
    (0xA7CB, 0xA7CB, -42343, 1),
    (0xA7CC, 0xA7CE, 1, 2),
    (0xA7D2, 0xA7D4, 1, 2),
    (0xA7DA, 0xA7DA, 1, 1),
    (0xA7DC, 0xA7DC, -42561, 1),
    (0x10D50, 0x10D65, 32, 1),
    (0x16EA0, 0x16EB8, 27, 1),
]


def lowered(c):
    text = chr(c)
    if is_surrogate(c) or c == 0x130:  # which becomes two characters
        return None
    low = text.lower()
    return ord(low) if low != text and age(c) < (16, 0) else None


def print_lower():
    """Runs of letters whose lower case is at the same distance."""
    pairs = {c: low for c in range(0x110000) if (low := lowered(c)) is not None}
    for first, last, distance, step in LOWER_SINCE_16:
        pairs.update({c: c + distance for c in range(first, last + 1, step)})
    runs = []
    for c in sorted(pairs):
        distance = pairs[c] - c
        if runs:
            first, last, d, step = runs[-1]
            if d == distance and c - last <= 2 and (step in (0, c - last)):
                runs[-1] = (first, c, d, c - last)
                continue
        runs.append((c, c, distance, 0))
    print("\n// lowerRuns are the letters that have a lower case, Unicode 17.0, but U+0130.")
    print("var lowerRuns = [...]lowerRun{")
    for first, last, distance, step in runs:
        print(f"\t{{runeRange{{0x{first:04X}, 0x{last:04X}}}, {max(step, 1)}, {distance}}},")
    print("}")


# Marks that came with Unicode 17.0.
EXTEND_17 = [
    (0x1ACF, 0x1ADD), (0x1AE0, 0x1AEB), (0x10EFA, 0x10EFB), (0x11B60, 0x11B67),
    (0x1E6E3, 0x1E6E3), (0x1E6E6, 0x1E6E6), (0x1E6EE, 0x1E6EF), (0x1E6F5, 0x1E6F5),
]  # fmt: skip


def grapheme_class(c):
    if is_surrogate(c):
        return None
    text = chr(c)
    name = unicode.grapheme_cluster_break(text)
    if name == "Other":
        if unicode.is_extended_pictographic(text):
            return "graphemePictographic"
        if unicode.indic_conjunct_break(text) == "Consonant":
            return "graphemeConsonant"
        return None
    if unicode.indic_conjunct_break(text) == "Linker":
        assert name == "Extend"
        return "graphemeLinker"
    return "grapheme" + name.replace("_", "")


def print_graphemes():
    classes = {c: name for c in range(0x110000) if (name := grapheme_class(c)) and not (0xAC00 <= c < 0xD7A4)}
    for lo, hi in EXTEND_17:
        classes.update({c: "graphemeExtend" for c in range(lo, hi + 1)})
    print("\n// graphemeRuns are the characters that grapheme clusters ask about, Unicode")
    print("// 17.0; Hangul syllables are computed.")
    print("var graphemeRuns = [...]graphemeRun{")
    runs = []
    for c in sorted(classes):
        if runs and runs[-1][1] == c - 1 and runs[-1][2] == classes[c]:
            runs[-1][1] = c
        else:
            runs.append([c, c, classes[c]])
    for lo, hi, name in runs:
        print(f"\t{{runeRange{{0x{lo:04X}, 0x{hi:04X}}}, {name}}},")
    print("}")


def print_compatibility():
    print("\n// compatibility holds the full compatibility decompositions, where they differ")
    print("// from the canonical ones, by code point; Unicode 9.0.")
    print("var compatibility = [...]decomposition{")
    for c in filter(known, range(0x110000)):
        text = chr(c)
        to = unicode.normalize("NFKD", text)
        if to != unicode.normalize("NFD", text):
            print(f'\t{{0x{c:04X}, "' + "".join(map(go_escape, to)) + '"},')
    print("}")


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
    print_compatibility()
    print_sets()
    print_lower()
    print_graphemes()


main()
