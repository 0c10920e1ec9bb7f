"""Under --deterministic a request's tokens do not depend on what runs beside it, on chunks or on reused prefixes.

usage: check_invariance.py ZONDA MODEL [--requests N] [--device KIND]
MODEL: a folder without a tokenizer will do. Exit code 1 if any request differs from the same request alone.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile


def make_requests(count, vocabulary, longest):
    """Prompts of mixed lengths, some with a common beginning; greedy and drawn."""
    rng = random.Random(11)
    shared = [rng.randrange(vocabulary) for _ in range(longest // 2)]
    requests = []
    for index in range(count):
        prompt = [rng.randrange(vocabulary) for _ in range(rng.randrange(1, longest // 2))]
        request = {"input_ids": shared + prompt if index % 3 == 0 else prompt,
                   "max_tokens": rng.randrange(4, 24), "ignore_eos": True, "temperature": 0.0}
        if index % 2:
            request |= {"temperature": 0.9, "seed": index, "top_p": 0.95, "repetition_penalty": 1.1}
        requests.append(request)
    return requests


def run(options, engine, requests, scratch, *more):
    path = scratch / "requests.jsonl"
    path.write_text("".join(json.dumps(request) + "\n" for request in requests))
    done = subprocess.run([options.zonda, "run", engine, "--input_file", path, "--deterministic", "--json", *more],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"exit code {done.returncode}: {done.stderr.strip()[-1000:]}")
    return [json.loads(line)["ids"] for line in done.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("zonda")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    config = json.loads((options.model / "config.json").read_text())
    requests = make_requests(options.requests, config["vocab_size"], config["max_position_embeddings"] - 32)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        engine = scratch / "engine"
        subprocess.run([options.zonda, "build", "--model_dir", options.model, "--output_dir", engine, "--device",
                        options.device, "--max_batch_size", "16", "--max_seq_len",
                        str(config["max_position_embeddings"]), "--max_num_tokens", "256"],
                       check=True, capture_output=True)
        alone = [run(options, engine, [request], scratch)[0] for request in requests]
        for name, more in (("in a batch", ()), ("in chunks of 32", ("--max_num_tokens", "32")),
                           ("without reuse", ("--kv_cache_enable_block_reuse", "disable"))):
            same = sum(a == b for a, b in zip(alone, run(options, engine, requests, scratch, *more)))
            failed += same != len(requests)
            print(f"{name}: {same} of {len(requests)} requests as alone", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
