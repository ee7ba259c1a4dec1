#!/usr/bin/env python3
"""Makes sha256_cbor.json: prefix hashes as vLLM defines them.

vllm/v1/core/kv_cache_utils.py: a block's hash is that of the tuple
(parent hash, tuple of token IDs, extra keys), a chain's first parent is the
hash of PYTHONHASHSEED's text, and the salt is an extra key of the first block.
vllm/utils/hashing.py: the hash is sha256 over cbor2's canonical encoding.

Needs cbor2. Run it in this folder.
"""

import hashlib
import json

import cbor2


def sha256_cbor(value):
    return hashlib.sha256(cbor2.dumps(value, canonical=True)).digest()


def chain(seed, salt, block_size, tokens):
    parent, hashes = sha256_cbor(seed), []
    for start in range(0, len(tokens) - block_size + 1, block_size):
        keys = (salt,) if salt and start == 0 else None
        parent = sha256_cbor((parent, tuple(tokens[start : start + block_size]), keys))
        hashes.append(parent.hex())
    return hashes


vectors = []
for seed, salt, block_size, tokens in [
    ("0", "", 4, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ("0", "alice", 4, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ("42", "", 8, [0, 23, 24, 255, 256, 65535, 65536, 2147483647]),
    ("42", "s" * 300, 3, [151643, 151644, 151645]),
    ("0", "", 32, list(range(64))),
]:
    vectors.append(
        {"seed": seed, "salt": salt, "block_size": block_size, "tokens": tokens,
         "hashes": chain(seed, salt, block_size, tokens)}
    )
with open("sha256_cbor.json", "w") as f:
    json.dump(vectors, f, indent=1)
    f.write("\n")
