# A request's tokens and logits depend on nothing but the request.
# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
import pytest

from zonda_cli import ROOT, ids, write_requests

GOLDENS = json.loads((ROOT / "tests/golden/smollm2.json").read_text())
OUTPUT = 16


def request(row, **options):
    return {"input_ids": row["prompt_ids"], "max_output_len": OUTPUT, "temperature": 0,
            "ignore_eos": True, "logprobs": 1, **options}


def answers(zonda, model, tmp_path, requests, *args):
    file = write_requests(tmp_path / "requests.jsonl", requests)
    out = zonda.generate(model, "--input_file", file, *args)
    assert len(out) == len(requests)
    return [(answer["ids"], answer["logprobs"]) for answer in out]


@pytest.fixture(scope="module")
def alone(zonda, smollm2_engine, tmp_path_factory):
    """Each golden prompt in a call of its own."""
    folder = tmp_path_factory.mktemp("alone")
    return [answers(zonda, smollm2_engine, folder, [request(row)])[0] for row in GOLDENS]


@pytest.mark.parametrize("size", [2, 3, 8, 17, 32])
def test_alone_equals_in_a_batch(zonda, smollm2_engine, tmp_path, alone, size):
    rows = [i % len(GOLDENS) for i in range(size)]
    got = answers(zonda, smollm2_engine, tmp_path, [request(GOLDENS[i]) for i in rows])
    assert got == [alone[i] for i in rows]


@pytest.mark.parametrize("chunk", [16, 37, 64, 256])
def test_any_prefill_chunk_gives_the_same(zonda, smollm2_engine, tmp_path, alone, chunk):
    got = answers(zonda, smollm2_engine, tmp_path, [request(row) for row in GOLDENS],
                  "--max_num_tokens", chunk)
    assert got == alone


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_thread_count_gives_the_same(zonda, smollm2_engine, tmp_path, alone, threads):
    got = answers(zonda, smollm2_engine, tmp_path, [request(row) for row in GOLDENS],
                  "--threads", threads)
    assert got == alone


def test_a_tight_cache_gives_the_same(zonda, smollm2_engine, tmp_path, alone):
    # 32 tokens x 30 layers x 2 x 3 heads x 64 x 4 bytes is 1.5 MB a block at most: some hundred
    # tokens for eight requests, so they wait for one another and are preempted under max_utilization.
    for policy in ("guaranteed_no_evict", "max_utilization"):
        got = answers(zonda, smollm2_engine, tmp_path, [request(row) for row in GOLDENS],
                      "--kv_cache_bytes", 40_000_000, "--scheduler_policy", policy)
        assert got == alone


def test_a_seed_gives_the_same_sample_alone_and_in_a_batch(zonda, smollm2_engine, tmp_path):
    requests = [request(row, temperature=0.9, top_p=0.9, seed=7 + i)
                for i, row in enumerate(GOLDENS)]
    batch = answers(zonda, smollm2_engine, tmp_path, requests)
    single = [answers(zonda, smollm2_engine, tmp_path, [one])[0] for one in requests]
    assert batch == single
    assert batch != answers(zonda, smollm2_engine, tmp_path, [{**r, "seed": 99} for r in requests])


@pytest.mark.parametrize("args", [("--max_num_tokens", 16), ("--threads", 1)])
def test_logits_are_bit_equal(zonda, smollm2_engine, tmp_path, args):
    prompt = ids(GOLDENS[7]["prompt_ids"])
    files = [tmp_path / "plain.npy", tmp_path / "other.npy"]
    for file, extra in zip(files, [(), args]):
        zonda.one(smollm2_engine, "--input_ids", prompt, "--output_logits_npy", file,
                  "--max_output_len", 1, *extra)
    plain, other = map(np.load, files)
    assert plain.shape == (len(GOLDENS[7]["prompt_ids"]), 49152)
    assert np.array_equal(plain, other)
