# The include law of the tree, and proof that the checker sees a breach of each kind.
# SPDX-License-Identifier: Apache-2.0
import pathlib

import pytest

from check_layers import breaches

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOP = "// Purpose.\n// SPDX-License-Identifier: Apache-2.0\n"


def test_the_tree_follows_the_layers():
    assert list(breaches(ROOT)) == []


@pytest.mark.parametrize("path, body, reason", [
    ("src/kvcache/a.h", '#include "device/device.h"\n', "kvcache may include only"),
    ("src/kernels/a.h", '#include "engine/plan.h"\n', "kernels may include only"),
    ("src/runtime/a.h", '#include "kernels/gemm/linear.h"\n', "runtime may include only"),
    ("src/api/a.cc", '#include "zonda/nothing.h"\n', "no module of that name"),
    ("src/scheduler/a.h", '#include "zonda/llm.h"\n', "scheduler may include only"),
    ("include/zonda/llm.h", '#include "api/llm.h"\n', "only public headers"),
    ("src/api/a.h", "#include <cuda_runtime.h>\n", "CUDA headers"),
    ("src/text/a.h", "#include <nlohmann/json.hpp>\n", "heavy third-party headers"),
    ("src/base/a.cc", "\n" * 801, "lines, limit 800"),
    ("src/base/a.cc", "// TO" + "DO: later\n", "forbidden word"),
    ("src/base/a.cc", 'getenv("HOME");\n', "reads the environment"),
    ("src/misc/a.cc", "", "not a module"),
])
def test_a_breach_is_reported(tmp_path, path, body, reason):
    for folder in ("src", "include"):
        (tmp_path / folder).mkdir()
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(TOP + body)
    assert any(reason in breach for breach in breaches(tmp_path))


@pytest.mark.parametrize("path, body", [
    ("src/runtime/a.h", '#include "kernels/sampling/sample.h"\n#include "text/grammar/g.h"\n'),
    ("src/kvcache/a.h", '#include "zonda/error.h"\n#include "kvcache/b.h"\n#include <vector>\n'),
    ("src/kernels/norm/cuda/a.cu", "#include <cuda_runtime.h>\n"),
])
def test_an_allowed_include_is_no_breach(tmp_path, path, body):
    for folder in ("src", "include"):
        (tmp_path / folder).mkdir()
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(TOP + body)
    assert list(breaches(tmp_path)) == []
