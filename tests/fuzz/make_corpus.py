# Writes the seed corpora tests/fuzz/corpus/*: small good files and the hand-made bad ones.
# SPDX-License-Identifier: Apache-2.0
#
# usage: .venv/bin/python tests/fuzz/make_corpus.py [ENGINE_FILE]    (a tiny engine, for its plan)
import hashlib
import json
import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
for folder in ("e2e", "golden"):
    sys.path.insert(0, str(ROOT / "tests" / folder))

import bad_files  # noqa: E402
import smollm2_to_hf  # noqa: E402

CORPUS = ROOT / "tests" / "fuzz" / "corpus"
LARGEST = 8192  # bytes of a seed


def write(target, cases):
    """One file a case, named by its content."""
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, raw in cases:
        if len(raw) <= LARGEST:
            (folder / f"{name}-{hashlib.sha256(raw).hexdigest()[:6]}").write_bytes(raw)
    sizes = [file.stat().st_size for file in folder.iterdir()]
    print(f"{target}: {len(sizes)} seeds, {sum(sizes)} bytes")


def safetensors():
    """Two tensors, the first of a name that the cases can spoil."""
    arrays = {"a.weight": np.arange(8, dtype=np.float32).reshape(2, 4),
              "b.weight": np.ones(4, np.float32)}
    path = CORPUS / "seed"
    smollm2_to_hf.write_safetensors(path, {k: list(v.shape) for k, v in arrays.items()},
                                    arrays.items())
    raw = path.read_bytes()
    path.unlink()
    yield "good", raw
    for name, bad, _ in bad_files.safetensors_layout_cases(raw):
        yield name, bad


def tiny_configuration():
    return json.loads((ROOT / "tests/golden/tiny/gqa_tied/older.json").read_text())


def gguf():
    ones = np.ones((2, 8), np.float32)
    good = bad_files.tiny_gguf(tiny_configuration(), {"token_embd": ones, "blk.0.attn_q": ones},
                               {"output_norm": ones[0]})
    yield "good", good.bytes()
    for name, bad, _ in bad_files.gguf_cases(good):
        yield name, bad


def config():
    for folder in sorted((ROOT / "tests/golden/tiny").iterdir()):
        for file in ("config.json", "older.json"):
            yield f"{folder.name}-{file[:-5]}", (folder / file).read_bytes()
    for name, bad, _ in bad_files.config_cases(tiny_configuration()):
        yield name, bad


def tokenizer():
    """A byte-level BPE of a few tokens, and spoiled copies."""
    alphabet = [chr(c) for c in range(33, 127)] + ["\u0120", "\u010a"]
    tokens = ["<|end|>", *alphabet, "he", "ll", "hell", "hello", "\u0120t", "\u0120the"]
    merges = ["h e", "l l", "he ll", "hell o", "\u0120 t", "\u0120t he"]
    good = smollm2_to_hf.tokenizer_json(tokens, [3] + [1] * (len(tokens) - 1), merges)
    yield "good", json.dumps(good).encode()
    yield "merges_as_text", json.dumps({**good, "model": {**good["model"],
                                                          "merges": merges}}).encode()

    def edited(name, change):
        bad = json.loads(json.dumps(good))
        change(bad)
        return name, json.dumps(bad).encode()

    yield edited("no_model", lambda v: v.pop("model"))
    yield edited("model_unknown", lambda v: v["model"].update(type="Markov"))
    yield edited("vocab_a_list", lambda v: v["model"].update(vocab=[1, 2]))
    yield edited("id_negative", lambda v: v["model"]["vocab"].update(hello=-1))
    yield edited("id_huge", lambda v: v["model"]["vocab"].update(hello=1 << 40))
    yield edited("id_twice", lambda v: v["model"]["vocab"].update(hello=3))
    yield edited("merge_unknown", lambda v: v["model"]["merges"].append(["q", "q"]))
    yield edited("merge_of_three", lambda v: v["model"]["merges"].append(["a", "b", "c"]))
    yield edited("merge_a_number", lambda v: v["model"]["merges"].append(7))
    yield edited("added_empty", lambda v: v["added_tokens"].append({"id": 3, "content": ""}))
    yield edited("added_outside", lambda v: v["added_tokens"].append({"id": 1 << 33,
                                                                      "content": "x"}))
    yield edited("pattern_broken", lambda v: v["pre_tokenizer"]["pretokenizers"].append(
        {"type": "Split", "pattern": {"Regex": "(((("}, "behavior": "Isolated", "invert": False}))
    yield edited("pattern_slow", lambda v: v["pre_tokenizer"]["pretokenizers"].append(
        {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}))
    yield edited("nested", lambda v: v.update(pre_tokenizer={
        "type": "Sequence", "pretokenizers": [v["pre_tokenizer"]] * 3}))
    yield edited("normalizer", lambda v: v.update(normalizer={"type": "NFC"}))
    yield edited("normalizer_replace", lambda v: v.update(normalizer={
        "type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}))
    yield "cut", json.dumps(good).encode()[:-40]


def engine(path):
    raw = pathlib.Path(path).read_bytes()
    header = dict(zip(bad_files.FIELDS, bad_files.HEADER.unpack(raw[:bad_files.HEADER.size])))
    plan = raw[header["plan_offset"]:header["plan_offset"] + header["plan_bytes"]]
    yield "plan", plan
    for name, bad, _ in bad_files.engine_cases(raw):
        if name.startswith(("plan_without_kv", "plan_calls", "plan_not", "plan_a_", "plan_empty",
                            "matrix_", "vector_", "slot_", "logits_")):
            yield name, bad[header["plan_offset"]:]
    yield "page", raw[:4096]


if __name__ == "__main__":
    CORPUS.mkdir(exist_ok=True)
    write("safetensors", safetensors())
    write("gguf", gguf())
    write("config", config())
    write("tokenizer", tokenizer())
    if len(sys.argv) > 1:
        write("engine_file", engine(sys.argv[1]))
