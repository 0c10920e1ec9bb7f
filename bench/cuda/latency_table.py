"""Prints `zonda profile --json` of the Llama-3.1-8B shape beside the H200's limits and measured peers.

usage: latency_table.py FORMAT PROFILE.json ...   (FORMAT: bf16, fp8 or int4)
SPDX-License-Identifier: Apache-2.0
"""
import json
import sys

BYTES_PER_S, FLOPS = 4.50e12, 790e12  # read bandwidth and dense bf16, measured on an H200
FP8_FLOPS = 1382e12  # of linears but the head; the same

# tok/s on the same kind of H200, random weights, greedy: (format, sequences or "prefill") -> peers.
PEERS = {
    ("bf16", 1): "vLLM 207, llama.cpp 207, transformers 141",
    ("bf16", 8): "vLLM 1570, llama.cpp 1023",
    ("bf16", 32): "vLLM 5212, llama.cpp 3871, transformers 2702",
    ("bf16", "prefill"): "vLLM 40800, llama.cpp 22000, transformers 33100",
    ("fp8", 1): "vLLM 281",
    ("fp8", 8): "vLLM 2165",
    ("fp8", 32): "vLLM 6240",
    ("fp8", "prefill"): "vLLM 64100",
    ("int4", 1): "vLLM 256 (AWQ, Marlin), llama.cpp 344 (Q4_0)",
    ("int4", 8): "vLLM 1955, llama.cpp 1267",
    ("int4", 32): "vLLM 5908, llama.cpp 3146",
    ("int4", "prefill"): "vLLM 41000, llama.cpp 11400",
}


def floor_us(weights, kernel):
    """The least time of a row's calls: its bytes or its operations, whichever take longer."""
    is_fp8 = weights == "fp8" and kernel["tactic"] and "head" not in kernel["call"]
    return max(kernel["bytes"] / BYTES_PER_S, kernel["operations"] / (FP8_FLOPS if is_fp8 else FLOPS)) * 1e6


def print_step(name, key, step):
    weights, rows = key[0], step["kernels"]
    floor = sum(floor_us(weights, row) for row in rows)
    print(f"\n{name}: {step['tokens']} tokens of {step['sequences']} sequences after {step['context']} positions")
    print(f"{'call':<34} {'tactic':<26} {'calls':>5} {'us':>9} {'GB/s':>7} {'TFLOP/s':>8} {'of limit':>8} {'share':>6}")
    for row in rows:
        us = max(row["time_us"], 1e-9)
        print(f"{row['call'][:34]:<34} {row['tactic'][:26]:<26} {row['calls']:>5} {us:>9.1f} "
              f"{row['bytes'] / us / 1e3:>7.0f} {row['operations'] / us / 1e6:>8.1f} "
              f"{100 * floor_us(weights, row) / us:>6.0f} % {100 * row['share']:>4.0f} %")
    best, median = step["step_ms"], step["median_step_ms"]
    print(f"{name}: {best:.3f} ms ({step['tokens'] / best * 1e3:.0f} tok/s), median {median:.3f} ms "
          f"({step['tokens'] / median * 1e3:.0f} tok/s); limit {floor / 1e3:.3f} ms "
          f"({step['tokens'] / floor * 1e6:.0f} tok/s), reached {floor / best / 10:.0f} %; "
          f"sum of calls {step['time_us'] / 1e3:.3f} ms")
    print(f"   peers: {PEERS.get(key, 'none measured')}")


def main(weights, paths):
    print(f"== {weights}; limits {BYTES_PER_S / 1e12:.2f} TB/s and {FLOPS / 1e12:.0f} TFLOP/s"
          f"{f', {FP8_FLOPS / 1e12:.0f} in fp8' if weights == 'fp8' else ''}")
    for index, path in enumerate(paths):
        try:
            with open(path, encoding="utf-8") as file:
                profile = json.load(file)
        except ValueError:
            sys.exit(f"{path} holds no profile")
        if index == 0:
            print_step(f"{weights} prefill", (weights, "prefill"), profile["prefill"])
        decode = profile["decode"]
        print_step(f"{weights} decode", (weights, decode["sequences"]), decode)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
