# Calls the zonda binary and reads what it prints.
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = ROOT / "tests" / "golden" / "tiny"


class Zonda:
    def __init__(self, binary, env):
        self.binary, self.env = pathlib.Path(binary), env

    def run(self, *args, name=None, stdin="", timeout=600, cwd=None):
        """The finished process, whatever its exit code; name: called through this program name."""
        result = subprocess.run([str(name or self.binary), *map(str, args)], input=stdin, text=True,
                                capture_output=True, env=self.env, timeout=timeout, cwd=cwd)
        assert result.returncode >= 0, f"signal {-result.returncode}: {args}\n{result.stderr}"
        return result

    def __call__(self, *args, **kwargs):
        """Standard output of a call that must succeed."""
        result = self.run(*args, **kwargs)
        assert result.returncode == 0, f"exit {result.returncode}: {args}\n{result.stderr[-3000:]}"
        return result.stdout

    def fails(self, *args, code=1, **kwargs):
        """Standard error of a call that must fail with this exit code and print no result."""
        result = self.run(*args, **kwargs)
        said = result.stderr[-3000:]
        assert result.returncode == code, f"exit {result.returncode}: {args}\n{said}"
        assert result.stderr.strip(), "an error needs a sentence"
        return result.stderr

    def generate(self, model, *args, **kwargs):
        """The answers of `run --json`: one object a request, nothing else on standard output."""
        lines = self("run", model, "--json", *args, **kwargs).splitlines()
        return [json.loads(line) for line in lines]

    def one(self, model, *args, **kwargs):
        """The answer of a call with one request."""
        answers = self.generate(model, *args, **kwargs)
        assert len(answers) == 1
        return answers[0]


def ids(values):
    """The spelling of token ids on the command line."""
    return ",".join(map(str, values))


def write_requests(path, requests):
    """An --input_file of JSON lines."""
    path.write_text("".join(json.dumps(request) + "\n" for request in requests))
    return path


def golden(name):
    return json.loads((TINY / name / "golden.json").read_text())
