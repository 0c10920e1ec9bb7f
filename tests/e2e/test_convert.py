# zonda convert: the checkpoint folder, quantisation, and what a failed convert leaves behind.
# SPDX-License-Identifier: Apache-2.0
import json
import re
import shutil

import numpy as np
import pytest

from tiny_gguf import TinyModel, write_gguf
from zonda_cli import TINY, golden, ids


def header(file):
    """The JSON header of a safetensors file."""
    raw = file.read_bytes()
    return json.loads(raw[8:8 + int.from_bytes(raw[:8], "little")])


def tensors_of(checkpoint):
    """{name: entry} of all safetensors files of a folder."""
    found = {}
    for file in checkpoint.glob("*.safetensors"):
        found.update(header(file))
    found.pop("__metadata__", None)
    return found


def test_a_checkpoint_has_unified_names(zonda, tmp_path):
    out = tmp_path / "checkpoint"
    zonda("convert", "--model_dir", TINY / "rope_llama3", "--output_dir", out)
    config = json.loads((out / "config.json").read_text())
    assert config["architecture"] == "LlamaForCausalLM"
    assert config["num_hidden_layers"] == 2 and config["num_key_value_heads"] == 2
    assert config["head_size"] == 16 and config["norm_epsilon"] == pytest.approx(1e-5)
    assert config["rotary_base"] == 500.0 and config["rotary_scaling"]["factor"] == 8.0
    assert config["dtype"] == "bfloat16" and config["vocab_size"] == 96
    names = tensors_of(out)
    assert "transformer.vocab_embedding.weight" in names
    assert "transformer.layers.1.mlp.fc.weight" in names
    assert not any(name.startswith("model.") for name in names)


