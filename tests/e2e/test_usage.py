# Wrong usage: exit code 2, a sentence that helps, nothing on standard output.
# SPDX-License-Identifier: Apache-2.0
import pytest

from zonda_cli import TINY

VERBS = ["convert", "build", "run", "tokenize", "inspect", "doctor", "profile"]


def test_no_verb_prints_help_and_fails(zonda):
    result = zonda.run()
    assert result.returncode == 2
    assert all(verb in result.stdout + result.stderr for verb in VERBS)


@pytest.mark.parametrize("args", [["--help"], *[[verb, "--help"] for verb in VERBS]], ids=" ".join)
def test_help_is_a_result(zonda, args):
    assert len(zonda(*args)) > 100


def test_version_is_printed(zonda):
    assert "0.1.0" in zonda("--version")


@pytest.mark.parametrize("verb, flag, nearest", [
    ("convert", "--modeldir", "model_dir"), ("convert", "--qforma", "qformat"),
    ("build", "--checkpont_dir", "checkpoint_dir"), ("build", "--max_bach_size", "max_batch_size"),
    ("run", "--max_output_lens", "max_output_len"), ("run", "--temprature", "temperature"),
    ("tokenize", "--txt", "text"), ("profile", "--jsn", "json"),
])
def test_an_unknown_flag_names_the_nearest(zonda, verb, flag, nearest):
    error = zonda.fails(verb, flag, "1", code=2)
    assert flag.lstrip("-") in error
    assert nearest in error or nearest.replace("_", "-") in error


def test_an_unknown_verb_names_the_nearest(zonda):
    assert "convert" in zonda.fails("convrt", code=2)


@pytest.mark.parametrize("args", [
    ["convert"], ["convert", "--model_dir"], ["build"], ["run"], ["tokenize"], ["inspect"],
    ["convert", "--model_dir", "a", "--output_dir", "b", "--qformat", "int3_wo"],
    ["convert", "--model_dir", "a", "--output_dir", "b", "--group_size", "48"],
    ["convert", "--model_dir", "a", "--output_dir", "b", "--dtype", "int32"],
    ["build", "--checkpoint_dir", "a", "--output_dir", "b", "--max_batch_size", "many"],
    ["build", "--checkpoint_dir", "a", "--output_dir", "b", "--max_batch_size", "-1"],
    ["run", str(TINY / "gqa_tied")],
    ["run", str(TINY / "gqa_tied"), "--input_ids", "1,x"],
    ["run", str(TINY / "gqa_tied"), "--input_ids", "1", "--temperature", "-1"],
    ["run", str(TINY / "gqa_tied"), "--input_ids", "1", "--threads", "0"],
    ["run", str(TINY / "gqa_tied"), "--input_ids", "1", "--num_beams", "4"],
], ids=lambda args: " ".join(args[-2:]))
def test_wrong_usage_is_exit_2(zonda, args):
    result = zonda.run(*args)
    assert result.returncode == 2, result.stderr
    assert result.stderr.strip() and not result.stdout.strip()


@pytest.mark.parametrize("verb", ["run", "inspect", "tokenize", "profile"])
def test_a_model_that_does_not_exist_is_exit_1(zonda, verb):
    args = {"run": ["--input_ids", "1"], "tokenize": ["--text", "x"]}.get(verb, [])
    assert "no/such/model" in zonda.fails(verb, "no/such/model", *args)
