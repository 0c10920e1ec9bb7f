"""Compares fp8 weights on a device with the same values in bfloat16: logits of 512 positions of a random Llama.

usage: check_fp8.py ZONDA [--device KIND]
Writes a folder whose linears are fp8 with a scale of each row, and one with scale * code as bfloat16. Prints top-1
agreement and the mean KL divergence of the next-token distributions: of bfloat16 with itself by other kernels (what
rounding alone does), of fp8 with --deterministic, where activations stay 16-bit, and of fp8 as timed, where those of
many tokens become fp8 too. Exit code 1 beyond the limits below.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

# Beside this file where it was packed.
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import fp8_files

HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, VOCAB, POSITIONS = 512, 1536, 4, 8, 2, 4096, 512
# (least top-1 agreement, largest mean KL)
LIMITS = {"bfloat16, other kernels": (0.95, 1.5e-3), "16-bit activations": (0.94, 2e-3),
          "fp8 activations": (0.80, 3e-2)}


def shapes():
    """{Hugging Face name: shape}."""
    found = {"model.embed_tokens.weight": [VOCAB, HIDDEN], "lm_head.weight": [VOCAB, HIDDEN],
             "model.norm.weight": [HIDDEN]}
    kv = HIDDEN // HEADS * KV_HEADS
    for layer in range(LAYERS):
        linears = {"self_attn.q_proj": [HIDDEN, HIDDEN], "self_attn.k_proj": [kv, HIDDEN],
                   "self_attn.v_proj": [kv, HIDDEN], "self_attn.o_proj": [HIDDEN, HIDDEN],
                   "mlp.gate_proj": [FFN, HIDDEN], "mlp.up_proj": [FFN, HIDDEN], "mlp.down_proj": [HIDDEN, FFN],
                   "input_layernorm": [HIDDEN], "post_attention_layernorm": [HIDDEN]}
        found.update({f"model.layers.{layer}.{name}.weight": shape for name, shape in linears.items()})
    return found


def write_folders(fp8_folder, bf16_folder):
    """The same model twice."""
    random = np.random.default_rng(1)
    fp8, bf16 = {}, {}
    for name, shape in shapes().items():
        values = np.ones(shape) if len(shape) == 1 else random.normal(0, shape[1]**-0.5, shape)
        values *= 3.0 if name == "lm_head.weight" else 1.0  # so that some tokens stand out
        if name.endswith("_proj.weight"):
            scale = (np.abs(values).max(axis=1, keepdims=True) / 448).astype(np.float32)
            codes = fp8_files.encode(values / scale)
            fp8[name] = ("F8_E4M3", shape, codes.tobytes())
            fp8[name + "_scale"] = ("F32", [shape[0], 1], scale.tobytes())
            bf16[name] = ("BF16", shape, fp8_files.to_bf16(fp8_files.TABLE[codes] * scale).tobytes())
        else:
            fp8[name] = bf16[name] = ("BF16", shape, fp8_files.to_bf16(values).tobytes())
    config = {"architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16", "vocab_size": VOCAB,
              "hidden_size": HIDDEN, "intermediate_size": FFN, "num_hidden_layers": LAYERS,
              "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "rms_norm_eps": 1e-5,
              "rope_theta": 10000.0, "max_position_embeddings": 1024, "tie_word_embeddings": False,
              "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2}
    for folder, tensors in ((fp8_folder, fp8), (bf16_folder, bf16)):
        folder.mkdir()
        fp8_files.write(folder / "model.safetensors", tensors)
        (folder / "config.json").write_text(json.dumps(config))


def prompt_logits(options, folder, scratch, *extra):
    """Float64 logits [POSITIONS, VOCAB]."""
    ids = np.random.default_rng(2).integers(3, VOCAB, POSITIONS)
    file = scratch / "logits.npy"
    done = subprocess.run(
        [options.zonda, "run", folder, "--device", options.device, "--input_ids", ",".join(map(str, ids)),
         "--max_output_len", "1", "--temperature", "0", "--output_logits_npy", file, "--json", "--cache_dir",
         scratch / "cache", *extra], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"exit code {done.returncode}: {done.stderr[-2000:]}")
    return np.load(file).astype(np.float64)


def log_softmax(logits):
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("zonda")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        write_folders(scratch / "fp8", scratch / "bf16")
        expected = prompt_logits(options, scratch / "bf16", scratch)
        p = log_softmax(expected)
        for kind, folder, extra in (("bfloat16, other kernels", "bf16", ["--deterministic"]),
                                    ("16-bit activations", "fp8", ["--deterministic"]),
                                    ("fp8 activations", "fp8", [])):
            found = prompt_logits(options, scratch / folder, scratch, *extra)
            agreement = (found.argmax(axis=1) == expected.argmax(axis=1)).mean()
            divergence = (np.exp(p) * (p - log_softmax(found))).sum(axis=1).mean()
            difference = np.sqrt(np.square(found - expected).mean() / np.square(expected).mean())
            least, most = LIMITS[kind]
            good = np.isfinite(found).all() and agreement >= least and divergence <= most
            failed += not good
            print(f"{'ok  ' if good else 'FAIL'} {kind}: top-1 {100 * agreement:.1f} % of {POSITIONS}, "
                  f"KL {divergence:.2e}, relative difference {difference:.2e}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
