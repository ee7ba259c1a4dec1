"""Writes quantized.json: matrices packed as AWQ, GPTQ and compressed-tensors do,
and the float32 values that they stand for.

    pip install numpy
    python make_quantized.py

Integers, scales and zero points are random. Packing follows AutoAWQ
(awq/modules/linear/gemm.py), AutoGPTQ (nn_modules/qlinear/qlinear_cuda_old.py)
and compressed-tensors 0.20.1 (compressors/pack_quantized).
"""

import base64
import json
import pathlib

import numpy as np

OUT, IN, GROUP = 24, 64, 16
RNG = np.random.default_rng(5)
DTYPES = {"int32": "I32", "int64": "I64", "int8": "I8", "float16": "F16", "float32": "F32"}


def tensor(name, a):
    a = np.ascontiguousarray(a)
    return {"name": name, "dtype": DTYPES[str(a.dtype)], "shape": list(a.shape), "data": base64.b64encode(a.tobytes()).decode()}


def case(name, config, parts, values):
    return {
        "name": name, "config": config, "shape": list(values.shape),
        "tensors": [tensor(k, v) for k, v in parts.items()],
        "values": base64.b64encode(values.astype(np.float32).tobytes()).decode(),
    }


def scales(*shape):
    return (RNG.random(shape) * 0.02 + 0.001).astype(np.float16)


def pack_rows(ints, bits, order=None):
    """Packs along the last axis: field i of a word is column order[i] of it."""
    per = 32 // bits
    order = order or range(per)
    words = np.zeros((ints.shape[0], -(-ints.shape[1] // per)), np.uint32)
    padded = np.zeros((ints.shape[0], words.shape[1] * per), np.uint32)
    padded[:, : ints.shape[1]] = ints
    for field, column in enumerate(order):
        words |= padded[:, column::per] << np.uint32(field * bits)
    return words.view(np.int32)


def input_major(q, z, s, index):
    """q [in, out], z and s [groups, out]: the matrix [out, in]."""
    s = s.astype(np.float32)
    return ((q - z[index]).astype(np.float32) * s[index]).T


def awq():
    groups = IN // GROUP
    q, z, s = RNG.integers(0, 16, (IN, OUT)), RNG.integers(0, 16, (groups, OUT)), scales(groups, OUT)
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    parts = {"qweight": pack_rows(q, 4, order), "qzeros": pack_rows(z, 4, order), "scales": s}
    config = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "zero_point": True, "version": "gemm", "modules_to_not_convert": None}
    return case("awq", config, parts, input_major(q, z, s, np.arange(IN) // GROUP))


def gptq(name, bits, group, act_order, version):
    groups = -(-IN // group) if group > 0 else 1
    top = 2**bits
    q, z, s = RNG.integers(0, top, (IN, OUT)), RNG.integers(0, top, (groups, OUT)), scales(groups, OUT)
    index = np.arange(IN) // (group if group > 0 else IN)
    if act_order:
        index = RNG.permutation(index)
    stored = (z - 1) % top if version == "gptq" else z
    parts = {"qweight": pack_rows(q.T, bits).T, "qzeros": pack_rows(stored, bits), "scales": s, "g_idx": index.astype(np.int32)}
    config = {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": act_order, "sym": False, "checkpoint_format": version}
    return case(name, config, parts, input_major(q, z, s, index))


def compressed(name, fmt, bits, strategy, zero_points=False, act_order=False, columns=IN):
    groups = -(-columns // GROUP) if strategy == "group" else 1
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1)
    q = RNG.integers(low, high, (OUT, columns))
    s = scales(1) if strategy == "tensor" else scales(OUT, groups)
    index = np.arange(columns) // (GROUP if strategy == "group" else columns)
    if act_order:
        index = RNG.permutation(index)
    z = RNG.integers(low, high, (OUT, groups)) if zero_points else np.zeros((OUT, groups), np.int64)
    spread = np.broadcast_to(s.astype(np.float32).reshape(-1, 1) if strategy == "tensor" else s.astype(np.float32), (OUT, groups))
    values = (q - z[:, index]).astype(np.float32) * spread[:, index]
    if fmt == "int-quantized":
        parts = {"weight": q.astype(np.int8), "weight_scale": s}
    else:
        parts = {"weight_packed": pack_rows(q - low, bits), "weight_scale": s, "weight_shape": np.array([OUT, columns], np.int64)}
        if zero_points:
            parts["weight_zero_point"] = pack_rows((z - low).T, bits).T
        if act_order:
            parts["weight_g_idx"] = index.astype(np.int32)
    weights = {"num_bits": bits, "type": "int", "symmetric": not zero_points, "strategy": strategy, "dynamic": False,
               "group_size": GROUP if strategy == "group" else None}
    activations = {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True} if fmt == "int-quantized" else None
    config = {"quant_method": "compressed-tensors", "format": fmt, "ignore": ["lm_head"], "kv_cache_scheme": None,
              "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": activations}}}
    return case(name, config, parts, values)


def main():
    cases = [
        awq(),
        gptq("gptq", 4, GROUP, False, "gptq"),
        gptq("gptq by activation", 4, GROUP, True, "gptq"),
        gptq("gptq of 8 bits, one group", 8, -1, False, "gptq"),
        gptq("gptq v2", 4, GROUP, False, "gptq_v2"),
        compressed("int8 by channel", "int-quantized", 8, "channel"),
        compressed("int8 by tensor", "int-quantized", 8, "tensor"),
        compressed("packed int4", "pack-quantized", 4, "group"),
        compressed("packed int4 with zero points", "pack-quantized", 4, "group", zero_points=True),
        compressed("packed int4 by activation", "pack-quantized", 4, "group", act_order=True),
        compressed("packed int4, padded", "pack-quantized", 4, "group", columns=60),
        compressed("packed int8", "pack-quantized", 8, "channel"),
    ]
    path = pathlib.Path(__file__).with_name("quantized.json")
    path.write_text(json.dumps({"made_with": {"numpy": np.__version__}, "cases": cases}) + "\n")


if __name__ == "__main__":
    main()
