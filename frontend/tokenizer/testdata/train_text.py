"""Writes the small tokenizers of the tests that are not byte-level:
python3 train_text.py DIRECTORY

    pip install tokenizers==0.23.2 sentencepiece==0.2.3

SentencePiece models are trained on the text of train.py, one BPE with byte
fallback and one Unigram with a charsmap; tokenizer.json files in the forms that
models of each kind have put those vocabularies, and a WordPiece, to different
settings.
"""

import base64
import collections
import io
import json
import pathlib
import sys

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from train import added, template, training_text

SPACE = "▁"


def trained_model(**options):
    """The bytes of a SentencePiece model."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for text in training_text() for line in text.splitlines() if line]),
        model_writer=out,
        num_threads=1,
        minloglevel=2,
        character_coverage=0.999,
        **options,
    )
    model = sentencepiece_model_pb2.ModelProto.FromString(out.getvalue())
    model.trainer_spec.ClearField("input")
    model.normalizer_spec.ClearField("normalization_rule_tsv")  # a path
    return model


def rules(directory):
    """A normalization rule for each line: code points, tab, code points."""
    lines = []
    for old, new in [
        ("A\u030a", "\u00c5"), ("e\u0301", "\u00e9"), ("\ufb01", "fi"), ("\uff11", "1"), ("\uff21", "A"), ("\u3000", " "),
        ("\u00a0", " "), ("\t", " "), ("\n", " "), ("\u2026", "..."), ("\u1100\u1161", "\uac00"), ("\u0958", "\u0915\u093c"),
        ("\r\n", " "), ("\u00bd", " 1/2"), ("\u200d", ""), ("\u0e33", "\u0e4d\u0e32"),
    ]:  # fmt: skip
        lines.append(" ".join(f"{ord(c):X}" for c in old) + "\t" + " ".join(f"{ord(c):X}" for c in new))
    path = directory / "rules.tsv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def merges_of(pieces):
    """As transformers' converters make them of a vocabulary and its scores."""
    ids = {piece: i for i, piece in enumerate(pieces)}
    merges = []
    for piece, i in ids.items():
        local = [(piece[:k], piece[k:]) for k in range(1, len(piece)) if piece[:k] in ids and piece[k:] in ids]
        merges += [(left, right, i) for left, right in sorted(local, key=lambda x: (ids[x[0]], ids[x[1]]))]
    return [[left, right] for left, right, _ in sorted(merges, key=lambda x: x[2])]


def replace(pattern, content, kind="String"):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def metaspace(scheme, split, **more):
    return {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": split, **more}


def sequence(member, *parts):
    return {"type": "Sequence", member: list(parts)}


def byte_decoder(*more):
    return sequence("decoders", replace(SPACE, " "), {"type": "ByteFallback"}, {"type": "Fuse"}, *more)


STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}


def bpe_tokenizers(model):
    pieces = [p.piece for p in model.pieces]
    base = {
        "type": "BPE",
        "vocab": {piece: i for i, piece in enumerate(pieces)},
        "merges": merges_of(pieces),
        "unk_token": "<unk>",
        "fuse_unk": True,
        "byte_fallback": True,
    }
    special = [added(t, i) for i, t in enumerate(["<unk>", "<s>", "</s>"])]
    yield "llama2", {
        "added_tokens": special,
        "normalizer": sequence("normalizers", {"type": "Prepend", "prepend": SPACE}, replace(" ", SPACE)),
        "post_processor": template("<s>", 1),
        "decoder": byte_decoder(STRIP),
        "model": base,
    }
    n = len(pieces)
    yield "mistral", {
        "added_tokens": special + [added("[INST]", n), added("the fox", n + 1, normalized=True, special=False)],
        "pre_tokenizer": metaspace("first", False),
        "post_processor": template("<s>", 1, [("</s>", 2)]),
        "decoder": byte_decoder(STRIP),
        "model": base | {"ignore_merges": True},
    }
    yield "gemma", {
        "added_tokens": special + [added("<mask>", n, rstrip=True), added("\n\n", n + 1, special=False)],
        "normalizer": replace(" ", SPACE),
        "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
        "decoder": byte_decoder(),
        "model": base,
    }
    # Without some byte tokens, so that unk and bytes are mixed, and without
    # a decoder but the plainest.
    holes = {"<0xE2>", "<0xD0>", "<0x0A>"}
    yield "holes", {
        "added_tokens": special,
        "pre_tokenizer": sequence("pretokenizers", {"type": "WhitespaceSplit"}, metaspace("always", True)),
        "decoder": metaspace("always", True),
        "model": base | {"vocab": {t: i for t, i in base["vocab"].items() if t not in holes}, "fuse_unk": False},
    }
    yield "plain", {
        "added_tokens": [],
        "pre_tokenizer": metaspace("never", True),
        "model": base | {"byte_fallback": False, "unk_token": None},
    }


