# zonda run: sources, inputs, per-request options, outputs.
# SPDX-License-Identifier: Apache-2.0
import json
import signal
import subprocess
import time

import numpy as np
import pytest

from zonda_cli import TINY, golden, ids, write_requests

PROMPT = ids(golden("gqa_tied")["prompt_ids"][:20])
GREEDY = ("--temperature", 0, "--ignore_eos")


def test_a_folder_runs_without_other_steps_and_says_so(zonda):
    result = zonda.run("run", TINY / "gqa_tied", "--input_ids", PROMPT, "--max_output_len", 4)
    assert result.returncode == 0
    assert str(zonda.env["XDG_CACHE_HOME"]) in result.stderr


def test_every_source_gives_the_same(zonda, tmp_path, tiny_engine):
    checkpoint = tmp_path / "checkpoint"
    zonda("convert", "--model_dir", TINY / "gqa_tied", "--output_dir", checkpoint, "--dtype",
          "float32")
    args = ("--input_ids", PROMPT, "--max_output_len", 16, *GREEDY)
    sources = [(TINY / "gqa_tied", "--dtype", "float32"), (checkpoint,), (tiny_engine,),
               (tiny_engine / "rank0.engine",)]
    answers = [zonda.one(*source, *args)["ids"] for source in sources]
    assert len(answers[0]) == 16 and answers.count(answers[0]) == len(answers)


def test_the_answer_has_its_fields(zonda, tiny_engine):
    answer = zonda.one(tiny_engine, "--input_ids", PROMPT, "--max_output_len", 6, *GREEDY,
                       "--logprobs", 2)
    assert ids(answer["prompt_ids"]) == PROMPT
    assert len(answer["ids"]) == 6 and answer["finish_reason"] == "length"
    assert len(answer["logprobs"]) == 6
    assert "text" in answer and isinstance(answer["timings"], dict)


def test_input_file_takes_json_lines_with_options(zonda, tiny_engine, tmp_path):
    prompt = golden("gqa_tied")["prompt_ids"]
    file = write_requests(tmp_path / "requests.jsonl", [
        {"input_ids": prompt[:8], "max_output_len": 3, "temperature": 0, "ignore_eos": True},
        {"input_ids": prompt[:12], "max_tokens": 5, "top_k": 1, "ignore_eos": True}])
    answers = zonda.generate(tiny_engine, "--input_file", file)
    assert [len(answer["ids"]) for answer in answers] == [3, 5]
    assert [answer["prompt_ids"] for answer in answers] == [prompt[:8], prompt[:12]]


def test_input_file_takes_plain_lines(zonda, smollm2_engine, tmp_path):
    file = tmp_path / "prompts.txt"
    file.write_text("The capital of France is\nThe opposite of hot is\n")
    answers = zonda.generate(smollm2_engine, "--input_file", file, "--max_output_len", 4,
                             "--temperature", 0)
    assert "Paris" in answers[0]["text"] and "cold" in answers[1]["text"]


def test_several_texts_are_several_requests(zonda, smollm2_engine):
    answers = zonda.generate(smollm2_engine, "--input_text", "One", "--prompt", "Two",
                             "--max_output_len", 2)
    assert [len(answer["ids"]) for answer in answers] == [2, 2]


def test_greedy_has_three_spellings(zonda, tiny_engine):
    args = ("--input_ids", PROMPT, "--max_output_len", 12, "--ignore_eos")
    answers = [zonda.one(tiny_engine, *args, *extra)["ids"]
               for extra in ((), ("--temperature", 0), ("--top_k", 1, "--temperature", 2))]
    assert answers[0] == answers[1] == answers[2]


def test_a_temperature_alone_samples(zonda, tiny_engine):
    args = ("--input_ids", PROMPT, "--max_output_len", 24, "--ignore_eos", "--temperature", 1.5)
    seeds = [zonda.one(tiny_engine, *args, "--seed", seed)["ids"] for seed in (1, 1, 2)]
    assert seeds[0] == seeds[1] != seeds[2]


@pytest.mark.parametrize("extra", [("--top_p", 1), ("--top_p", 0), ("--top_k", 0)])
def test_zero_or_one_switches_a_filter_off(zonda, tiny_engine, extra):
    args = ("--input_ids", PROMPT, "--max_output_len", 24, "--ignore_eos", "--temperature", 1.5,
            "--seed", 5)
    assert zonda.one(tiny_engine, *args)["ids"] == zonda.one(tiny_engine, *args, *extra)["ids"]


def test_a_strong_repetition_penalty_ends_repetition(zonda, tiny_engine, tmp_path):
    prompt = golden("gqa_tied")["prompt_ids"][:20]
    requests = [{"input_ids": prompt, "max_output_len": 40, "temperature": 0, "ignore_eos": True,
                 **extra} for extra in ({}, {"presence_penalty": 100.0},
                                        {"no_repeat_ngram_size": 2})]
    plain, present, ngram = (answer["ids"] for answer in zonda.generate(
        tiny_engine, "--input_file", write_requests(tmp_path / "r.jsonl", requests)))
    assert len(set(plain)) < 40
    assert len(set(present)) == 40
    pairs = list(zip(prompt + ngram, (prompt + ngram)[1:]))[len(prompt) - 1:]
    assert len(set(pairs)) == len(pairs)


