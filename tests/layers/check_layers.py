# Prints each breach of docs/concepts.md: who may include whom, sizes, forbidden words.
# SPDX-License-Identifier: Apache-2.0
import pathlib
import re
import sys

# module: what it may include, besides the standard library, itself and base. "kernels/sampling" is
# that folder alone.
MAY_INCLUDE = {
    "base": [],
    "device": [],
    "graph": [],
    "text": [],
    "kvcache": [],
    "checkpoint": [],
    "kernels": ["device"],
    "models": ["graph"],
    "scheduler": ["kvcache"],
    "engine": ["kernels", "device", "checkpoint"],
    "convert": ["models", "graph", "checkpoint", "text"],
    "build": ["models", "graph", "engine", "kernels", "device", "checkpoint"],
    "runtime": ["engine", "scheduler", "kvcache", "kernels/sampling", "device", "text/grammar"],
    "api": ["runtime", "build", "convert", "text"],
    "server": ["api"],
    "quality": ["api", "convert"],
    "bindings": ["api"],
    "cli": ["engine", "convert", "runtime", "build", "api", "server", "quality", "bindings"],
}
# Public header: the module that implements it; plain data that every floor may use belongs to base.
PUBLIC = {"error": "base", "sampling": "base", "model": "models", "convert": "convert",
          "build": "build", "executor": "runtime", "llm": "api"}
CUDA_MODULES = ["device", "kernels", "engine", "runtime"]
CUDA_HEADER = re.compile(r"^(cuda|cub/|cublas|cudnn|cute/|cutlass|nccl|nvml|thrust/|mma\.h)")
HEAVY_HEADER = re.compile(r"^(nlohmann/|fmt/format|regex$|CLI/|oniguruma)")
FORBIDDEN = re.compile(r"\b(TODO|FIXME|XXX|not implemented yet|for now)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.MULTILINE)
LINES, KERNEL_LINES, PUBLIC_LINES = 800, 1000, 1100


def module_of(path):
    """The module that a path below src/ or a public header belongs to."""
    return PUBLIC.get(path.stem) if path.parts[0] == "zonda" else path.parts[0]


def include_breach(path, quoted, name):
    """Why file `path` (relative to src/ or include/) must not include `name`; None if it may."""
    module = module_of(path)
    if not quoted:
        if CUDA_HEADER.match(name) and not (module in CUDA_MODULES and "cuda" in path.parts):
            return "CUDA headers belong to the cuda/ folders of " + ", ".join(CUDA_MODULES)
        if HEAVY_HEADER.match(name) and path.suffix == ".h" and str(path) != "base/json.h":
            return "heavy third-party headers belong into .cc files"
        return None
    target = pathlib.PurePosixPath(name)
    if path.parts[0] == "zonda":
        inside = target.parts[0] == "zonda"
        return None if inside else "a public header includes only public headers"
    owner = module_of(target)
    if owner not in MAY_INCLUDE:
        return "no module of that name"
    allowed = [module, "base", *MAY_INCLUDE[module]]
    if target.parts[0] == "zonda" and owner in allowed:
        return None
    if any(name.startswith(entry + "/") for entry in allowed):
        return None
    return f"{module} may include only {', '.join(allowed)}"


def file_breaches(root, folder, file):
    path, text = file.relative_to(root / folder), file.read_text()
    if module_of(path) not in MAY_INCLUDE:
        yield f"{folder}/{path}: not a module or public header of the table"
        return
    for bracket, name in INCLUDE.findall(text):
        reason = include_breach(path, bracket == '"', name)
        if reason:
            yield f"{folder}/{path}: includes {name}: {reason}"
    lines, limit = text.count("\n"), KERNEL_LINES if path.parts[0] == "kernels" else LINES
    if lines > limit:
        yield f"{folder}/{path}: {lines} lines, limit {limit}"
    for number, line in enumerate(text.splitlines(), 1):
        if FORBIDDEN.search(line):
            yield f"{folder}/{path}:{number}: forbidden word: {line.strip()}"
    if "getenv" in text and str(path) != "base/env.cc":
        yield f"{folder}/{path}: only base/env.cc reads the environment"
    if "SPDX-License-Identifier: Apache-2.0" not in text[:1000]:
        yield f"{folder}/{path}: no SPDX line at the top"


def breaches(root):
    """All breaches of the tree at `root`, as sentences."""
    for folder in ("src", "include"):
        files = sorted((root / folder).rglob("*"))
        for file in files:
            if file.suffix in (".cc", ".h", ".cu", ".cuh"):
                yield from file_breaches(root, folder, file)
    public = sum(f.read_text().count("\n") for f in (root / "include").rglob("*.h"))
    if public > PUBLIC_LINES:
        yield f"include/: {public} lines together, limit {PUBLIC_LINES}"


if __name__ == "__main__":
    found = list(breaches(pathlib.Path(__file__).resolve().parents[2]))
    print("\n".join(found) or "layers: no breach")
    sys.exit(1 if found else 0)
