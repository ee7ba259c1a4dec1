"""Writes golden.json.gz beside each DIRECTORY/*/tokenizer.model that has none:
what SentencePiece makes of the texts of corpus.json.gz, and what Hugging Face
tokenizers decodes random ids to.

    pip install sentencepiece==0.2.3 tokenizers==0.23.2
    python3 golden_spm.py DIRECTORY [STRIDE]

With a STRIDE, only each STRIDEth text after the hand-made ones is encoded,
beginning elsewhere for each model; null stands for the others, and for texts
that contain a control symbol, which SentencePiece does not look for. Nor are
texts of endless words asked of models without byte fallback, which may be
Unigram: SentencePiece adds up scores in
float32, and so breaks their ties at random; we follow tokenizers, which does not.
"""

import gzip
import hashlib
import json
import pathlib
import random
import sys

import sentencepiece
from tokenizers import Tokenizer, decoders, models

HERE = pathlib.Path(__file__).parent
HAND_MADE = 60


def byte_fallback(sp):
    return any(map(sp.is_byte, range(len(sp))))


def decoder(sp):
    """As transformers' converters give it."""
    steps = [decoders.Replace("▁", " ")]
    if byte_fallback(sp):
        steps.append(decoders.ByteFallback())
    steps.append(decoders.Fuse())
    if sp.encode("a", out_type=str)[0].startswith("▁"):
        steps.append(decoders.Strip(content=" ", left=1))
    return decoders.Sequence(steps)


def golden(path, stride, offset, corpus):
    sp = sentencepiece.SentencePieceProcessor(model_file=str(path))
    symbols = [sp.id_to_piece(i) for i in range(len(sp)) if sp.is_control(i) or sp.is_unknown(i)]
    ids = []
    for i, text in enumerate(corpus):
        asked = (i < HAND_MADE or i % stride == offset % stride) and not any(s in text for s in symbols)
        asked = asked and (byte_fallback(sp) or max(map(len, text.split()), default=0) < 100)
        ids.append(sp.encode(text) if asked else None)

    hf = Tokenizer(models.BPE(vocab={sp.id_to_piece(i): i for i in range(len(sp))}, merges=[]))
    hf.decoder = decoder(sp)
    random.seed(offset)
    lists = [[]]
    lists += [[random.randrange(len(sp)) for _ in range(random.randint(1, 12))] for _ in range(200)]
    # Byte tokens come first in vocabularies.
    lists += [[random.randrange(min(len(sp), 300)) for _ in range(random.randint(1, 8))] for _ in range(300)]
    lists += [x[: random.randint(1, 8)] for x in ids[:200] if x]
    decode = [{"ids": x, "text": hf.decode(x, skip_special_tokens=False)} for x in lists]
    return {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "ids": ids, "decode": decode}


def main():
    stride = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    corpus = json.loads(gzip.decompress((HERE / "corpus.json.gz").read_bytes()))
    for offset, path in enumerate(sorted(pathlib.Path(sys.argv[1]).glob("*/tokenizer.model"))):
        out = path.parent / "golden.json.gz"
        if not out.exists():
            data = json.dumps(golden(path, stride, offset, corpus), ensure_ascii=False).encode()
            out.write_bytes(gzip.compress(data, 9, mtime=0))
            print(path.parent.name, "done")


main()
