# Measures zonda beside llama.cpp on the same files and adds the result to bench/RESULTS.md.
# SPDX-License-Identifier: Apache-2.0
#
# usage: .venv/bin/python bench/compare.py PEERS_FOLDER [--quick] (called by scripts/bench)
# Both run the same weights: each GGUF file that llama-quantize wrote is converted with its values
# kept. Rates are of forward passes alone, the best of several repetitions; zonda's come from
# `zonda profile`.
import argparse
import datetime
import json
import pathlib
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
ZONDA = ROOT / "build/bin/zonda"
ENGINES = ROOT / "build/bench"
FORMATS = {"bf16": "BF16", "int8": "Q8_0", "int4": "Q4_0"}
PROMPTS, BATCHES, CONTEXT, DECODED = (128, 512, 2048), (1, 4, 16), 128, 64
# Smallest ratios to llama.cpp that the project promises: (bits, kind) -> ratio.
PROMISED = {("int4", "decode 1"): 1.0, ("int8", "decode 1"): 1.0, ("bf16", "decode 1"): 1.0,
            ("int4", "prefill 512"): 1.5, ("int8", "prefill 512"): 1.5,
            ("bf16", "prefill 512"): 1.0, ("int4", "decode 16"): 1.5, ("int8", "decode 16"): 1.5,
            ("bf16", "decode 16"): 1.5}


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


def profile(engine, threads, prompt, batch, repeats):
    return json.loads(output(ZONDA, "profile", engine, "--json", "--threads", threads,
                             "--prefill_tokens", prompt, "--batch_size", batch, "--context",
                             CONTEXT, "--repeats", repeats))


def zonda_rates(engine, threads, repeats):
    """({kind: (tok/s, fraction of the machine's floor)}, limits)."""
    rates = {}
    for prompt, batch in zip(PROMPTS, BATCHES):
        found = profile(engine, threads, prompt, batch, repeats)
        for kind, part in ((f"prefill {prompt}", "prefill"), (f"decode {batch}", "decode")):
            rates[kind] = (found[part]["tokens_per_s"], found[part]["fraction"])
    return rates, found["limits"], found["instruction_set"]


def llama_rates(tools, gguf, threads, repeats):
    """{kind: tok/s}, of the better of flash attention on and off."""
    rates = {}
    for flash in (0, 1):
        lines = output(tools / "llama-bench", "-m", gguf, "-t", threads, "-fa", flash, "-p",
                       ",".join(map(str, PROMPTS)), "-n", 0, "-r", repeats, "-o", "jsonl")
        for row in map(json.loads, lines.splitlines()):
            kind = f"prefill {row['n_prompt']}"
            rates[kind] = max(rates.get(kind, 0), max(row["samples_ts"]))
        lines = output(tools / "llama-batched-bench", "-m", gguf, "-t", threads, "-c", 4096, "-fa",
                       "on" if flash else "off", "-npp", CONTEXT, "-ntg", DECODED, "-npl",
                       ",".join(map(str, BATCHES)), "--output-format", "jsonl")
        for row in (json.loads(line) for line in lines.splitlines() if line.startswith("{")):
            kind = f"decode {row['pl']}"
            rates[kind] = max(rates.get(kind, 0), row["speed_tg"])
    return rates


def load_seconds(engine):
    """Wall time of a process that loads the engine and makes one token: the best of three."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        output(ZONDA, "run", engine, "--input_ids", "1,2,3", "--max_output_len", 1, "--json")
        best = min(best, time.perf_counter() - start)
    return best


def table(rows):
    lines = ["| bits | threads | what | zonda tok/s | of this machine's limit | llama.cpp tok/s | "
             "ratio | promised |", "|---|---|---|---|---|---|---|---|"]
    for bits, threads, kind, (rate, part), peer in rows:
        promised = PROMISED.get((bits, kind), "")
        lines.append(f"| {bits} | {threads} | {kind} | {rate:.1f} | {100 * part:.0f} % | "
                     f"{peer:.1f} | {rate / peer:.2f} | {promised} |")
    return lines


def report(rows, loads, limits, machine):
    """The section of one run, newest first in the file."""
    commit = output("git", "-C", ROOT, "rev-parse", "--short", "HEAD").strip()
    date = datetime.date.today().isoformat()
    lines = [f"## {date}, {machine['name']}, {machine['instruction_set']}, commit {commit}", "",
             "`make bench`: SmolLM2-135M-Instruct; both programs on the same weights (BF16, Q8_0, "
             "Q4_0 of llama-quantize), forward passes only, best repetition.", ""]
    for threads, found in limits.items():
        lines.append(f"Limits with {threads} threads: "
                     f"read {found['read_bytes_per_s'] / 1e9:.1f} GB/s, "
                     f"fp32 {found['fp32_flops'] / 1e9:.0f} GFLOP/s, "
                     f"bf16 {found['bf16_flops'] / 1e9:.0f} GFLOP/s, "
                     f"int8 {found['int8_ops'] / 1e9:.0f} GOP/s.")
    lines.append("Process start, load and first token: " + ", ".join(
        f"{bits} {1000 * seconds:.0f} ms" for bits, seconds in loads.items()) + ".")
    return "\n".join([*lines, "", *table(rows), "", ""])


def write_results(section):
    file = ROOT / "bench/RESULTS.md"
    top = ("# Results\n\nNewest first; each section is one run of `make bench`. Ratios matter, the "
           "rest depends on the machine.\n\n")
    old = file.read_text()[len(top):] if file.exists() else ""
    file.write_text(top + section + old)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("peers", type=pathlib.Path)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    ENGINES.mkdir(parents=True, exist_ok=True)
    machine = json.loads(output(ZONDA, "doctor", "--json"))["processor"]
    rows, loads, limits = [], {}, {}
    for bits, name in FORMATS.items():
        gguf = args.peers / f"smollm2-{name}.gguf"
        engine = engine_of(bits, gguf)
        loads[bits] = load_seconds(engine)
        for threads in args.threads:
            mine, limits[threads], _ = zonda_rates(engine, threads, args.repeats)
            theirs = llama_rates(args.peers / "build/bin", gguf, threads, args.repeats)
            for kind, rate in mine.items():
                rows.append((bits, threads, kind, rate, theirs[kind]))
                print(f"{bits} {threads} threads {kind}: {rate[0]:.1f} tok/s, "
                      f"{rate[0] / theirs[kind]:.2f} of llama.cpp", flush=True)
    write_results(report(rows, loads, limits, machine))


if __name__ == "__main__":
    main()
