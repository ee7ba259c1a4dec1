"""Writes ggml.json: random blocks of each GGUF type and the float32 values that
gguf's reference makes of them.

    pip install gguf==0.19.0 numpy
    python make_ggml.py
"""

import base64
import importlib.metadata
import json
import pathlib

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

TYPES = [T.F32, T.F16, T.BF16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0,
         T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K]
BLOCKS = 4


def b64(a):
    return base64.b64encode(a.tobytes()).decode()


def blocks_of(t, rng):
    """Random bytes, but for scales that are infinite or no number."""
    size, width = GGML_QUANT_SIZES[t]
    found = []
    while len(found) < BLOCKS * max(1, 32 // size):
        block = rng.integers(0, 256, width, dtype=np.uint8)
        with np.errstate(all="ignore"):
            if np.isfinite(dequantize(block, t)).all():
                found.append(block)
    return np.concatenate(found)


def main():
    rng = np.random.default_rng(4)
    cases = []
    for t in TYPES:
        blocks = blocks_of(t, rng)
        values = dequantize(blocks, t).astype(np.float32)
        cases.append({"type": t.name, "blocks": b64(blocks), "values": b64(values)})
    out = {"made_with": {p: importlib.metadata.version(p) for p in ("gguf", "numpy")}, "cases": cases}
    path = pathlib.Path(__file__).with_name("ggml.json")
    path.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
