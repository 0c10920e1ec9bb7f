# Measures zonda beside llama.cpp on the same files and adds the result to bench/RESULTS.md.
# SPDX-License-Identifier: Apache-2.0
#
# usage: .venv/bin/python bench/compare.py PEERS_FOLDER [--quick] [--threads N ...] [--bits B ...]
#                                          [--rounds N] [--seconds S] (called by scripts/bench)
# Both run the same weights: each GGUF file that llama-quantize wrote is converted with its values
# kept. Rates are of forward passes alone, zonda's from `zonda profile`. The programs take turns, so
# that a change of the machine meets both; each keeps its best round.
# With --seconds a call starts no measurement after that time; the next call goes on from there
# (build/bench/measured.json), and the one that comes to the end writes the results.
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
LONG_PROMPT = 1024  # from here on one run of a prompt in a round, otherwise REPEATS
REPEATS = 2
MEASURED = ENGINES / "measured.json"
# What bounds a prompt: operations in the arithmetic of these weights.
PREFILL_LIMIT = {"bf16": "bf16_flops", "int8": "int8_ops", "int4": "int8_ops"}
# Smallest ratios to llama.cpp that the project promises: (bits, kind) -> ratio.
PROMISED = {("int4", "decode 1"): 1.0, ("int8", "decode 1"): 1.0, ("bf16", "decode 1"): 1.0,
            ("int4", "prefill 512"): 1.5, ("int8", "prefill 512"): 1.5,
            ("bf16", "prefill 512"): 1.0, ("int4", "decode 16"): 1.5, ("int8", "decode 16"): 1.5,
            ("bf16", "decode 16"): 1.5}