def test_older_and_newer_configurations_give_one_checkpoint(zonda, tmp_path):
    folder = tmp_path / "older"
    shutil.copytree(TINY / "rope_yarn", folder)
    shutil.move(folder / "older.json", folder / "config.json")
    configs = []
    for model, out in ((TINY / "rope_yarn", "a"), (folder, "b")):
        zonda("convert", "--model_dir", model, "--output_dir", tmp_path / out)
        configs.append(json.loads((tmp_path / out / "config.json").read_text()))
    assert configs[0]["rotary_scaling"] == configs[1]["rotary_scaling"]
    assert configs[0]["rotary_base"] == configs[1]["rotary_base"]
    assert configs[0]["dtype"] == configs[1]["dtype"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_dtype_is_the_dtype_of_the_matrices(zonda, tmp_path, dtype):
    out = tmp_path / "checkpoint"
    zonda("convert", "--model_dir", TINY / "gqa_tied", "--output_dir", out, "--dtype", dtype)
    entry = tensors_of(out)["transformer.vocab_embedding.weight"]
    assert entry["dtype"] == {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}[dtype]


@pytest.mark.parametrize("group", [32, 64, 128, None], ids=str)
@pytest.mark.parametrize("qformat", ["int8_wo", "int4_wo"])
def test_weight_only_quantisation_makes_it_smaller(zonda, tmp_path, qformat, group):
    extra = [] if group is None else ["--group_size", group]
    plain, out = tmp_path / "plain", tmp_path / "quantised"
    zonda("convert", "--model_dir", TINY / "gqa_tied", "--output_dir", plain, "--dtype", "float32")
    zonda("convert", "--model_dir", TINY / "gqa_tied", "--output_dir", out, "--qformat", qformat,
          *extra)
    size = [sum(f.stat().st_size for f in folder.glob("*.safetensors")) for folder in (plain, out)]
    assert size[1] < 0.75 * size[0]


def test_the_older_spelling_of_quantisation_is_the_same(zonda, tmp_path):
    for out, args in (("new", ["--qformat", "int4_wo"]),
                      ("old", ["--use_weight_only", "--weight_only_precision", "int4"])):
        zonda("convert", "--model_dir", TINY / "mha_untied", "--output_dir", tmp_path / out, *args)
    new, old = ({f.name: f.read_bytes() for f in (tmp_path / out).iterdir()}
                for out in ("new", "old"))
    assert new == old


def test_convert_checkpoint_is_the_same_program(zonda, tmp_path):
    name = tmp_path / "convert_checkpoint"
    name.symlink_to(zonda.binary)
    zonda("--model_dir", TINY / "gqa_tied", "--output_dir", tmp_path / "out", name=name)
    assert (tmp_path / "out" / "config.json").exists()


def test_a_failed_convert_leaves_nothing(zonda, tmp_path):
    model, out = tmp_path / "model", tmp_path / "out"
    shutil.copytree(TINY / "gqa_tied", model)
    file = model / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    zonda.fails("convert", "--model_dir", model, "--output_dir", out)
    assert not out.exists() and sorted(p.name for p in tmp_path.iterdir()) == ["model"]


def test_non_finite_weights_are_refused_by_name(zonda, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(TINY / "gqa_tied", model)
    file = model / "model.safetensors"
    raw = bytearray(file.read_bytes())
    start = 8 + int.from_bytes(raw[:8], "little")
    name = "model.layers.1.mlp.up_proj.weight"
    begin, _ = header(file)[name]["data_offsets"]
    raw[start + begin + 40:start + begin + 44] = np.float32(np.nan).tobytes()
    file.write_bytes(raw)
    assert name in zonda.fails("convert", "--model_dir", model, "--output_dir", tmp_path / "out")


def test_progress_is_plain_lines_without_a_terminal(zonda, tmp_path):
    result = zonda.run("convert", "--model_dir", TINY / "gqa_tied", "--output_dir",
                       tmp_path / "out")
    assert result.returncode == 0 and "\r" not in result.stderr and "\x1b" not in result.stderr


# What each GGUF block format becomes under --dtype auto: kept bit-exactly, or bfloat16.
FORMATS = {"F32": 32, "F16": 32, "BF16": 32, "Q8_0": 32, "Q4_0": 32, "Q4_1": 32, "Q5_0": 32,
           "Q5_1": 32, "Q4_K": 256, "Q5_K": 256, "Q6_K": 256}


@pytest.mark.parametrize("kind, width", FORMATS.items())
def test_gguf_equals_its_dequantised_folder(zonda, tmp_path, kind, width):
    model = TinyModel(kind, width)
    write_gguf(tmp_path / "model.gguf", model)
    model.write_folder(tmp_path / "folder")
    prompt, found = list(range(3, 35)), []
    for source in ("model.gguf", "folder"):
        file = tmp_path / "logits.npy"
        zonda.one(tmp_path / source, "--input_ids", ids(prompt), "--output_logits_npy", file,
                  "--max_output_len", 1, "--dtype", "float32")
        found.append(np.load(file))
    assert np.abs(found[0] - found[1]).max() <= 1e-4 * max(1.0, np.abs(found[1]).max())


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q6_K", "F16"])
def test_gguf_formats_under_auto(zonda, tmp_path, kind):
    write_gguf(tmp_path / "model.gguf", TinyModel(kind, FORMATS[kind]))
    zonda("convert", "--model_dir", tmp_path / "model.gguf", "--output_dir", tmp_path / "out")
    stored = tensors_of(tmp_path / "out")["transformer.layers.0.mlp.proj.weight"]["dtype"]
    integer = kind in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")
    assert re.fullmatch("[UI]8" if integer else "B?F16", stored)


def test_a_gguf_of_a_golden_model_gives_its_tokens(zonda, tmp_path):
    """The same weights by the other door, rows of q and k interleaved as GGUF has them."""
    write_gguf(tmp_path / "model.gguf", TinyModel.from_folder(TINY / "gqa_tied"))
    want = golden("gqa_tied")
    answer = zonda.one(tmp_path / "model.gguf", "--input_ids", ids(want["prompt_ids"]),
                       "--max_output_len", 32, "--temperature", 0, "--dtype", "float32")
    assert answer["ids"] == want["ids"]
