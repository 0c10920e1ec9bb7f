# Every hand-made bad file is refused with its reason: exit 1, never a crash, nothing left behind.
# SPDX-License-Identifier: Apache-2.0
import json
import re
import shutil

import pytest

import bad_files
from tiny_gguf import TinyModel
from zonda_cli import TINY

MODEL = TINY / "gqa_tied"
GOOD = (MODEL / "model.safetensors").read_bytes()
SAFETENSORS = [*bad_files.safetensors_layout_cases(GOOD), *bad_files.safetensors_model_cases(GOOD)]
CONFIGS = list(bad_files.config_cases(json.loads((MODEL / "older.json").read_text())))


def good_gguf():
    model = TinyModel.from_folder(MODEL)
    return bad_files.tiny_gguf(model.config, model.matrices, model.vectors)


GGUFS = list(bad_files.gguf_cases(good_gguf()))


def named(cases):
    return pytest.mark.parametrize("raw, pattern", [case[1:] for case in cases],
                                   ids=[case[0] for case in cases])


def refuses(zonda, pattern, *args):
    error = zonda.fails(*args, timeout=60)
    assert re.search(pattern, error, re.IGNORECASE), f"{pattern!r} does not match: {error}"


def converts_not(zonda, pattern, source, tmp_path):
    refuses(zonda, pattern, "convert", "--model_dir", source, "--output_dir", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_there_are_enough_cases():
    assert len(SAFETENSORS) + len(GGUFS) + len(CONFIGS) >= 60


def test_the_unspoiled_files_convert(zonda, tmp_path):
    (tmp_path / "model.gguf").write_bytes(good_gguf().bytes())
    zonda("convert", "--model_dir", tmp_path / "model.gguf", "--output_dir", tmp_path / "a")
    zonda("convert", "--model_dir", MODEL, "--output_dir", tmp_path / "b")


@named(SAFETENSORS)
def test_bad_safetensors(zonda, tmp_path, raw, pattern):
    model = tmp_path / "model"
    shutil.copytree(MODEL, model)
    (model / "model.safetensors").write_bytes(raw)
    converts_not(zonda, pattern, model, tmp_path)


@named(GGUFS)
def test_bad_gguf(zonda, tmp_path, raw, pattern):
    (tmp_path / "model.gguf").write_bytes(raw)
    converts_not(zonda, pattern, tmp_path / "model.gguf", tmp_path)


@named(CONFIGS)
def test_bad_config(zonda, tmp_path, raw, pattern):
    model = tmp_path / "model"
    shutil.copytree(MODEL, model)
    (model / "config.json").write_bytes(raw)
    converts_not(zonda, pattern, model, tmp_path)


@pytest.mark.parametrize("change, pattern", [
    (lambda index: index["weight_map"].pop("model.norm.weight"), r"model\.norm\.weight"),
    (lambda index: index["weight_map"].update({"no.such": "model-00001-of-00004.safetensors"}),
     r"no\.such"),
    (lambda index: index["weight_map"].update({"model.norm.weight": "missing.safetensors"}),
     r"missing\.safetensors"),
    (lambda index: index["weight_map"].update({"model.norm.weight": "../model.safetensors"}),
     r"model\.norm\.weight"),
    (lambda index: index.update(weight_map=[]), r"weight_map"),
], ids=["tensor_unlisted", "tensor_invented", "shard_missing", "shard_outside", "map_a_list"])
def test_bad_shard_index(zonda, tmp_path, change, pattern):
    model = tmp_path / "model"
    shutil.copytree(TINY / "eos_list_sharded", model)
    file = model / "model.safetensors.index.json"
    index = json.loads(file.read_text())
    change(index)
    file.write_text(json.dumps(index))
    converts_not(zonda, pattern, model, tmp_path)


def test_a_pickle_is_never_read(zonda, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(MODEL, model)
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    converts_not(zonda, r"pickle|safetensors", model, tmp_path)


def test_bad_engines(zonda, tiny_engine, tmp_path):
    """Opened by inspect and by run; a flipped weight is found by the checksum."""
    raw = (tiny_engine / "rank0.engine").read_bytes()
    engine, wrong, count = tmp_path / "engine", [], 0
    shutil.copytree(tiny_engine, engine)
    for name, bad, pattern in bad_files.engine_cases(raw):
        (engine / "rank0.engine").write_bytes(bad)
        for args in (("inspect", engine), ("run", engine / "rank0.engine", "--input_ids", "3,4",
                                           "--max_output_len", 1)):
            result = zonda.run(*args, timeout=60)
            if result.returncode != 1 or not re.search(pattern, result.stderr, re.IGNORECASE):
                wrong.append(f"{name}: {args[0]}: exit {result.returncode}, wanted {pattern!r}: "
                             f"{result.stderr[-300:]}")
        count += 1
    assert not wrong, "\n".join(wrong)
    assert count >= 30


def test_a_flipped_weight_is_found(zonda, tiny_engine, tmp_path):
    engine = tmp_path / "engine"
    shutil.copytree(tiny_engine, engine)
    file = engine / "rank0.engine"
    raw = bytearray(file.read_bytes())
    raw[4096 + 5] ^= 1
    file.write_bytes(raw)
    assert "checksum" in zonda.fails("run", engine, "--input_ids", "3,4", "--max_output_len", 1)
