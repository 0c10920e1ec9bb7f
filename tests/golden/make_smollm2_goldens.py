# Makes tests/golden/smollm2.json and tokenizer_smollm2.json with transformers and tokenizers.
# SPDX-License-Identifier: Apache-2.0
#
# usage: python tests/golden/make_smollm2_goldens.py FOLDER   (FOLDER as smollm2_to_hf.py writes it;
# needs requirements/goldens.txt)
# smollm2.json: a list of {messages, text (rendered), prompt_ids, ids (64, greedy in float32, stop
# tokens ignored), logprobs (of each of ids), smallest_lead (of a choice over the second best, in logits)}
# smollm2_int8.json: how far those log-probabilities move in transformers itself when the inputs of all
# linears are rounded to int8 in groups of 32, as integer kernels do: {mean, p99, max} of |delta|
# tokenizer_smollm2.json: a list of {text, ids, decoded}; special tokens in text are recognised
import json
import pathlib
import sys

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = pathlib.Path(__file__).resolve().parent
NEW_TOKENS = 64


def user(text):
    return {"role": "user", "content": text}


CHATS = [
    [user("Why is the sky blue?")],
    [user("What is the capital of France?")],
    [{"role": "system", "content": "You answer in one short sentence."}, user("What is gravity?")],
    [user("My name is Ada."), {"role": "assistant", "content": "Nice to meet you, Ada."},
     user("Give me three tips for learning to swim.")],
    [user("Write a Python function that returns the factorial of n.")],
    [user("Translate to French: \"Good morning, how are you?\"")],
    [user("List the first 12 prime numbers: 2, 3, 5, 7,")],
    [user("Write a story of four sentences about this village.\n\n" + " ".join(
        f"In year {year} the river rose by {year % 7} metres and the village of Brook moved its "
        f"{['mill', 'school', 'market'][year % 3]} uphill." for year in range(1801, 1813)))],
]

TEXTS = [
    "", " ", "  ", "\n", "\n\n\n", "\t", "a", " a", "a ", "Hello world", "Hello  world", " Hello",
    "HELLO hello HeLLo", "don't I'm we'll they've you're he'd it's", "DON'T I'M", "don’t",
    "0", "12", "123", "1234567890", "3.14159", "1,000,000", "2024-12-01T10:30:00Z", "x1y22z333",
    "\u0661\u0662\u0663", "\u00bd \u00b2 \u2167", "!", "!!!", "?!...", "a.b,c;d:e", "(a)[b]{c}<d>",
    "foo_bar fooBar foo-bar", "def f(x):\n    return x ** 2\n", "\tif (a) {\r\n\t\tb();\r\n\t}",
    "trailing   ", "line one \n line two", "a\u00a0b\u2003c", "na\u00efve caf\u00e9", "cafe\u0301",
    "Stra\u00dfe \u00c6ther \u0152uvre",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!",
    "\u4f60\u597d\uff0c\u4e16\u754c", "\u65e5\u672c\u8a9e\u306e\u30c6\u30b9\u30c8", "\uc548\ub155",
    "\u0645\u0631\u062d\u0628\u0627", "\u0928\u092e\u0938\u094d\u0924\u0947", "\U0001f600",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 family", "\U0001f1eb\U0001f1f7", "\ufeffbom",
    "\u200bzero\u200bwidth", "\x00\x01\x7f", "<|im_start|>user\nHi<|im_end|>\n", "<|im_start|>",
    "a<|endoftext|>b", " <|im_end|> ", "<|im_start", "<|not_special|>", "<empty_output>x",
    "supercalifragilisticexpialidocious", "https://example.org/a?b=c&d=%20#e",
    "aaaaaaaaaaaaaaaaaaaa",
    "SELECT * FROM t WHERE a >= 10;", "\\frac{1}{2} $x^2$", "\u2026\u2014\u2013\u201cq\u201d",
]


@torch.no_grad()
def greedy(model, prompt):
    """(ids, logprob of each id, smallest lead of a choice in logits)."""
    ids, logprobs, lead, cache, step = [], [], float("inf"), None, torch.tensor([prompt])
    while len(ids) < NEW_TOKENS:
        out = model(step, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache, logits = out.past_key_values, out.logits[0, -1]
        first, second = torch.topk(logits, 2).values.tolist()
        lead = min(lead, first - second)
        ids.append(int(logits.argmax()))
        logprobs.append(round(float(torch.log_softmax(logits.double(), 0)[ids[-1]]), 6))
        step = torch.tensor([[ids[-1]]])
    return ids, logprobs, lead


def round_to_int8(module, inputs):
    """The first input of a linear in groups of 32 along its last axis, absmax / 127 a step."""
    groups = inputs[0].reshape(*inputs[0].shape[:-1], -1, 32)
    step = groups.abs().amax(-1, keepdim=True) / 127
    rounded = torch.where(step > 0, (groups / step).round() * step, 0.0)
    return (rounded.reshape(inputs[0].shape),)


@torch.no_grad()
def int8_deltas(model, rows):
    """|delta| of each golden log-probability with rounded activations, teacher-forced."""
    hooks = [module.register_forward_pre_hook(round_to_int8) for module in model.modules()
             if isinstance(module, torch.nn.Linear)]
    deltas = []
    for row in rows:
        logits = model(torch.tensor([row["prompt_ids"] + row["ids"]])).logits[0]
        logprobs = torch.log_softmax(logits[len(row["prompt_ids"]) - 1:-1].double(), -1)
        found = logprobs[range(len(row["ids"])), row["ids"]].numpy()
        deltas.append(np.abs(found - row["logprobs"]))
    for hook in hooks:
        hook.remove()
    return np.concatenate(deltas)


def write(name, rows):
    lines = ",\n".join(json.dumps(row) for row in rows)
    (HERE / name).write_text(f"[\n{lines}\n]\n")


def main(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    rows = []
    for messages in CHATS:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        prompt = tokenizer(text, add_special_tokens=False).input_ids
        ids, logprobs, lead = greedy(model, prompt)
        print(len(prompt), f"lead {lead:.4f}", repr(tokenizer.decode(ids))[:150])
        rows.append({"messages": messages, "text": text, "prompt_ids": prompt, "ids": ids,
                     "logprobs": logprobs, "smallest_lead": round(lead, 6)})
    write("smollm2.json", rows)
    deltas = int8_deltas(model, rows)
    spread = {"mean": deltas.mean(), "p99": np.quantile(deltas, 0.99), "max": deltas.max()}
    (HERE / "smollm2_int8.json").write_text(
        json.dumps({key: round(float(value), 6) for key, value in spread.items()}) + "\n")

    plain = Tokenizer.from_file(str(pathlib.Path(folder) / "tokenizer.json"))
    rows = []
    for text in TEXTS:
        ids = plain.encode(text, add_special_tokens=False).ids
        rows.append({"text": text, "ids": ids,
                     "decoded": plain.decode(ids, skip_special_tokens=False)})
    write("tokenizer_smollm2.json", rows)


if __name__ == "__main__":
    main(sys.argv[1])
