# Fixtures of the end-to-end tests: the real binary, a cache folder of its own, the models.
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

from zonda_cli import ROOT, Zonda

sys.path.insert(0, str(ROOT / "tests" / "golden"))


def pytest_addoption(parser):
    parser.addoption("--zonda", default=str(ROOT / "build" / "bin" / "zonda"),
                     help="the binary under test")


@pytest.fixture(scope="session")
def work():
    """A folder for the session's large files, removed at its end."""
    with tempfile.TemporaryDirectory(prefix="zonda-e2e-") as folder:
        yield pathlib.Path(folder)


@pytest.fixture(scope="session")
def zonda(request, work):
    """Runs the binary; its cache is in the session's folder."""
    binary = pathlib.Path(request.config.getoption("--zonda"))
    if not binary.exists():
        pytest.fail(f"{binary} does not exist; build it first: make demo")
    return Zonda(binary, dict(os.environ, XDG_CACHE_HOME=str(work / "cache")))


@pytest.fixture(scope="session")
def smollm2():
    """The GGUF file of SmolLM2, fetched once into the user's model cache."""
    out = subprocess.run([ROOT / "scripts" / "fetch_model"], check=True, stdout=subprocess.PIPE)
    return pathlib.Path(out.stdout.decode().strip())


@pytest.fixture(scope="session")
def smollm2_engine(zonda, smollm2, work):
    """SmolLM2 in its own format, through convert and build."""
    checkpoint, engine = work / "smollm2-checkpoint", work / "smollm2-engine"
    zonda("convert", "--model_dir", smollm2, "--output_dir", checkpoint)
    zonda("build", "--checkpoint_dir", checkpoint, "--output_dir", engine)
    return engine


@pytest.fixture(scope="session")
def smollm2_float32(zonda, smollm2, work):
    """SmolLM2 dequantised to a Hugging Face folder in float32, and its engine."""
    import smollm2_to_hf

    folder, engine = work / "smollm2-hf", work / "smollm2-hf-engine"
    smollm2_to_hf.convert(smollm2, folder)
    zonda("build", "--model_dir", folder, "--output_dir", engine, "--dtype", "float32")
    shutil.rmtree(work / "cache", ignore_errors=True)
    (folder / "model.safetensors").unlink()
    return engine


@pytest.fixture(scope="session")
def tiny_engine(zonda, work):
    """The engine of the smallest golden model, float32."""
    engine = work / "tiny-engine"
    zonda("build", "--model_dir", ROOT / "tests/golden/tiny/gqa_tied", "--output_dir", engine,
          "--dtype", "float32")
    return engine
