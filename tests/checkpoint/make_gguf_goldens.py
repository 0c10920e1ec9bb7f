#!/usr/bin/env python3
"""Writes gguf_blocks.json: random blocks of every GGUF block format and the values that the gguf package gives them.

Usage: python tests/checkpoint/make_gguf_goldens.py   (needs gguf==0.19.0)
"""
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

# Byte offsets of the float16 fields of a block: any other byte may be anything.
HALVES = {
    Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0],
    Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
}
# Ordinary, negative, subnormal, largest subnormal, zero, one whose product with the integers is inexact.
SCALES = np.array([0.0123, -0.75, 6e-8, 6.097e-05, 0.0, 1.0009765625], dtype=np.float16)


def golden(kind, random):
    values, size = GGML_QUANT_SIZES[kind]
    count = len(SCALES) if values == 32 else 2
    blocks = random.integers(0, 256, size=(count, size), dtype=np.uint8)
    for row in range(count):
        for place, offset in enumerate(HALVES[kind]):
            half = SCALES[(row + 3 * place) % len(SCALES)]
            blocks[row, offset:offset + 2] = np.frombuffer(half.tobytes(), dtype=np.uint8)
    out = dequantize(blocks, kind).astype(np.float32)
    return {"blocks": blocks.tobytes().hex(), "values": out.tobytes().hex()}


def main():
    random = np.random.default_rng(20240607)
    goldens = {kind.name: golden(kind, random) for kind in HALVES}
    path = pathlib.Path(__file__).with_name("gguf_blocks.json")
    path.write_text(json.dumps(goldens, indent=1) + "\n")


if __name__ == "__main__":
    main()
