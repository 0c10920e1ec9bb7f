# fp8 weights on the CPU, through every door: the same as their values in bfloat16.
# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
import pytest

import fp8_files
from zonda_cli import TINY, golden, ids

MODEL = "gqa_tied"


def answer_of(zonda, model, tmp_path, *args):
    """Prompt logits and greedy tokens."""
    file = tmp_path / "logits.npy"
    answer = zonda.one(model, "--input_ids", ids(golden(MODEL)["prompt_ids"]), "--output_logits_npy", file,
                       "--temperature", 0, "--max_output_len", 24, *args)
    return np.load(file), answer["ids"]


def same(a, b):
    return np.array_equal(a[0], b[0]) and a[1] == b[1]


def written_out(zonda, checkpoint, tmp_path):
    """The answer of the checkpoint's values in bfloat16."""
    folder = fp8_files.write_out(checkpoint, tmp_path / "bf16-checkpoint")
    zonda("build", "--checkpoint_dir", folder, "--output_dir", tmp_path / "bf16-engine")
    return answer_of(zonda, tmp_path / "bf16-engine", tmp_path)


@pytest.mark.parametrize("qformat, algorithm", [("fp8", "FP8"), ("fp8_pc_pt", "FP8_PER_CHANNEL_PER_TOKEN")])
def test_every_door_gives_what_bfloat16_gives(zonda, tmp_path, qformat, algorithm):
    weights = ["--dtype", "bfloat16", "--qformat", qformat]
    checkpoint = tmp_path / "checkpoint"
    report = json.loads(zonda("convert", "--model_dir", TINY / MODEL, "--output_dir", checkpoint, "--json", *weights))
    assert report["quant_algo"] == algorithm
    want = written_out(zonda, checkpoint, tmp_path)
    zonda("build", "--checkpoint_dir", checkpoint, "--output_dir", tmp_path / "a")
    zonda("build", "--model_dir", TINY / MODEL, "--output_dir", tmp_path / "b", *weights)
    assert same(answer_of(zonda, tmp_path / "a", tmp_path), want)
    assert same(answer_of(zonda, tmp_path / "b", tmp_path), want)
    assert same(answer_of(zonda, TINY / MODEL, tmp_path, *weights), want)


@pytest.mark.parametrize("per_channel", [True, False], ids=["channel", "tensor"])
def test_a_folder_in_fp8_runs_as_it_is(zonda, tmp_path, per_channel):
    folder = fp8_files.write_fp8_folder(TINY / MODEL, tmp_path / "folder", per_channel)
    checkpoint = tmp_path / "checkpoint"
    zonda("convert", "--model_dir", folder, "--output_dir", checkpoint)
    codes = fp8_files.read(checkpoint / "rank0.safetensors")["transformer.layers.0.mlp.proj.weight"]
    assert codes == fp8_files.read(folder / "model.safetensors")["model.layers.0.mlp.down_proj.weight"]
    assert same(answer_of(zonda, folder, tmp_path), written_out(zonda, checkpoint, tmp_path))


def test_a_folder_without_scales_is_refused_by_name(zonda, tmp_path):
    folder = fp8_files.write_fp8_folder(TINY / MODEL, tmp_path / "folder")
    tensors = fp8_files.read(folder / "model.safetensors")
    del tensors["model.layers.0.mlp.up_proj.weight_scale"]
    fp8_files.write(folder / "model.safetensors", tensors)
    said = zonda.fails("convert", "--model_dir", folder, "--output_dir", tmp_path / "out")
    assert "model.layers.0.mlp.up_proj.weight is F8_E4M3 but there is no" in said
    assert not (tmp_path / "out").exists()
