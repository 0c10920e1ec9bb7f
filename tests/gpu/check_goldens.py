"""Runs the tiny goldens on a device in bfloat16 and compares their prompt logits with transformers' in float32.

usage: check_goldens.py ZONDA GOLDENS [--device KIND] [--dtype DTYPE]
Exit code 1 if any logits are further away than transformers' own in bfloat16 are: the tolerances of golden.json.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np


def run(options, folder, ids, scratch):
    """The prompt's logits and the greedy answer; None and the message if zonda fails."""
    logits = scratch / "logits.npy"
    logits.unlink(missing_ok=True)
    done = subprocess.run(
        [options.zonda, "run", folder, "--device", options.device, "--dtype", options.dtype,
         "--input_ids", ",".join(map(str, ids)), "--max_output_len", "32", "--temperature", "0",
         "--output_logits_npy", logits, "--json", "--cache_dir", scratch / "cache"],
        capture_output=True, text=True)
    if done.returncode != 0:
        return None, f"exit code {done.returncode}: {done.stderr.strip().splitlines()[-1:]}"
    return np.load(logits), json.loads(done.stdout)["ids"]


def check(options, folder, scratch):
    """One line about a golden, and whether it is within its tolerances."""
    golden = json.loads((folder / "golden.json").read_text())
    logits, ids = run(options, folder, golden["prompt_ids"], scratch)
    if logits is None:
        return ids, False
    expected = np.load(folder / "logits.npy")
    if logits.shape != expected.shape or not np.isfinite(logits).all():
        return f"logits of shape {logits.shape}, not {expected.shape}, or not finite", False
    difference = logits.astype(np.float64) - expected
    largest, rms = np.abs(difference).max(), np.sqrt(np.square(difference).mean())
    same = next((i for i, (a, b) in enumerate(zip(ids, golden["ids"])) if a != b), len(golden["ids"]))
    line = (f"largest {largest:.5f} of {golden['bf16_max_abs_delta']:.5f}, "
            f"rms {rms:.6f} of {golden['bf16_rms_delta']:.6f}, "
            f"{same} of {len(golden['ids'])} tokens as in float32")
    return line, largest <= golden["bf16_max_abs_delta"] and rms <= golden["bf16_rms_delta"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("zonda")
    parser.add_argument("goldens", type=pathlib.Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16")
    options = parser.parse_args()
    folders = sorted(path.parent for path in options.goldens.glob("*/golden.json"))
    failed = 0 if folders else 1
    with tempfile.TemporaryDirectory() as scratch:
        for folder in folders:
            line, good = check(options, folder, pathlib.Path(scratch))
            failed += not good
            print(f"{'ok    ' if good else 'FAILED'} {folder.name}: {line}")
    print(f"{len(folders)} goldens, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