def output(*command):
    return subprocess.run([*map(str, command)], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout.decode()


def gguf_of(options, bits):
    return options.peers / f"smollm2-{FORMATS[bits]}.gguf"


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


def repeats_of(prompt):
    return 1 if prompt >= LONG_PROMPT else REPEATS


class Measurement(typing.NamedTuple):
    """One program at one point: what a round consists of."""
    program: str
    bits: str
    threads: int
    part: str  # "prefill" or "decode"
    size: int  # prompt tokens or sequences
    turn: int

    @property
    def kind(self):
        return f"{self.part} {self.size}"


def measure_zonda(options, what):
    """(tokens a second, units of the limit a second, limit's name, the machine's limits): a prompt
    counts by its best time as in llama-bench, decode by the median step, which
    llama-batched-bench's mean comes close to."""
    engine = engine_of(what.bits, gguf_of(options, what.bits))
    shape = {"prefill_tokens": what.size, "repeats": repeats_of(what.size)}
    if what.part == "decode":
        shape = {"prefill_tokens": 1, "repeats": DECODED, "batch_size": what.size,
                 "context": CONTEXT}
    words = [word for name, value in shape.items() for word in (f"--{name}", value)]
    found = json.loads(output(ZONDA, "profile", engine, "--json", "--threads", what.threads,
                              *words))
    step = found[what.part]
    if what.part == "prefill":
        limit = PREFILL_LIMIT[what.bits]
        seconds = step["step_ms"] * 1e-3
        used = step["floor_us"] * 1e-6 * found["limits"][limit]
    else:
        limit = "read_bytes_per_s"
        seconds = step["median_step_ms"] * 1e-3
        used = sum(kernel["bytes"] for kernel in step["kernels"])
    return step["tokens"] / seconds, used / seconds, limit, found["limits"]


def measure_llama(options, what):
    """Tokens a second, with flash attention in odd turns."""
    tools, flash = options.peers / "build/bin", what.turn % 2
    common = ["-m", gguf_of(options, what.bits), "-t", what.threads]
    if what.part == "prefill":
        lines = output(tools / "llama-bench", *common, "-fa", flash, "-p", what.size, "-n", 0,
                       "-r", repeats_of(what.size), "-o", "jsonl")
        return max(json.loads(lines)["samples_ts"])
    lines = output(tools / "llama-batched-bench", *common, "-c", 4096, "-fa",
                   "on" if flash else "off", "-npp", CONTEXT, "-ntg", DECODED, "-npl", what.size,
                   "--output-format", "jsonl")
    rows = [json.loads(line) for line in lines.splitlines() if line.startswith("{")]
    return rows[-1]["speed_tg"]


def plan(options):
    """All measurements, in turns of the programs."""
    points = [("prefill", size) for size in options.prompts] + [("decode", b) for b in BATCHES]
    return [Measurement(program, bits, threads, part, size, turn)
            for turn in range(options.rounds) for bits in options.bits
            for threads in options.threads for part, size in points
            for program in ("zonda", "llama")]


class Store:
    """What has been measured; on disk after every measurement."""

    def __init__(self, wanted):
        fresh = {"wanted": wanted, "done": [], "zonda": {}, "llama": {}, "limits": {}, "loads": {}}
        found = json.loads(MEASURED.read_text()) if MEASURED.exists() else fresh
        self.data = found if found["wanted"] == wanted else fresh

    def save(self):
        MEASURED.write_text(json.dumps(self.data))

    def add(self, options, what):
        key = f"{what.bits} {what.threads} {what.kind}"
        if what.program == "llama":
            best = self.data["llama"].get(key, 0.0)
            self.data["llama"][key] = max(best, measure_llama(options, what))
        else:
            tokens, used, limit, limits = measure_zonda(options, what)
            best = self.data["zonda"].get(key, [0.0])
            self.data["zonda"][key] = max(best, [tokens, used, limit])
            known = self.data["limits"].setdefault(str(what.threads), {})
            for name, value in limits.items():
                known[name] = max(known.get(name, 0.0), value)
        self.data["done"].append(list(what))
        self.save()
        print(" ".join(map(str, what)), flush=True)


def load_seconds(engine):
    """Wall time of a process that loads the engine and makes one token: the best of three."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        output(ZONDA, "run", engine, "--input_ids", "1,2,3", "--max_output_len", 1, "--json")
        best = min(best, time.perf_counter() - start)
    return best


def table(data):
    lines = ["| bits | threads | what | zonda tok/s | of this machine's limit | llama.cpp tok/s | "
             "ratio | promised |", "|---|---|---|---|---|---|---|---|"]
    for key, (tokens, used, limit) in data["zonda"].items():
        bits, threads, kind = key.split(" ", 2)
        promised = PROMISED.get((bits, kind), "")
        part = 100 * used / data["limits"][threads][limit]
        of_what = "read" if kind.startswith("decode") else "arithmetic"
        peer = data["llama"][key]
        lines.append(f"| {bits} | {threads} | {kind} | {tokens:.1f} | {part:.0f} % {of_what} | "
                     f"{peer:.1f} | {tokens / peer:.2f} | {promised} |")
    return lines


def report(data, machine):
    """The section of one run, newest first in the file."""
    commit = output("git", "-C", ROOT, "rev-parse", "--short", "HEAD").strip()
    date = datetime.date.today().isoformat()
    lines = [f"## {date}, {machine['name']}, {machine['instruction_set']}, commit {commit}", "",
             "`make bench`: SmolLM2-135M-Instruct; both programs on the same weights (BF16, Q8_0, "
             "Q4_0 of llama-quantize), forward passes only, the programs in turns, the best round of "
             "each.", ""]
    for threads, found in data["limits"].items():
        lines.append(f"Limits with {threads} threads: "
                     f"read {found['read_bytes_per_s'] / 1e9:.1f} GB/s, "
                     f"fp32 {found['fp32_flops'] / 1e9:.0f} GFLOP/s, "
                     f"bf16 {found['bf16_flops'] / 1e9:.0f} GFLOP/s, "
                     f"int8 {found['int8_ops'] / 1e9:.0f} GOP/s.")
    lines.append("Process start, load and first token: " + ", ".join(
        f"{bits} {1000 * seconds:.0f} ms" for bits, seconds in data["loads"].items()) + ".")
    return "\n".join([*lines, "", *table(data), "", ""])


def write_results(section):
    file = ROOT / "bench/RESULTS.md"
    top, mark, sections = file.read_text().partition("\n## ")
    file.write_text(top + "\n" + section + mark[1:] + sections)


def parsed_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("peers", type=pathlib.Path)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--bits", nargs="+", choices=FORMATS, default=list(FORMATS))
    parser.add_argument("--rounds", type=int, default=2, help="even: flash attention off and on")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--quick", action="store_true", help="without the prompt of 2048 tokens")
    options = parser.parse_args()
    options.prompts = QUICK_PROMPTS if options.quick else PROMPTS
    return options


def main():
    start = time.monotonic()
    options = parsed_options()
    ENGINES.mkdir(parents=True, exist_ok=True)
    wanted = [list(what) for what in plan(options)]
    store = Store([ZONDA.stat().st_mtime, *wanted])
    for what in map(Measurement._make, wanted):
        if list(what) in store.data["done"]:
            continue
        if time.monotonic() - start > options.seconds:
            print(f"{len(store.data['done'])} of {len(wanted)} measured; the same call goes on")
            return
        if what.bits not in store.data["loads"]:
            store.data["loads"][what.bits] = load_seconds(
                engine_of(what.bits, gguf_of(options, what.bits)))
        store.add(options, what)
    machine = json.loads(output(ZONDA, "doctor", "--json"))["processor"]
    write_results(report(store.data, machine))
    MEASURED.unlink()


if __name__ == "__main__":
    main()
