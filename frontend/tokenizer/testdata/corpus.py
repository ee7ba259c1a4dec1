"""Prints the test texts: python3 corpus.py | gzip -9n > corpus.json.gz

Hand-made cases for everything that pre-tokenizers and normalizers look at, and
random strings from pools of characters that meet each other badly.
"""

import json
import random

RANDOM_CASES = 900
RANDOM_CODE_POINT_CASES = 300

HAND_MADE = [
    "",
    " ",
    "  ",
    "\n",
    "Hello, world!",
    "   leading   and   inner   and trailing   ",
    # contractions
    "I'm sure you're right; he'll say they'd've done it, but we don't. It's o'clock's.",
    "I'M SURE YOU'RE RIGHT; HE'LL SAY THEY'D'VE. iT'S 'S 's ' s '' ''s '\u017f '\u017fx x'\u017f '\u212a 'lL 'Ll 'rE 'Ve",
    "can’t won’t ‘quoted’ it‘s 'd'D'm'M't'T're'RE'v 'l 'r",
    # numbers
    "0 12 123 1234 12345 123456 1234567 3.14159 1,000,000.00 -1e-10 0x7fff 1st 2nd b2b 4U",
    "٠١٢٣٤٥٦ ०१२३ ²³¹ ½ ¼x ⅷ Ⅷ ①②③ ㊿ 一二三 𝟘𝟙𝟚 𐄇𐄈 ০১ 𑷠𑷡 𖿴",
    # white space
    "a b  c   d    e\tf\t\tg \th \t i\n\nj \n k\n \nl\n  m\r\nn\r\n\r\no\r\rp \r\n q",
    "a\u00a0b\u00a0\u00a0c\u3000d\u3000\u3000e\u2028f\u2029g\u0085h\u000bi\u000cj\u1680k\u2000l\u2003\u2003m\u202fn\u205fo",
    "no space: a\u200bb\u200b\u200bc\ufeffd\u180ee\u2060f \x1cg\x1d\x1eh\x1f",
    "end   ",
    "end\n",
    "end \n \n",
    "end\t\t",
    "\n\n\n",
    "   \n   \n   x",
    "\r\n\r\n  y",
    "\tif x:\n\t\treturn y\n\n\n\n",
    "    indented\n        more\n    less\n",
    "x" + " " * 33 + "y" + " " * 100 + "z" + "\n" * 50 + "q" + "\t" * 30 + "w" + " \n" * 20 + "v" + " " * 40,
    # scripts
    "Die Königin sprach: »Spieglein an der Wand«, GROẞE Straße ǅungla ﬁne ﬀ",
    "Η γρήγορη αλεπού. ΣΊΣΥΦΟΣ ς Привет, мир! Ёжик їжак Съешь ещё",
    "שָׁלוֹם עוֹלָם 123 السَّلَامُ عَلَيْكُمْ ١٢٣ ﷺ لا",
    "नमस्ते दुनिया क्षत्रिय বাংলা ১২ தமிழ் மொழி ไทยไม่มีช่องว่าง မြန်မာ ភាសាខ្មែរ བོད་སྐད",
    "中文English混合123文本，测试！「引号」…——《书》ＡＢＣ１２３　全角 ひらがなカタカナ漢字ｶﾀｶﾅ々〆",
    "한국어 문장 \u1112\u1161\u11ab\u1100\u1173\u11af ㅎㅏㄴ \uac00\u11a8 \uac01\u11a8 \u1100\uac00 \u1160\u11a7",
    "ᏣᎳᎩ ꭰꭱ ႠႡႢ გამარჯობა ሰላም ልዑል 𞤀𞤣 𐐀𐐨 ⵜⵉⴼⵉ",
    # emoji and symbols
    "👨‍👩‍👧‍👦 👩🏽‍🚀 🏳️‍🌈 🇩🇪🇺🇸 1️⃣ ❤️ 😀😃😄 ☺️ ©️™ 🫠🫨🪿🫩",
    "∑∫∂√∞≠≤≥ 𝒜𝓑𝔄𝕬 αβγ ℵ ℝ ∀x∈ℝ: ⌈x⌉ = −⌊−x⌋ ½⅓ →⇒ ²ⁿ ªº ʰʷ ꟸ ⓐⒷ 🄰🅰",
    "!!! ??? ... --- ___ *** /// \\\\\\ ((([[[{{{}}}]]])))!@#$%^&*()_+-=[]{}|;':\",./<>?`~ ¡¿«»„“”‘’–—…•§¶",
    "a!\n?\r\n.\n\n ,\n/\n //\n!/\r/ $/x",
    # case changes, which o200k splits at
    "CamelCaseWord snake_case kebab-case HTTPServer XMLHttpRequest iPhone McDonald's ǅ ǈabc ᾈ ʰA Aʰb ABCʰ É\u0301x A\u0301B",
    # normalization
    "e\u0301 a\u030a \u212b A\u030a \u1e9b\u0323 \u0344 \u0958 \u2126 \u212a ﬁ \u0041\u0301\u0302 o\u0328\u0304 q\u0307\u0323 \u0fb2\u0f71\u0f80",
    "é\u0323 é\u0316 \u0301e \u0301\u0316 a\u0316\u0301 a\u0301\u0316 \u0f73 \u0f71\u0f72\u0f74 \u0cc6\u0cc2\u0cd5 \u09c7\u09be \u1b05\u1b35",
    "younger than the normalizer: \U00011935\U00011930 \U000105d2\u0307 \u0041\U00011930 a\u0898\u0316 a\u0316\u0898 a\u0301\u1ac1\u0316 \U00016129\u0301",
    "z" + "\u0301\u0316\u0323\u0307" * 12 + "w" + "\u0300" * 40 + "\u0316" * 40 + "!",
    # odd code points
    "".join(map(chr, range(0x00, 0x20))) + "".join(map(chr, range(0x7F, 0xA1))),
    "a\x00b\x00\x00c \ue000\uf8ff\U000f0000\U0010fffd \ufffe\uffff\ufdd0\U0001ffff \ufffd\ufffd a\ufffdb",
    "\u0378 \u1c89\u1c8a \ua7cb\ua7da \u0c5c \U00010d4a\U00010d50 \U00011f00\U00011f02 \U0001c888 \U000e0001\U000e0065 \u202aabc\u202e\u2066x\u2069",
    # programs and markup
    "def f(x, *args, **kw):\n    \"\"\"Doc.\"\"\"\n    return {k: v for k, v in kw.items() if v is not None}\n\n\nclass A(B):\n\tpass  # no\n",
    "func main() {\n\tfor i := 0; i < 10; i++ {\n\t\tfmt.Printf(\"%d\\t%s\\n\", i, `raw`)\n\t}\n}\n",
    "(()=>{\"use strict\";const t=a=>a?.b??c;console.log(`${t(1)}`)})();//# sourceMappingURL=x.js.map",
    "{\"a\": [1, 2.5, -3e+10, true, null], \"b\\u00e9\": \"\\\"quoted\\\"\", \"n\": {\"x\": {}}}",
    "<!DOCTYPE html>\n<p class=\"a b\">Hi&nbsp;&amp;</p><br/>\n<table><tr><td>x</td></tr></table>",
    "https://user:pw@example.com:8080/a/b%20c?q=1&r=2#frag C:\\Windows\\System32 ../lib mailto:x@y.z",
    "# Title\n\n- item **bold** _it_\n- [link](http://x)\n\n```go\nx := 1\n```\n\n| a | b |\n|---|---|\n> q\n\n---\n",
    # special tokens of the tokenizers under test and of real ones, whole and broken
    "<|endoftext|>Once<|endoftext|><|endoftext|> upon <|endoftext|>\n<|endoftext",
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi <|eot_id|> there<|eot_id|><|eot_id|>  <|eot_id",
    "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n<think>\n\n</think>\n\n<tool_call>\n{\"name\": 1}\n</tool_call><|im_start <|im_<|im_end|>",
    "<s>a</s><s> x</s>y <unk> <pad> <mask>  <mask>x<mask>\t<mask> \n <0x0A> ▁ <<s>> <s",
    "<strip>  <strip>  a  <strip>b<strip> c<left> d <left>e <right>  f<right>g   <left><right>   <left> <right> ",
    "word words sword word, (word) word\u0301 word_ _word word1 ⓦword word\u200d é word é word. Word",
    "caf\u00e9 cafe\u0301 café\u0301 <caf\u00e9> <cafe\u0301> <CAFÉ> \u00e9<cafe\u0301>\u00e9",
    "<tool><tool_call><tool_calls><tool_call<tool_ <tool_call> a<b<c <|<|<|im_start|><",
    # repetition
    "a" * 60 + "ha" * 40 + "=" * 70 + "-" * 47 + "/" * 33 + "." * 99,
    "the " * 50 + "theThe" * 30,
]

