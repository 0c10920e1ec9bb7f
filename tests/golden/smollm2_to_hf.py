# Writes SmolLM2-135M-Instruct as a Hugging Face folder in float32, from its GGUF file.
# SPDX-License-Identifier: Apache-2.0
#
# usage: python tests/golden/smollm2_to_hf.py FILE.gguf FOLDER     (needs gguf and numpy)
# The GGUF keeps rows of q and k interleaved for its rotary kernel; here they are in two halves.
import json
import pathlib
import sys

import numpy as np
from gguf import GGUFReader, dequantize

LAYER_TENSORS = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TOP_TENSORS = {"token_embd.weight": "model.embed_tokens.weight",
               "output_norm.weight": "model.norm.weight"}
CONTROL = 3  # tokenizer.ggml.token_type of a special token


def target_name(name):
    if name in TOP_TENSORS:
        return TOP_TENSORS[name]
    _, layer, kind, _ = name.split(".")
    return f"model.layers.{layer}.{LAYER_TENSORS[kind]}.weight"


def deinterleaved(rows, heads):
    """[heads * dim, cols] with rows 0, dim/2, 1, dim/2 + 1, ... of each head back in order."""
    dim = rows.shape[0] // heads
    return rows.reshape(heads, dim // 2, 2, -1).swapaxes(1, 2).reshape(rows.shape)


def tensors(reader, heads, kv_heads):
    """Yields (name, float32 array) in the order of the file."""
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if ".attn_q." in tensor.name:
            values = deinterleaved(values, heads)
        elif ".attn_k." in tensor.name:
            values = deinterleaved(values, kv_heads)
        yield target_name(tensor.name), np.ascontiguousarray(values)


def write_safetensors(path, shapes, arrays):
    """shapes: {name: shape} in the order of `arrays`; one array in memory at a time."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        size = 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, array in arrays:
            assert list(array.shape) == shapes[name], name
            file.write(array.tobytes())


def tokenizer_json(tokens, types, merges):
    special = [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True}
               for i, (token, kind) in enumerate(zip(tokens, types)) if kind == CONTROL]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                  "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True}, byte_level]},
        "post_processor": None, "decoder": {**byte_level, "add_prefix_space": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
                  "byte_fallback": False, "ignore_merges": False,
                  "vocab": {token: i for i, token in enumerate(tokens)},
                  "merges": [merge.split(" ", 1) for merge in merges]},
    }


def configuration(value):
    eps = float(np.format_float_positional(np.float32(value("attention.layer_norm_rms_epsilon"))))
    heads = value("attention.head_count")
    return {
        "architectures": ["LlamaForCausalLM"], "attention_bias": False, "bos_token_id": 1,
        "dtype": "float32", "eos_token_id": 2, "hidden_act": "silu",
        "head_dim": value("embedding_length") // heads, "hidden_size": value("embedding_length"),
        "intermediate_size": value("feed_forward_length"),
        "max_position_embeddings": value("context_length"), "mlp_bias": False,
        "model_type": "llama", "num_attention_heads": heads,
        "num_hidden_layers": value("block_count"),
        "num_key_value_heads": value("attention.head_count_kv"), "pad_token_id": 2,
        "rms_norm_eps": eps,
        "rope_parameters": {"rope_theta": value("rope.freq_base"), "rope_type": "default"},
        "tie_word_embeddings": True, "vocab_size": value("vocab_size"),
    }


def write(folder, name, value):
    (folder / name).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def convert(gguf_file, folder):
    """Writes the folder; an existing file of the same name is replaced."""
    reader = GGUFReader(gguf_file)
    field = lambda key: reader.fields[key].contents()  # noqa: E731
    config = configuration(lambda key: field(f"llama.{key}"))
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    template = field("tokenizer.chat_template")
    tokens = field("tokenizer.ggml.tokens")
    write(folder, "config.json", config)
    write(folder, "generation_config.json",
          {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2})
    write(folder, "tokenizer.json", tokenizer_json(tokens, field("tokenizer.ggml.token_type"),
                                                   field("tokenizer.ggml.merges")))
    write(folder, "tokenizer_config.json", {
        "add_prefix_space": False, "bos_token": tokens[1], "chat_template": template,
        "clean_up_tokenization_spaces": False, "eos_token": tokens[2], "model_max_length": 8192,
        "pad_token": tokens[2], "tokenizer_class": "GPT2Tokenizer", "unk_token": tokens[0]})
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    shapes = {target_name(t.name): [int(n) for n in reversed(t.shape)] for t in reader.tensors}
    write_safetensors(folder / "model.safetensors", shapes, tensors(reader, heads, kv_heads))


if __name__ == "__main__":
    convert(sys.argv[1], sys.argv[2])
