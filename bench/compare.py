# Measures zonda beside llama.cpp on the same files and adds the result to bench/RESULTS.md.
# SPDX-License-Identifier: Apache-2.0
#
# usage: .venv/bin/python bench/compare.py PEERS_FOLDER [--quick] [--threads N ...] [--bits B ...]
#                                          [--rounds N] (called by scripts/bench)
# Both run the same weights: each GGUF file that llama-quantize wrote is converted with its values
# kept. Rates are of forward passes alone, zonda's from `zonda profile`. The programs take turns, so
# that a change of the machine meets both; each keeps its best round.
import argparse
import datetime
import json
import pathlib
import subprocess
import time
import typing

ROOT = pathlib.Path(__file__).resolve().parents[1]
ZONDA = ROOT / "build/bin/zonda"
ENGINES = ROOT / "build/bench"
FORMATS = {"bf16": "BF16", "int8": "Q8_0", "int4": "Q4_0"}
PROMPTS, BATCHES, CONTEXT, DECODED = (128, 512, 2048), (1, 4, 16), 128, 64
QUICK_PROMPTS = (128, 512)
REPEATS = 2  # of a prompt, within a round
# What bounds a prompt: operations in the arithmetic of these weights.
PREFILL_LIMIT = {"bf16": "bf16_flops", "int8": "int8_ops", "int4": "int8_ops"}
# Smallest ratios to llama.cpp that the project promises: (bits, kind) -> ratio.
PROMISED = {("int4", "decode 1"): 1.0, ("int8", "decode 1"): 1.0, ("bf16", "decode 1"): 1.0,
            ("int4", "prefill 512"): 1.5, ("int8", "prefill 512"): 1.5,
            ("bf16", "prefill 512"): 1.0, ("int4", "decode 16"): 1.5, ("int8", "decode 16"): 1.5,
            ("bf16", "decode 16"): 1.5}


class Rate(typing.NamedTuple):
    """Tokens a second, and what that is a second of the limit named `limit`."""
    tokens: float
    used: float
    limit: str


