"""A random model of the Llama-3.1-8B shape from a folder to logits, beside transformers on the same GPU.

usage: check_transformers.py ZONDA WORK [--layers N] [--positions N] [--device KIND]
Prints the seconds of convert, build and run, and how far the logits of one prompt are from those of transformers in
bfloat16 and float32: top-1 agreement and mean KL divergence. WORK needs 50 GB for 32 layers.
Exit code 1 if zonda agrees less with float32 than transformers' own bfloat16 does, by more than 1 %.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import time

import numpy as np
import torch
import transformers

SHAPE = {"vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
         "num_key_value_heads": 8, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
         "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}


def make_model(options, folder):
    """Writes the folder; the model in bfloat16 on the device."""
    torch.manual_seed(1)
    config = transformers.LlamaConfig(**SHAPE, num_hidden_layers=options.layers, dtype="bfloat16")
    with torch.device(options.device):
        torch.set_default_dtype(torch.bfloat16)
        model = transformers.LlamaForCausalLM(config)
        torch.set_default_dtype(torch.float32)
    model.eval()
    model.save_pretrained(folder)
    return model


def logits_of(model, ids, device):
    with torch.no_grad():
        return model(torch.tensor([ids], device=device)).logits[0].float().cpu().numpy()


def timed(name, arguments):
    start = time.monotonic()
    done = subprocess.run(arguments, capture_output=True, text=True)
    seconds = time.monotonic() - start
    print(f"{name}: {seconds:.2f} s", flush=True)
    if done.returncode != 0:
        sys.exit(f"{name}: exit code {done.returncode}: {done.stderr[-2000:]}")
    return done


def compare(name, found, expected):
    """Top-1 agreement and mean KL(expected, found).

    Random weights leave the first two of 128,256 logits close together: agreement is printed also for the positions
    where they are further apart than eight times the rms difference.
    """
    same = found.argmax(1) == expected.argmax(1)
    agree = float(same.mean())
    a = torch.log_softmax(torch.from_numpy(expected).double(), 1)
    b = torch.log_softmax(torch.from_numpy(found).double(), 1)
    divergence = float((a.exp() * (a - b)).sum(1).mean())
    delta = found.astype(np.float64) - expected
    two = np.partition(expected, -2, axis=1)[:, -2:]
    clear = two[:, 1] - two[:, 0] > 8 * np.sqrt(np.square(delta).mean())
    print(f"{name}: top-1 {100 * agree:.2f} % ({same[clear].sum()} of {clear.sum()} where it is clear), KL {divergence:.3e}, rms {np.sqrt(np.square(delta).mean()):.5f}, "
          f"largest {np.abs(delta).max():.4f}", flush=True)
    return agree


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("zonda")
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--positions", type=int, default=512)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    source, checkpoint, engine = (options.work / name for name in ("source", "checkpoint", "engine"))

    start = time.monotonic()
    model = make_model(options, source)
    print(f"the random model: {time.monotonic() - start:.1f} s", flush=True)
    ids = torch.randint(0, SHAPE["vocab_size"], (options.positions,), generator=torch.Generator().manual_seed(2)).tolist()
    theirs = logits_of(model, ids, options.device)
    exact = logits_of(model.float(), ids, options.device)
    del model
    if options.device == "cuda":
        torch.cuda.empty_cache()

    timed("convert", [options.zonda, "convert", "--model_dir", source, "--output_dir", checkpoint])
    shutil.rmtree(source)
    timed("build", [options.zonda, "build", "--checkpoint_dir", checkpoint, "--output_dir", engine, "--device",
                    options.device, "--max_seq_len", "4096", "--max_num_tokens", "2048", "--max_batch_size", "32"])
    run = [options.zonda, "run", engine, "--input_ids", ",".join(map(str, ids)), "--max_output_len", "1", "--json"]
    for attempt in ("first", "second"):
        done = timed(f"process start to first token and end, {attempt}", run)
        print("  " + json.dumps(json.loads(done.stdout).get("timings")), flush=True)
    print("\n".join("  " + line for line in done.stderr.splitlines() if "[I]" in line), flush=True)
    timed("run with logits", run + ["--output_logits_npy", options.work / "logits.npy"])
    ours = np.load(options.work / "logits.npy")

    baseline = compare("transformers bfloat16 to transformers float32", theirs, exact)
    agree = compare("zonda bfloat16 to transformers float32", ours, exact)
    compare("zonda bfloat16 to transformers bfloat16", ours, theirs)
    return 0 if agree >= baseline - 0.01 else 1


if __name__ == "__main__":
    sys.exit(main())
