# Tiny models against transformers: logits of the prompt and greedy tokens.
# SPDX-License-Identifier: Apache-2.0
import json
import shutil

import numpy as np
import pytest

from zonda_cli import TINY, golden, ids

NAMES = sorted(path.name for path in TINY.iterdir())


def spelled(folder, tmp_path, older):
    """The folder, or a copy of it with config.json in the spelling of transformers 4."""
    if not older:
        return folder
    copy = tmp_path / folder.name
    shutil.copytree(folder, copy)
    shutil.move(copy / "older.json", copy / "config.json")
    return copy


def prompt_logits(zonda, model, prompt, tmp_path, dtype, *args):
    file = tmp_path / "logits.npy"
    answer = zonda.one(model, "--input_ids", ids(prompt), "--output_logits_npy", file,
                       "--dtype", dtype, "--temperature", 0, *args)
    return np.load(file), answer


def test_all_golden_folders_are_here():
    assert len(NAMES) >= 10


@pytest.mark.parametrize("older", [False, True], ids=["rope_parameters", "rope_scaling"])
@pytest.mark.parametrize("name", NAMES)
def test_float32_logits_and_tokens_equal_transformers(zonda, tmp_path, name, older):
    want = golden(name)
    model = spelled(TINY / name, tmp_path, older)
    logits, answer = prompt_logits(zonda, model, want["prompt_ids"], tmp_path, "float32",
                                   "--max_output_len", 32)
    reference = np.load(TINY / name / "logits.npy")
    assert logits.dtype == np.float32 and logits.shape == reference.shape
    assert np.abs(logits - reference).max() <= 1e-4
    assert answer["prompt_ids"] == want["prompt_ids"]
    assert answer["ids"] == want["ids"]
    assert answer["finish_reason"] == want["finish_reason"]


@pytest.mark.parametrize("name", NAMES)
def test_bfloat16_logits_stay_within_the_error_of_transformers(zonda, tmp_path, name):
    want = golden(name)
    logits, _ = prompt_logits(zonda, TINY / name, want["prompt_ids"], tmp_path, "bfloat16",
                              "--max_output_len", 1)
    reference = np.load(TINY / name / "logits.npy")
    assert np.abs(logits - reference).max() <= want["bf16_max_abs_delta"]
    assert np.sqrt(np.square(logits - reference).mean()) <= want["bf16_rms_delta"]


def test_float16_logits_stay_within_a_quarter_of_the_error_of_bfloat16(zonda, tmp_path):
    want = golden("half")
    logits, _ = prompt_logits(zonda, TINY / "half", want["prompt_ids"], tmp_path, "float16",
                              "--max_output_len", 1)
    reference = np.load(TINY / "half" / "logits.npy")
    assert np.abs(logits - reference).max() <= want["bf16_max_abs_delta"] / 4


def test_stop_ids_are_the_union_of_config_and_generation_config(zonda, tmp_path):
    want = golden("eos_list_sharded")
    assert want["finish_reason"] == "stop"
    model = tmp_path / "model"
    shutil.copytree(TINY / "eos_list_sharded", model)
    for file, stop in (("config.json", 2), ("generation_config.json", [3])):
        config = json.loads((model / file).read_text())
        (model / file).write_text(json.dumps({**config, "eos_token_id": stop}))
    answer = zonda.one(model, "--input_ids", ids(want["prompt_ids"]), "--dtype", "float32",
                       "--temperature", 0, "--max_output_len", 32)
    assert answer["ids"] == want["ids"] and answer["finish_reason"] == "stop"


@pytest.mark.parametrize("qformat, bound", [("int8_wo", 0.1), ("int4_wo", 1.5)])
def test_quantised_logits_stay_near_float32(zonda, tmp_path, qformat, bound):
    want = golden("mha_untied")
    checkpoint = tmp_path / "checkpoint"
    zonda("convert", "--model_dir", TINY / "mha_untied", "--output_dir", checkpoint, "--qformat",
          qformat, "--group_size", 32)
    logits, _ = prompt_logits(zonda, checkpoint, want["prompt_ids"], tmp_path, "auto",
                              "--max_output_len", 1)
    reference = np.load(TINY / "mha_untied" / "logits.npy")
    assert np.sqrt(((logits - reference) ** 2).mean()) <= bound * reference.std()
