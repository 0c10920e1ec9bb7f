# e4m3 codes in numpy, and checkpoints whose fp8 matrices are written out as bfloat16.
# SPDX-License-Identifier: Apache-2.0
import json
import shutil

import numpy as np

SIZES = {"F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1}


def decode_table():
    """The value of every code; NaN for 0x7f and 0xff."""
    codes = np.arange(256)
    exponent, fraction = codes >> 3 & 15, codes & 7
    value = np.where(exponent == 0, fraction / 8 * 2.0**-6, (1 + fraction / 8) * 2.0**(exponent - 7.0))
    value[codes & 0x7f == 0x7f] = np.nan
    return np.where(codes & 0x80, -value, value).astype(np.float32)


TABLE = decode_table()


def encode(values):
    """The nearest code of each value, ties to even."""
    positive = TABLE[:0x7f]
    magnitude = np.minimum(np.abs(values).astype(np.float64), 448.0)
    high = np.clip(np.searchsorted(positive, magnitude), 1, 0x7e)
    low = high - 1
    below, above = magnitude - positive[low], positive[high] - magnitude
    code = np.where((above < below) | ((above == below) & (high % 2 == 0)), high, low)
    return (code | np.where(np.signbit(values), 0x80, 0)).astype(np.uint8)


def to_bf16(values):
    """The bits of the nearest bfloat16, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def read(file):
    """{name: (dtype, shape, bytes)} of a safetensors file."""
    raw = file.read_bytes()
    end = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:end])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"],
                   raw[end + entry["data_offsets"][0]:end + entry["data_offsets"][1]])
            for name, entry in header.items()}


def write(file, tensors):
    """The reverse, widest elements first so that all are aligned."""
    header, body = {}, b""
    for name, (dtype, shape, data) in sorted(tensors.items(), key=lambda item: -SIZES[item[1][0]]):
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)
    file.write_bytes(len(text).to_bytes(8, "little") + text + body)


def write_out(checkpoint, folder):
    """A copy of a checkpoint with bfloat16 in place of fp8."""
    shutil.copytree(checkpoint, folder)
    tensors = read(folder / "rank0.safetensors")
    for name in [name for name, (dtype, _, _) in tensors.items() if dtype == "F8_E4M3"]:
        _, shape, codes = tensors[name]
        stem = name.removesuffix(".weight")
        scales = tensors.pop(stem + ".per_channel_scale", None) or tensors.pop(stem + ".weights_scaling_factor")
        values = TABLE[np.frombuffer(codes, np.uint8)].reshape(shape) * np.frombuffer(scales[2], np.float32)[:, None]
        tensors[name] = ("BF16", shape, to_bf16(values).tobytes())
    write(folder / "rank0.safetensors", tensors)
    config = json.loads((folder / "config.json").read_text())
    config["quantization"]["quant_algo"] = None
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def write_fp8_folder(source, folder, per_channel=True):
    """A Hugging Face folder in float32 with its linears as fp8, as compressed-tensors writes them."""
    shutil.copytree(source, folder)
    tensors = read(folder / "model.safetensors")
    for name in [name for name in tensors if name.endswith("_proj.weight")]:
        dtype, shape, data = tensors[name]
        assert dtype == "F32"
        values = np.frombuffer(data, np.float32).reshape(shape)
        scale = (np.abs(values).max(axis=1 if per_channel else None, keepdims=True) / 448).astype(np.float32)
        tensors[name] = ("F8_E4M3", shape, encode(values / scale).tobytes())
        tensors[name + "_scale"] = ("F32", [shape[0], 1] if per_channel else [1], scale.tobytes())
    write(folder / "model.safetensors", tensors)
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {
        "quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"group_0": {
            "weights": {"num_bits": 8, "type": "float", "strategy": "channel" if per_channel else "tensor"}}}}
    (folder / "config.json").write_text(json.dumps(config))
    return folder
