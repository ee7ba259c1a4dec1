"""Writes what the vocabulary of a GGUF file is to be compared with:

    pip install gguf
    python3 gguf_vocab.py FILE.gguf DIRECTORY

DIRECTORY gets gguf.json, the metadata as tokenizer.GGUF holds them, and, if it
has no tokenizer.json of the same model, the one of SmolLM2, made from the file's
vocabulary.
"""

import json
import pathlib
import sys

from gguf import GGUFReader

MEMBERS = {
    "general.architecture": "Architecture",
    "tokenizer.ggml.model": "Model",
    "tokenizer.ggml.pre": "Pre",
    "tokenizer.ggml.tokens": "Tokens",
    "tokenizer.ggml.scores": "Scores",
    "tokenizer.ggml.token_type": "Types",
    "tokenizer.ggml.merges": "Merges",
    "tokenizer.ggml.bos_token_id": "BOS",
    "tokenizer.ggml.eos_token_id": "EOS",
    "tokenizer.ggml.unknown_token_id": "UNK",
    "tokenizer.ggml.padding_token_id": "PAD",
    "tokenizer.ggml.add_bos_token": "AddBOS",
    "tokenizer.ggml.add_eos_token": "AddEOS",
    "tokenizer.ggml.add_space_prefix": "AddSpacePrefix",
}
CONTROL = 3


def tokenizer_json(g):
    """SmolLM2's own, whose pre_tokenizer GGUF files call smollm."""
    assert g["Model"] == "gpt2" and g["Pre"] == "smollm"
    flags = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": i, "content": token, **flags} for i, token in enumerate(g["Tokens"]) if g["Types"][i] == CONTROL
        ],
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
        },
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "vocab": {token: i for i, token in enumerate(g["Tokens"])},
            "merges": g["Merges"],
        },
    }


def main():
    out = pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    fields = GGUFReader(sys.argv[1]).fields
    g = {name: fields[key].contents() for key, name in MEMBERS.items() if key in fields}
    (out / "gguf.json").write_text(json.dumps(g))
    if not (out / "tokenizer.json").exists():
        (out / "tokenizer.json").write_text(json.dumps(tokenizer_json(g)))


main()
