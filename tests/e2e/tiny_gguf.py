# Small Llama models as GGUF files and as the Hugging Face folder with the same values.
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, dequantize, quantize
from gguf.constants import GGML_QUANT_SIZES

import smollm2_to_hf

CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
          "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 1,
          "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 128,
          "vocab_size": 96, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": True,
          "torch_dtype": "float32", "attention_bias": False, "mlp_bias": False}


def random_blocks(kind, rows, cols, random):
    """Random bytes of a K-quant matrix with small finite float16 scales."""
    block, size = GGML_QUANT_SIZES[kind]
    raw = random.integers(0, 256, (rows, cols // block, size), dtype=np.uint8)
    scales = {"Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}[kind.name]
    for offset in scales:
        scale = (random.random((rows, cols // block, 1)) * 2e-4).astype(np.float16)
        raw[:, :, offset:offset + 2] = scale.view(np.uint8).reshape(rows, -1, 2)
    return raw.reshape(rows, -1)


class TinyModel:
    """One layer; every matrix in GGUF's format `kind`, every dimension a multiple of `width`."""

    def __init__(self, kind, width):
        self.config = dict(CONFIG, hidden_size=width, intermediate_size=width)
        self.kind = GGMLQuantizationType[kind]
        random = np.random.default_rng(5)
        heads = (width // 2) * self.config["num_key_value_heads"]
        shapes = {"token_embd": (96, width), "blk.0.attn_q": (width, width),
                  "blk.0.attn_k": (heads, width), "blk.0.attn_v": (heads, width),
                  "blk.0.attn_output": (width, width), "blk.0.ffn_gate": (width, width),
                  "blk.0.ffn_up": (width, width), "blk.0.ffn_down": (width, width)}
        self.matrices, self.vectors = {}, {}
        for name, (rows, cols) in shapes.items():
            if kind.endswith("_K"):
                self.matrices[name] = random_blocks(self.kind, rows, cols, random)
            else:
                values = (random.standard_normal((rows, cols)) / cols ** 0.5).astype(np.float32)
                self.matrices[name] = quantize(values, self.kind)
        for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
            self.vectors[name] = (1 + 0.1 * random.standard_normal(width)).astype(np.float32)

    @classmethod
    def from_folder(cls, folder):
        """A golden model in float32: its rows of q and k interleaved."""
        self = cls.__new__(cls)
        self.config = json.loads((pathlib.Path(folder) / "older.json").read_text())
        self.kind, self.matrices, self.vectors = GGMLQuantizationType.F32, {}, {}
        raw = (pathlib.Path(folder) / "model.safetensors").read_bytes()
        start = 8 + int.from_bytes(raw[:8], "little")
        entries = json.loads(raw[8:start])
        names = [f"blk.{i}.{kind}" for i in range(self.config["num_hidden_layers"])
                 for kind in smollm2_to_hf.LAYER_TENSORS]
        for name in ["token_embd", "output_norm", *names]:
            entry = entries[smollm2_to_hf.target_name(name + ".weight")]
            begin, end = entry["data_offsets"]
            values = np.frombuffer(raw[start + begin:start + end], np.float32)
            values = values.reshape(entry["shape"])
            key = {".attn_q": "num_attention_heads", ".attn_k": "num_key_value_heads"}
            for part, heads in key.items():
                if name.endswith(part):
                    values = interleaved(values, self.config[heads])
            (self.vectors if values.ndim == 1 else self.matrices)[name] = values
        return self

    def write_folder(self, folder):
        """The same values as a Hugging Face folder in float32."""
        folder = pathlib.Path(folder)
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(self.config))
        arrays = {}
        for name, data in self.matrices.items():
            values = dequantize(data, self.kind).astype(np.float32)
            for part, heads in ((".attn_q", 2), (".attn_k", 1)):
                if name.endswith(part):
                    values = smollm2_to_hf.deinterleaved(values, heads)
            arrays[smollm2_to_hf.target_name(name + ".weight")] = np.ascontiguousarray(values)
        for name, values in self.vectors.items():
            arrays[smollm2_to_hf.target_name(name + ".weight")] = values
        smollm2_to_hf.write_safetensors(folder / "model.safetensors",
                                        {k: list(v.shape) for k, v in arrays.items()},
                                        arrays.items())


def interleaved(rows, heads):
    """The inverse of smollm2_to_hf.deinterleaved."""
    dim = rows.shape[0] // heads
    return np.ascontiguousarray(
        rows.reshape(heads, 2, dim // 2, -1).swapaxes(1, 2).reshape(rows.shape))


def write_gguf(path, model):
    """A GGUF v3 file without tokenizer."""
    config = model.config
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_dimension_count(config["hidden_size"] // config["num_attention_heads"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    for name, values in model.vectors.items():
        writer.add_tensor(name + ".weight", values)
    for name, data in model.matrices.items():
        writer.add_tensor(name + ".weight", np.ascontiguousarray(data), raw_dtype=model.kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