def test_logit_bias_bad_words_and_stop_ids(zonda, tiny_engine, tmp_path):
    base = {"input_ids": golden("gqa_tied")["prompt_ids"][:20], "max_output_len": 8,
            "temperature": 0, "ignore_eos": True}
    plain = zonda.one(tiny_engine, "--input_file", write_requests(tmp_path / "a", [base]))["ids"]
    requests = [{**base, "logit_bias": {"7": 100.0}}, {**base, "stop_token_ids": [plain[3]]},
                {**base, "min_tokens": 6, "stop_token_ids": [plain[0]]}]
    biased, stopped, late = zonda.generate(tiny_engine, "--input_file",
                                           write_requests(tmp_path / "b", requests))
    assert biased["ids"] == [7] * 8
    first = plain.index(plain[3])
    assert stopped["ids"][:first] == plain[:first] and stopped["finish_reason"] == "stop"
    assert len(late["ids"]) >= 6


def test_a_stop_string_ends_and_is_not_shown(zonda, smollm2_engine):
    args = ("--input_text", "One, two, three, four, five,", "--max_output_len", 24, *GREEDY)
    plain = zonda.one(smollm2_engine, *args)["text"]
    stop = plain.split(",")[2].strip()
    answer = zonda.one(smollm2_engine, *args, "--stop", stop)
    assert answer["finish_reason"] == "stop" and stop not in answer["text"]
    assert plain.startswith(answer["text"])


def test_context_logits_are_float32_tokens_by_vocabulary(zonda, tiny_engine, tmp_path):
    zonda.one(tiny_engine, "--input_ids", PROMPT, "--output_logits_npy", tmp_path / "l.npy",
              "--max_output_len", 2)
    logits = np.load(tmp_path / "l.npy")
    assert logits.dtype == np.float32 and logits.shape == (20, 80)


def test_logprobs_agree_with_the_logits(zonda, tiny_engine, tmp_path):
    answer = zonda.one(tiny_engine, "--input_ids", PROMPT, "--output_logits_npy",
                       tmp_path / "l.npy", "--max_output_len", 1, *GREEDY, "--logprobs", 1)
    last = np.load(tmp_path / "l.npy")[-1].astype(np.float64)
    want = last[answer["ids"][0]] - last.max() - np.log(np.exp(last - last.max()).sum())
    assert answer["logprobs"][0]["id"] == answer["ids"][0]
    assert answer["logprobs"][0]["logprob"] == pytest.approx(want, abs=1e-4)


def test_n_choices_are_n_samples(zonda, tiny_engine, tmp_path):
    request = {"input_ids": golden("gqa_tied")["prompt_ids"][:20], "max_output_len": 12, "n": 3,
               "temperature": 1.5, "seed": 3, "ignore_eos": True}
    answer = zonda.one(tiny_engine, "--input_file", write_requests(tmp_path / "r", [request]))
    assert len({tuple(choice["ids"]) for choice in answer["choices"]}) == 3


def test_no_output_length_goes_to_the_sequence_limit(zonda, tmp_path):
    zonda("build", "--model_dir", TINY / "gqa_tied", "--output_dir", tmp_path / "engine", "--dtype",
          "float32", "--max_seq_len", 40)
    answer = zonda.one(tmp_path / "engine", "--input_ids", PROMPT, *GREEDY)
    assert len(answer["ids"]) == 20 and answer["finish_reason"] == "length"


def test_a_request_that_can_never_fit_is_refused_with_the_numbers(zonda, tiny_engine):
    error = zonda.fails("run", tiny_engine, "--input_ids", ids([5] * 200))
    assert "200" in error and "127" in error


def test_an_id_outside_the_vocabulary_is_refused(zonda, tiny_engine):
    assert "80" in zonda.fails("run", tiny_engine, "--input_ids", "3,4,80")


def test_the_cache_budget_is_printed(zonda, tiny_engine):
    result = zonda.run("run", tiny_engine, "--input_ids", PROMPT, "--max_output_len", 2,
                       "--kv_cache_bytes", 1_000_000)
    assert result.returncode == 0
    assert any("blocks" in line and "tokens" in line for line in result.stderr.splitlines())


def test_run_profiling_prints_figures_to_stderr(zonda, tiny_engine):
    result = zonda.run("run", tiny_engine, "--input_ids", PROMPT, "--max_output_len", 8,
                       "--run_profiling", "--json", *GREEDY)
    assert result.returncode == 0 and "tok/s" in result.stderr
    json.loads(result.stdout)


def test_interrupt_stops_cleanly(zonda, smollm2_engine):
    process = subprocess.Popen(
        [zonda.binary, "run", smollm2_engine, "--input_text", "Once upon a time", "--streaming",
         "--ignore_eos", "--max_output_len", "4000"],
        env=zonda.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.read(1)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 130


def test_a_closed_pipe_is_no_crash(zonda, smollm2_engine):
    process = subprocess.Popen(
        [zonda.binary, "run", smollm2_engine, "--input_text", "Once upon a time", "--streaming",
         "--ignore_eos", "--max_output_len", "200"],
        env=zonda.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.read(1)
    process.stdout.close()
    assert process.wait(timeout=60) >= 0
