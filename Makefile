# The doors of the repository. Everything is done by the scripts beside it, from any folder.
.PHONY: help demo test bench bundle soak fuzz format lint clean
help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

demo:  ## set-up, build, a real model, and a streamed answer to a question
	@scripts/demo

test:  ## every check: unit tests, sanitizers, layers, format, fuzz corpora, end to end
	@scripts/test

bench:  ## speed beside llama.cpp and beside this machine's limits -> bench/RESULTS.md
	@scripts/bench

bundle:  ## a folder and archive that run on any x86-64 Linux -> build/bundle
	@scripts/bundle

soak:  ## the end-to-end requests again and again for SOAK_MINUTES (10)
	@scripts/soak

fuzz:  ## libFuzzer on every reader for FUZZ_SECONDS (60) each
	@scripts/fuzz

format:  ## clang-format on every C++ file
	@scripts/format

lint:  ## layers, size gates and format, without compiling
	@scripts/test setup lint

clean:  ## removes build/ and .venv/; the model cache stays
	rm -rf build .venv
