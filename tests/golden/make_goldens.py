# Makes tests/golden/tiny/*: small random Llama models, logits and greedy tokens of transformers.
# SPDX-License-Identifier: Apache-2.0
#
# usage: python tests/golden/make_goldens.py [NAME ...]     (needs requirements/goldens.txt)
# Each folder is a Hugging Face folder without a tokenizer, and:
#   golden.json      prompt_ids [64], ids (greedy, up to 32), finish_reason, and
#                    bf16_max_abs_delta, bf16_rms_delta: the difference in logits of transformers'
#                    own bfloat16 run to its float32 run, over this and seven other prompts
#   logits.npy       float32 [64, vocab_size], of the prompt, weights and arithmetic in float32
#   older.json       the same configuration as transformers 4 spells it (rope_theta, rope_scaling)
import json
import pathlib
import shutil
import sys

import numpy as np
import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
from transformers.utils import logging

logging.disable_progress_bar()

FOLDER = pathlib.Path(__file__).resolve().parent / "tiny"
PROMPT_TOKENS, NEW_TOKENS = 64, 32
PROMPTS = 8  # that the tolerance of bfloat16 is measured over
MIN_MARGIN = 2e-3  # every greedy choice leads by this at least: 1e-4 of noise cannot turn it
MIN_DISTINCT = 10  # greedy tokens must vary

BASE = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
            rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2, tie_word_embeddings=False,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0})

# name: (changes to BASE, dtype of the stored weights, shards)
VARIANTS = {
    "gqa_tied": (dict(tie_word_embeddings=True, vocab_size=80), "float32", 1),
    "mha_untied": (dict(num_key_value_heads=4, vocab_size=101), "float32", 1),
    "mqa_head_dim": (dict(num_key_value_heads=1, head_dim=16), "bfloat16", 1),
    "biases": (dict(attention_bias=True, mlp_bias=True), "bfloat16", 1),
    "half": (dict(num_attention_heads=2, num_key_value_heads=1), "float16", 1),
    "eos_list_sharded": (dict(num_hidden_layers=3, eos_token_id=[2, 3]), "bfloat16", 3),
    "rope_linear": (dict(max_position_embeddings=64, rope_parameters={
        "rope_type": "linear", "factor": 2.5, "rope_theta": 10000.0}), "bfloat16", 1),
    "rope_dynamic": (dict(max_position_embeddings=32, rope_parameters={
        "rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}), "bfloat16", 1),
    "rope_yarn": (dict(head_dim=16, rope_parameters={
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32,
        "rope_theta": 10000.0}), "bfloat16", 1),
    "rope_llama3": (dict(head_dim=16, rope_parameters={
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32, "rope_theta": 500.0}), "bfloat16", 1),
}


def make_model(config, seed, dtype):
    """Random weights, so wide that the logits are not flat, rounded once to the stored dtype."""
    generator = torch.Generator().manual_seed(seed)
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = torch.randn(parameter.shape, generator=generator)
            if name.endswith("norm.weight"):
                values = 1.0 + 0.1 * values
            elif parameter.dim() == 2 and "embed_tokens" not in name:
                values *= 1.2 / parameter.shape[1] ** 0.5
            elif "embed_tokens" in name and config.tie_word_embeddings:
                values *= 0.2
            elif name.endswith("bias"):
                values *= 0.2
            parameter.copy_(values.to(dtype).to(torch.float32))
    return model


def random_prompt(config, seed):
    return np.random.default_rng(seed).integers(4, config.vocab_size, PROMPT_TOKENS).tolist()


def greedy(model, prompt, eos):
    """The greedy continuation, finish reason, and the smallest lead of a choice.

    Rotary frequencies stay those of the prompt: Zonda fixes them when a request is admitted.
    """
    model.model.rotary_emb.max_seq_len_cached = 1 << 30
    ids, margin = list(prompt), float("inf")
    while len(ids) < len(prompt) + NEW_TOKENS:
        logits = model(torch.tensor([ids]), use_cache=False).logits[0, -1]
        first, second = torch.topk(logits, 2).values.tolist()
        margin = min(margin, first - second)
        ids.append(int(logits.argmax()))
        if ids[-1] in eos:
            return ids[len(prompt):], "stop", margin
    return ids[len(prompt):], "length", margin


def older_spelling(config):
    """config.json as transformers 4 wrote it: torch_dtype, rope_theta and rope_scaling."""
    older = dict(config)
    rope = dict(older.pop("rope_parameters"))
    older["rope_theta"] = rope.pop("rope_theta")
    kind = rope.pop("rope_type")
    older["torch_dtype"] = older.pop("dtype")
    if kind in ("linear", "dynamic"):
        older["rope_scaling"] = {"type": kind, **rope}
    else:
        older["rope_scaling"] = None if kind == "default" else {"rope_type": kind, **rope}
    older["transformers_version"] = "4.44.2"
    return older


def accepted(config, ids, finish, margin):
    """Whether a seed gives a golden that can tell right from wrong."""
    if margin < MIN_MARGIN:
        return False
    if isinstance(config.eos_token_id, list):  # this one ends by its second stop id, late enough
        return finish == "stop" and ids[-1] == config.eos_token_id[1] and len(ids) >= 8
    return finish == "length" and len(set(ids)) >= MIN_DISTINCT


def bf16_delta(config, seed, dtype):
    """(largest, root mean square) difference in logits of a bfloat16 run to a float32 run."""
    model = make_model(config, seed, dtype)
    low = make_model(config, seed, dtype).to(torch.bfloat16)
    prompts = torch.tensor([random_prompt(config, seed + i) for i in range(PROMPTS)])
    delta = low(prompts, use_cache=False).logits.float() - model(prompts, use_cache=False).logits
    return float(delta.abs().max()), float(delta.square().mean().sqrt())


@torch.no_grad()
def make(name, changes, dtype_name, shards):
    config = LlamaConfig(**{**BASE, **changes}, dtype=dtype_name)
    eos = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    dtype = getattr(torch, dtype_name)
    for seed in range(10000):
        model = make_model(config, seed, dtype)
        prompt = random_prompt(config, seed)
        logits = model(torch.tensor([prompt]), use_cache=False).logits[0]
        ids, finish, margin = greedy(model, prompt, eos)
        if accepted(config, ids, finish, margin):
            break
    else:
        raise SystemExit(f"{name}: no seed is accepted")
    largest_delta, rms_delta = bf16_delta(config, seed, dtype)

    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    model.generation_config = GenerationConfig(bos_token_id=1, eos_token_id=config.eos_token_id)
    size = sum(p.numel() for p in model.parameters()) * dtype.itemsize
    largest = int(size / shards) if shards > 1 else "1GB"
    model.to(dtype).save_pretrained(folder, max_shard_size=largest)
    written = json.loads((folder / "config.json").read_text())
    (folder / "older.json").write_text(json.dumps(older_spelling(written), indent=2) + "\n")
    np.save(folder / "logits.npy", logits.numpy())
    golden = {"prompt_ids": prompt, "ids": ids, "finish_reason": finish, "seed": seed,
              "smallest_lead": round(margin, 6), "bf16_max_abs_delta": round(largest_delta, 6),
              "bf16_rms_delta": round(rms_delta, 6)}
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")
    print(f"{name}: seed {seed}, lead {margin:.4f}, {len(ids)} ids, {finish}, "
          f"logits std {logits.std():.2f}, bf16 delta {largest_delta:.4f}, {rms_delta:.4f}")


if __name__ == "__main__":
    for name in sys.argv[1:] or VARIANTS:
        make(name, *VARIANTS[name])