def unigram_tokenizers(model):
    pieces = [[p.piece, p.score] for p in model.pieces]
    charsmap = base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode()
    precompiled = {"type": "Precompiled", "precompiled_charsmap": charsmap}
    base = {"type": "Unigram", "unk_id": 0, "vocab": pieces, "byte_fallback": False}
    special = [added(t, i) for i, t in enumerate(["<unk>", "<s>", "</s>"])]
    n = len(pieces)
    yield "t5", {
        "added_tokens": special + [added(f"<extra_id_{i}>", n + i) for i in range(3)],
        "normalizer": sequence(
            "normalizers", precompiled, {"type": "Strip", "strip_left": False, "strip_right": True}, replace(" {2,}", SPACE, "Regex")
        ),
        "pre_tokenizer": metaspace("always", True),
        "post_processor": {**template("</s>", 2), "single": [
            {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}},
        ]},  # fmt: skip
        "decoder": metaspace("always", True),
        "model": base,
    }
    yield "xlmr", {
        "added_tokens": special + [added("<mask>", n, lstrip=True)],
        "normalizer": sequence("normalizers", {"type": "Nmt"}, {"type": "NFKC"}, replace(" {2,}", " ", "Regex")),
        "pre_tokenizer": sequence("pretokenizers", {"type": "WhitespaceSplit"}, metaspace("always", True, str_rep=SPACE, add_prefix_space=True)),
        "post_processor": sequence("processors", template("<s>", 1, [("</s>", 2)])),
        "decoder": metaspace("first", True),
        "model": base,
    }
    yield "albert", {
        "added_tokens": special,
        "normalizer": sequence(
            "normalizers", replace("``", '"'), replace("''", '"'), {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, precompiled
        ),
        "pre_tokenizer": metaspace("always", False),
        "decoder": sequence("decoders", {"type": "ByteFallback"}, metaspace("always", True)),
        "model": base
        | {"byte_fallback": True, "vocab": pieces + [[f"<0x{b:02X}>", -20.0 - b / 100] for b in range(256)]},
    }


def wordpiece():
    """A tokenizer of common words, their ends, and characters; it is not
    trained, since training breaks ties by chance."""
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    words, ends = collections.Counter(), collections.Counter()
    for text in training_text():
        for word, _ in t.pre_tokenizer.pre_tokenize_str(t.normalizer.normalize_str(text)):
            words[word] += 1
            ends.update("##" + word[k:] for k in range(1, len(word)))
    common = [x for c, n in [(words, 400), (ends, 400)] for x, _ in sorted(c.items(), key=lambda x: (-x[1], x[0]))[:n]]
    characters = {c for word in words for c in word}
    pieces = {*common, *characters, *("##" + c for c in characters)}
    out = json.loads(t.to_str())
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    out["added_tokens"] = [added(token, i) for i, token in enumerate(special)]
    out["model"]["vocab"] = {token: i for i, token in enumerate([*special, *sorted(pieces)])}
    return out


def wordpiece_tokenizers():
    bert = wordpiece()
    yield "bert", {
        **bert,
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
    }
    yield "cased", {
        **bert,
        "normalizer": {
            "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": False,
        },
        "pre_tokenizer": sequence("pretokenizers", {"type": "Whitespace"}, {"type": "Punctuation", "behavior": "Isolated"}),
        "post_processor": template("[CLS]", 2, [("[SEP]", 3)]),
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": False},
        "model": bert["model"] | {"max_input_chars_per_word": 10},
    }  # fmt: skip


def main():
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    bpe = trained_model(
        model_type="bpe",
        vocab_size=1400,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        user_defined_symbols=["<tool>", "▁▁▁", "word"],
        split_digits=True,
    )
    unigram = trained_model(
        model_type="unigram", vocab_size=1000, normalization_rule_tsv=rules(directory), user_defined_symbols=["<sep>"]
    )
    (directory / "rules.tsv").unlink()
    for name, model in [("spm_bpe", bpe), ("spm_unigram", unigram)]:
        (directory / name).mkdir(exist_ok=True)
        (directory / name / "tokenizer.model").write_bytes(model.SerializeToString(deterministic=True))
    for name, tokenizer in [*bpe_tokenizers(bpe), *unigram_tokenizers(unigram), *wordpiece_tokenizers()]:
        (directory / name).mkdir(exist_ok=True)
        text = json.dumps({"version": "1.0"} | tokenizer, ensure_ascii=False)
        Tokenizer.from_str(text)  # the reference accepts it
        (directory / name / "tokenizer.json").write_text(text)


if __name__ == "__main__":
    main()