def output(*command):
    return subprocess.run([*map(str, command)], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout.decode()


def engine_of(name, gguf):
    """The engine of one file; built once for a binary."""
    engine, checkpoint = ENGINES / name, ENGINES / f"{name}-checkpoint"
    stamp = ENGINES / f"{name}.stamp"
    if not stamp.exists() or stamp.stat().st_mtime < ZONDA.stat().st_mtime:
        output("rm", "-rf", engine, checkpoint)
        output(ZONDA, "convert", "--model_dir", gguf, "--output_dir", checkpoint)
        output(ZONDA, "build", "--checkpoint_dir", checkpoint, "--output_dir", engine,
               "--max_seq_len", 4096, "--max_num_tokens", 2048)
        stamp.touch()
    return engine


def profile(engine, threads, part, repeats, **shape):
    """One step of zonda: (limits of the machine in that process, the step)."""
    options = [word for name, value in shape.items() for word in (f"--{name}", value)]
    found = json.loads(output(ZONDA, "profile", engine, "--json", "--threads", threads,
                              "--repeats", repeats, *options))
    return found["limits"], found[part]


def zonda_round(engine, bits, threads, prompts):
    """({kind: Rate}, limits): prompts count by their best time as in llama-bench, decode steps by
    the median, which llama-batched-bench's mean comes close to."""
    rates, limits = {}, {}
    for prompt in prompts:
        own, step = profile(engine, threads, "prefill", REPEATS, prefill_tokens=prompt)
        keep_best(limits, own)
        key = PREFILL_LIMIT[bits]
        rates[f"prefill {prompt}"] = Rate(step["tokens"] / step["step_ms"] * 1e3,
                                          step["floor_us"] * own[key] / step["step_ms"] * 1e-3, key)
    for batch in BATCHES:
        own, step = profile(engine, threads, "decode", DECODED, prefill_tokens=1,
                            batch_size=batch, context=CONTEXT)
        keep_best(limits, own)
        seconds = step["median_step_ms"] * 1e-3
        moved = sum(kernel["bytes"] for kernel in step["kernels"])
        rates[f"decode {batch}"] = Rate(batch / seconds, moved / seconds, "read_bytes_per_s")
    return rates, limits


def llama_round(tools, gguf, threads, flash, prompts):
    """{kind: tok/s}, with flash attention or without."""
    rates = {}
    lines = output(tools / "llama-bench", "-m", gguf, "-t", threads, "-fa", flash, "-p",
                   ",".join(map(str, prompts)), "-n", 0, "-r", REPEATS, "-o", "jsonl")
    for row in map(json.loads, lines.splitlines()):
        rates[f"prefill {row['n_prompt']}"] = max(row["samples_ts"])
    lines = output(tools / "llama-batched-bench", "-m", gguf, "-t", threads, "-c", 4096, "-fa",
                   "on" if flash else "off", "-npp", CONTEXT, "-ntg", DECODED, "-npl",
                   ",".join(map(str, BATCHES)), "--output-format", "jsonl")
    for row in (json.loads(line) for line in lines.splitlines() if line.startswith("{")):
        rates[f"decode {row['pl']}"] = row["speed_tg"]
    return rates


def keep_best(best, found):
    for kind, rate in found.items():
        best[kind] = max(best.get(kind, rate), rate)


def measure(engine, bits, tools, gguf, threads, options):
    """(zonda's best rates, llama.cpp's best rates, limits): rounds of one program, then the other."""
    mine, theirs, limits = {}, {}, {}
    for turn in range(options.rounds):
        found, new_limits = zonda_round(engine, bits, threads, options.prompts)
        keep_best(mine, found)
        keep_best(limits, new_limits)
        keep_best(theirs, llama_round(tools, gguf, threads, turn % 2, options.prompts))
    return mine, theirs, limits


def load_seconds(engine):
    """Wall time of a process that loads the engine and makes one token: the best of three."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        output(ZONDA, "run", engine, "--input_ids", "1,2,3", "--max_output_len", 1, "--json")
        best = min(best, time.perf_counter() - start)
    return best


def table(rows, limits):
    lines = ["| bits | threads | what | zonda tok/s | of this machine's limit | llama.cpp tok/s | "
             "ratio | promised |", "|---|---|---|---|---|---|---|---|"]
    for bits, threads, kind, rate, peer in rows:
        promised = PROMISED.get((bits, kind), "")
        part = 100 * rate.used / limits[threads][rate.limit]
        of_what = "read" if kind.startswith("decode") else "arithmetic"
        lines.append(f"| {bits} | {threads} | {kind} | {rate.tokens:.1f} | {part:.0f} % {of_what} | "
                     f"{peer:.1f} | {rate.tokens / peer:.2f} | {promised} |")
    return lines


def report(rows, loads, limits, machine):
    """The section of one run, newest first in the file."""
    commit = output("git", "-C", ROOT, "rev-parse", "--short", "HEAD").strip()
    date = datetime.date.today().isoformat()
    lines = [f"## {date}, {machine['name']}, {machine['instruction_set']}, commit {commit}", "",
             "`make bench`: SmolLM2-135M-Instruct; both programs on the same weights (BF16, Q8_0, "
             "Q4_0 of llama-quantize), forward passes only, the programs in turns, the best round of "
             "each.", ""]
    for threads, found in limits.items():
        lines.append(f"Limits with {threads} threads: "
                     f"read {found['read_bytes_per_s'] / 1e9:.1f} GB/s, "
                     f"fp32 {found['fp32_flops'] / 1e9:.0f} GFLOP/s, "
                     f"bf16 {found['bf16_flops'] / 1e9:.0f} GFLOP/s, "
                     f"int8 {found['int8_ops'] / 1e9:.0f} GOP/s.")
    lines.append("Process start, load and first token: " + ", ".join(
        f"{bits} {1000 * seconds:.0f} ms" for bits, seconds in loads.items()) + ".")
    return "\n".join([*lines, "", *table(rows, limits), "", ""])


def write_results(section):
    file = ROOT / "bench/RESULTS.md"
    top = ("# Results\n\nNewest first; each section is one run of `make bench`. Ratios matter, the "
           "rest depends on the machine.\n\n")
    _, mark, sections = file.read_text().partition("\n## ") if file.exists() else ("", "", "")
    file.write_text(top + section + mark[1:] + sections)


def parsed_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("peers", type=pathlib.Path)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--bits", nargs="+", choices=FORMATS, default=list(FORMATS))
    parser.add_argument("--rounds", type=int, default=2, help="even: flash attention off and on")
    parser.add_argument("--quick", action="store_true", help="without the prompt of 2048 tokens")
    options = parser.parse_args()
    options.prompts = QUICK_PROMPTS if options.quick else PROMPTS
    return options


def main():
    options = parsed_options()
    ENGINES.mkdir(parents=True, exist_ok=True)
    machine = json.loads(output(ZONDA, "doctor", "--json"))["processor"]
    rows, loads, limits = [], {}, {}
    for bits in options.bits:
        gguf = options.peers / f"smollm2-{FORMATS[bits]}.gguf"
        engine = engine_of(bits, gguf)
        loads[bits] = load_seconds(engine)
        for threads in options.threads:
            mine, theirs, found = measure(engine, bits, options.peers / "build/bin",
                                          gguf, threads, options)
            keep_best(limits.setdefault(threads, {}), found)
            for kind in sorted(mine, key=lambda kind: (kind.split()[0], int(kind.split()[1]))):
                rows.append((bits, threads, kind, mine[kind], theirs[kind]))
                print(f"{bits} {threads} threads {kind}: {mine[kind].tokens:.1f} tok/s, "
                      f"{mine[kind].tokens / theirs[kind]:.2f} of llama.cpp", flush=True)
    write_results(report(rows, loads, limits, machine))


if __name__ == "__main__":
    main()
