# zonda tokenize, inspect, doctor and profile.
# SPDX-License-Identifier: Apache-2.0
import json

import pytest

from zonda_cli import TINY


def test_tokenize_prints_ids(zonda, smollm2):
    out = json.loads(zonda("tokenize", smollm2, "--text", "Hello world", "--json"))
    assert out["ids"] == [19556, 905]


def test_tokenize_without_a_tokenizer_is_an_error_that_says_so(zonda):
    assert "tokenizer" in zonda.fails("tokenize", TINY / "gqa_tied", "--text", "x", "--json")


@pytest.mark.parametrize("source", ["folder", "gguf", "checkpoint", "engine"])
def test_inspect_takes_any_source(zonda, smollm2, tiny_engine, tmp_path, source):
    if source == "checkpoint":
        zonda("convert", "--model_dir", TINY / "gqa_tied", "--output_dir", tmp_path / "checkpoint")
    model = {"folder": TINY / "eos_list_sharded", "gguf": smollm2, "engine": tiny_engine,
             "checkpoint": tmp_path / "checkpoint"}[source]
    text = zonda("inspect", model)
    assert "LlamaForCausalLM" in text and "stop" in text.lower()
    out = json.loads(zonda("inspect", model, "--json"))
    assert isinstance(out, dict) and out


def test_inspect_shows_the_union_of_stop_ids(zonda):
    assert '2' in zonda("inspect", TINY / "eos_list_sharded")
    text = json.dumps(json.loads(zonda("inspect", TINY / "eos_list_sharded", "--json")))
    assert "[2, 3]" in text


def test_doctor_measures_the_machine(zonda):
    text = zonda("doctor")
    assert "GB/s" in text
    out = json.loads(zonda("doctor", "--json"))
    assert "avx2" in json.dumps(out).lower() or "neon" in json.dumps(out).lower()


def test_profile_lists_kernels_of_prefill_and_decode(zonda, tiny_engine):
    table = zonda("profile", tiny_engine)
    assert "prefill" in table.lower() and "decode" in table.lower()
    out = json.loads(zonda("profile", tiny_engine, "--json"))
    assert {"prefill", "decode"} <= set(out)
    for step in (out["prefill"], out["decode"]):
        assert sum(kernel["time_us"] for kernel in step["kernels"]) == pytest.approx(step["time_us"])
        # What lies outside of calls is a part of the step, however busy the machine.
        assert abs(step["outside_us"]) < 0.9 * step["median_step_ms"] * 1e3
