"""Writes the small tokenizers of the tests: python3 train.py DIRECTORY

    pip install tokenizers==0.23.2

Three vocabularies of about 1,000 merges are trained on text made here, one per
kind of pre-tokenizer. The other tokenizers put those vocabularies to different
settings.
"""

import json
import pathlib
import random
import sys

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# A pattern of no model, so that it has no hand-written scanner.
OTHER = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+[\p{L}\p{M}]+|\p{N}{2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"

SENTENCES = [
    "The {a} {n} went to the {n} and said: \"I don't know, it's {a}!\"",
    "In {y}, {y} {n}s were {a}; {y} weren't.\n\n",
    "Der {a}e {n} läuft über die große Straße, während die Königin schläft.",
    "Le {n} était très {a}, n'est-ce pas ?",
    "Красная лиса бежит через {y} тёмных лесов.",
    "红狐狸跑过{y}片森林，王后在睡觉。",
    "赤い狐が森を走り、女王は眠る。",
    "빨간 여우가 숲을 지나 달린다.",
    "लाल लोमड़ी जंगल में दौड़ती है।",
    "الثعلب الأحمر يركض في الغابة.",
    "for i in range({y}):\n    if x[i] == {y}:\n        return {n}_{a}(i)\n",
    "func {n}(x int) error {{\n\treturn nil // {a}\n}}\n",
    "{{\"{n}\": [{y}, 2.5, true], \"{a}\": null}}",
    "HTTPServer CamelCase {n}Name {a}Value WORD word words",
    "<p class=\"{a}\">{n} &amp; {n}</p>\r\n",
    "😀😃 👨‍👩‍👧 ... --- !!! === /// *** aaaa hahaha    \t\t  \n",
]
NOUNS = "king queen fox wood house river table song light stone bread night winter forest mother".split()
ADJECTIVES = "red old young small dark golden quiet happy clever long cold empty strange".split()


def training_text():
    random.seed(7)
    for _ in range(4000):
        yield random.choice(SENTENCES).format(
            n=random.choice(NOUNS), a=random.choice(ADJECTIVES), y=random.randint(1, 2100)
        ) + random.choice([" ", "\n", "  "])


def trained(pre_tokenizer, vocab_size):
    """The JSON of a tokenizer trained with a pre-tokenizer."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizer
    t.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    t.train_from_iterator(training_text(), trainers.BpeTrainer(vocab_size=vocab_size, initial_alphabet=sorted(alphabet)))
    return json.loads(t.to_str())


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def split_json(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def byte_level(use_regex=False, add_prefix_space=False):
    return {"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": True, "use_regex": use_regex}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def added(content, id, **flags):
    out = dict(id=id, content=content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    out.update(flags)
    return out


def template(bos, id, eos=()):
    single = [{"SpecialToken": {"id": bos, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    special = {bos: {"id": bos, "ids": [id], "tokens": [bos]}}
    for token, token_id in eos:
        single.append({"SpecialToken": {"id": token, "type_id": 0}})
        special[token] = {"id": token, "ids": [token_id], "tokens": [token]}
    pair = single + [{"Sequence": {"id": "B", "type_id": 1}}]
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special}


def variant(base, **parts):
    """base with some parts replaced, on a copy."""
    out = json.loads(json.dumps(base))
    model = parts.pop("model", {})
    out.update(parts)
    out["model"].update(model)
    return out


def tokenizers():
    gpt2 = trained(pre_tokenizers.ByteLevel(add_prefix_space=False), 1200)
    llama3 = trained(
        pre_tokenizers.Sequence([split(LLAMA3), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), 1300
    )
    qwen2 = trained(
        pre_tokenizers.Sequence([split(QWEN2), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), 1300
    )
    n = len(gpt2["model"]["vocab"])
    gpt2["model"]["vocab"]["<|endoftext|>"] = n  # in both, as in GPT-2's own file
    yield "gpt2", variant(
        gpt2,
        added_tokens=[added("<|endoftext|>", n)],
        post_processor=byte_level(use_regex=True),
        # the old form of merges
        model={"merges": [" ".join(m) for m in gpt2["model"]["merges"]]},
    )

    n = len(llama3["model"]["vocab"])
    # Words that no merges make: with ignore_merges they are tokens all the same.
    whole = ["Hello", " tokenization", " HTTPServer", "世界", "a" * 8, " κόσμε"]
    for i, word in enumerate(whole):
        llama3["model"]["vocab"][bytes_spelled(word)] = n + i
    n += len(whole)
    yield "llama3", variant(
        llama3,
        added_tokens=[
            added(content, n + i)
            for i, content in enumerate(
                ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
            )
        ],
        post_processor={"type": "Sequence", "processors": [byte_level(True), template("<|begin_of_text|>", n)]},
        model={"ignore_merges": True},
    )

    n = len(qwen2["model"]["vocab"])
    yield "qwen2", variant(
        qwen2,
        normalizer={"type": "NFC"},
        added_tokens=[
            added("<|endoftext|>", n),
            added("<|im_start|>", n + 1),
            added("<|im_end|>", n + 2),
            added("<tool>", n + 3, special=False),
            added("<tool_call>", n + 4, special=False),
            added("</tool_call>", n + 5, special=False),
            added("<think>", n + 6, special=False),
            added("<cafe\u0301>", n + 7, normalized=True),
            added("word", n + 8, normalized=True, special=False, single_word=True),
            added("<strip>", n + 9, lstrip=True, rstrip=True),
            added("<left>", n + 10, lstrip=True),
            added("<right>", n + 11, rstrip=True, special=False, normalized=True),
        ],
        post_processor=byte_level(),
        decoder=byte_level(),
    )

    n = len(gpt2["model"]["vocab"])
    yield "roberta", variant(
        gpt2,
        added_tokens=[
            added("<s>", n),
            added("</s>", n + 1),
            added("<unk>", n + 2),
            added("<pad>", n + 3),
            added("<mask>", n + 4, lstrip=True),
        ],
        pre_tokenizer=byte_level(use_regex=True, add_prefix_space=True),
        post_processor={
            "type": "RobertaProcessing",
            "sep": ["</s>", n + 1],
            "cls": ["<s>", n],
            "trim_offsets": True,
            "add_prefix_space": True,
        },
    )

    n = len(llama3["model"]["vocab"])
    yield "o200k", variant(
        llama3,
        added_tokens=[added("<|endoftext|>", n)],
        pre_tokenizer=sequence(split_json(O200K, "Removed", True), byte_level()),
        post_processor=template("<|endoftext|>", n, [("<|endoftext|>", n)]),
        decoder={"type": "Sequence", "decoders": [byte_level(), {"type": "Fuse"}]},
    )

    yield "digits", variant(
        gpt2,
        normalizer={
            "type": "Sequence",
            "normalizers": [
                {"type": "NFD"},
                {"type": "Replace", "pattern": {"String": "word"}, "content": "WORD "},
                {"type": "Strip", "strip_left": False, "strip_right": True},
                {"type": "Prepend", "prepend": "▁"},
            ],
        },
        added_tokens=[added("<mask>", len(gpt2["model"]["vocab"]), normalized=True)],
        pre_tokenizer=sequence(
            {"type": "Digits", "individual_digits": True}, byte_level(use_regex=True, add_prefix_space=True)
        ),
    )

    # Any other pattern, and a vocabulary without a token for some bytes.
    model = json.loads(json.dumps(qwen2["model"]))
    for spelling in [bytes_spelled("x"), bytes_spelled("y"), spelled(0xE4), "Ċ"]:
        drop_token(model, spelling)
    model["vocab"]["<unk>"] = 1500  # after a hole
    model.update(unk_token="<unk>", fuse_unk=True)
    yield "other", variant(
        qwen2,
        added_tokens=[],
        pre_tokenizer=sequence(split_json(OTHER), {"type": "Digits", "individual_digits": False}, byte_level()),
        model=model,
    )


def drop_token(model, spelling):
    """Takes a byte out of a vocabulary, and all that is merged from it."""
    model["vocab"] = {t: i for t, i in model["vocab"].items() if spelling not in t}
    model["merges"] = [m for m in model["merges"] if spelling not in m[0] + m[1]]


def alphabet():
    """The characters that spell the bytes 0 to 255."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    out, extra = {}, 0
    for b in range(256):
        if b in plain:
            out[b] = chr(b)
        else:
            out[b] = chr(0x100 + extra)
            extra += 1
    return out


ALPHABET = alphabet()


def spelled(byte):
    return ALPHABET[byte]


def bytes_spelled(text):
    return "".join(map(spelled, text.encode()))


def main():
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name, tokenizer in tokenizers():
        (directory / name).mkdir(exist_ok=True)
        text = json.dumps(tokenizer, ensure_ascii=False)
        Tokenizer.from_str(text)  # the reference accepts it
        (directory / name / "tokenizer.json").write_text(text)


if __name__ == "__main__":
    main()