LONG = {
    "letters": lambda: "".join(random.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(4000)),
    "one letter": lambda: "a" * 20000,
    "two letters": lambda: "ab" * 5000,
    "spaces": lambda: "x" + " " * 20000 + "y",
    "lines": lambda: "\n" * 10000,
    "symbols": lambda: "!" * 10000,
    "digits": lambda: "7" * 5000,
    "han": lambda: "".join(chr(random.randint(0x4E00, 0x9000)) for _ in range(1500)),
    "emoji": lambda: "😀" * 2000,
    "marks": lambda: "e" + "\u0301\u0316" * 2000,
}

POOLS = [
    "abcdefghijklmnopqrstuvwxyz ",
    "ABCxyz '",
    "0123456789., ",
    " \t\n\r",
    "  \n",
    "éàüñçß ",
    "αβγ ",
    "привет ",
    "中文字符漢字仮名 ",
    "あいうえおアイウ",
    "한국어\u1100\u1161\u11a8",
    "😀👨\u200d👩🏽❤\ufe0f",
    "\u0301\u0300\u0323\u0316\u0898e",
    "!?.,;:'\"()[]{}<>|/",
    "\u00a0\u3000\u2028\u200b\u0085",
    "العربية َّ",
    "हिन्दी",
    "\x00\x01\x1b\x7f",
    "▁ ",
    "\u017f\u212aÅǅʰªⅷ²",
    "ไทย",
    "'s'S't're'll'VE",
    "\U0001d400\U0001d7d8\U00010d50\U000105c9",
]
WORDS = ["<mask>", "<strip>", "<left>", "<right>", "word", "<|endoftext|>", "<|im_start|>", "<cafe\u0301>", "<tool>", "<tool_call>"]


def random_text():
    pools = random.sample(POOLS, random.randint(1, 5))
    parts = [random.choice(random.choice(pools)) for _ in range(random.randint(1, 40))]
    if random.random() < 0.15:
        for _ in range(random.randint(1, 3)):
            parts.insert(random.randint(0, len(parts)), random.choice(WORDS))
    return "".join(parts)


def random_code_points():
    out = []
    for _ in range(random.randint(1, 25)):
        plane = random.random()
        if plane < 0.4:
            c = random.randint(0, 0x2FF)
        elif plane < 0.8:
            c = random.randint(0x300, 0xFFFF)
        else:
            c = random.randint(0x10000, 0x1FFFF)
        out.append(" " if 0xD800 <= c < 0xE000 else chr(c))
    return "".join(out)


def main():
    random.seed(20261130)
    texts = list(HAND_MADE)
    texts += [random_text() for _ in range(RANDOM_CASES)]
    texts += [random_code_points() for _ in range(RANDOM_CODE_POINT_CASES)]
    texts += [make() for make in LONG.values()]
    print(json.dumps(texts, ensure_ascii=False))


main()
