# zonda build: the engine folder, trtllm-build's flags, passes, the plan and the timing cache.
# SPDX-License-Identifier: Apache-2.0
import json

import pytest

from zonda_cli import TINY, golden, ids

TINY_MODEL = TINY / "gqa_tied"


@pytest.fixture(scope="module")
def checkpoint(zonda, tmp_path_factory):
    out = tmp_path_factory.mktemp("build") / "checkpoint"
    zonda("convert", "--model_dir", TINY_MODEL, "--output_dir", out, "--dtype", "float32")
    return out


def build_config(engine):
    return json.loads((engine / "config.json").read_text())["build_config"]


def test_an_engine_has_its_files(zonda, checkpoint, tmp_path):
    out = tmp_path / "engine"
    zonda("build", "--checkpoint_dir", checkpoint, "--output_dir", out)
    config = json.loads((out / "config.json").read_text())
    assert config["version"] and config["pretrained_config"]["architecture"] == "LlamaForCausalLM"
    assert (out / "rank0.engine").stat().st_size > 4096
    plan = (out / "plan.txt").read_text()
    for word in ("tactic", "bytes", "floor"):
        assert word in plan.lower()


def test_trtllm_build_takes_its_flags(zonda, checkpoint, tmp_path):
    name = tmp_path / "trtllm-build"
    name.symlink_to(zonda.binary)
    out = tmp_path / "engine"
    zonda("--checkpoint_dir", checkpoint, "--output_dir", out, "--max_batch_size", 8,
          "--max_input_len", 48, "--max_seq_len", 96, "--max_num_tokens", 64, "--max_beam_width", 1,
          "--tokens_per_block", 32, "--paged_kv_cache", "enable", "--workers", 1,
          "--gpt_attention_plugin", "float32", "--gemm_plugin", "auto", "--context_fmha", "enable",
          "--remove_input_padding", "enable", "--log_level", "info", name=name)
    config = build_config(out)
    assert config["max_batch_size"] == 8 and config["max_seq_len"] == 96
    assert config["max_num_tokens"] == 64 and config["max_input_len"] == 48


def test_dashes_and_underscores_are_the_same(zonda, checkpoint, tmp_path):
    zonda("build", "--checkpoint-dir", checkpoint, "--output-dir", tmp_path / "engine",
          "--max-batch-size", 3)
    assert build_config(tmp_path / "engine")["max_batch_size"] == 3


def test_max_output_len_adds_to_max_input_len(zonda, checkpoint, tmp_path):
    zonda("build", "--checkpoint_dir", checkpoint, "--output_dir", tmp_path / "engine",
          "--max_input_len", 40, "--max_output_len", 24)
    assert build_config(tmp_path / "engine")["max_seq_len"] == 64


def test_the_oldest_build_goes_from_model_to_engine(zonda, tmp_path):
    out = tmp_path / "engine"
    zonda("build", "--model_dir", TINY_MODEL, "--output_dir", out, "--dtype", "float32",
          "--model_version", "v2_7b", "--parallel_build", "--use_inflight_batching",
          "--enable_context_fmha", "--use_gemm_plugin", "float32",
          "--use_gpt_attention_plugin", "float32")
    want = golden("gqa_tied")
    answer = zonda.one(out, "--input_ids", ids(want["prompt_ids"]), "--max_output_len", 32,
                       "--temperature", 0)
    assert answer["ids"] == want["ids"]


def test_a_flag_without_meaning_here_says_so_in_one_line(zonda, checkpoint, tmp_path):
    result = zonda.run("build", "--checkpoint_dir", checkpoint, "--output_dir", tmp_path / "engine",
                       "--gemm_plugin", "float16")
    assert result.returncode == 0
    assert sum("gemm_plugin" in line for line in result.stderr.splitlines()) == 1


def test_the_passes_are_listed(zonda):
    text = zonda("build", "--list_passes")
    assert "merge_gated_linears" in text and "fuse_residual" in text


def test_a_pass_can_be_printed_and_switched_off(zonda, checkpoint, tmp_path):
    name = "merge_gated_linears"
    result = zonda.run("build", "--checkpoint_dir", checkpoint, "--output_dir", tmp_path / "a",
                       "--print_after", name)
    assert result.returncode == 0 and "linear" in (result.stdout + result.stderr).lower()
    result = zonda.run("build", "--checkpoint_dir", checkpoint, "--output_dir", tmp_path / "b",
                       "--disable_pass", name)
    assert result.returncode == 0, result.stderr
    want = golden("gqa_tied")
    answer = zonda.one(tmp_path / "b", "--input_ids", ids(want["prompt_ids"]), "--max_output_len",
                       32, "--temperature", 0)
    assert answer["ids"] == want["ids"]


def test_an_unknown_pass_is_refused_with_the_list(zonda, checkpoint, tmp_path):
    error = zonda.fails("build", "--checkpoint_dir", checkpoint, "--output_dir",
                        tmp_path / "engine", "--print_after", "no_such_pass", code=2)
    assert "no_such_pass" in error
    assert not (tmp_path / "engine").exists()


def test_a_second_build_uses_the_timing_cache(zonda, checkpoint, tmp_path):
    args = ("build", "--checkpoint_dir", checkpoint, "--output_timing_cache", tmp_path / "cache")
    zonda(*args, "--output_dir", tmp_path / "a")
    assert (tmp_path / "cache").exists()
    zonda(*args, "--input_timing_cache", tmp_path / "cache", "--output_dir", tmp_path / "b")
    a, b = ((tmp_path / out / "plan.txt").read_text() for out in "ab")
    assert a.splitlines()[0] == b.splitlines()[0]


def test_a_limit_of_the_engine_is_kept_at_run(zonda, checkpoint, tmp_path):
    zonda("build", "--checkpoint_dir", checkpoint, "--output_dir", tmp_path / "engine",
          "--max_input_len", 16, "--max_seq_len", 24)
    error = zonda.fails("run", tmp_path / "engine", "--input_ids", ids(range(3, 30)))
    assert "27" in error and "16" in error
