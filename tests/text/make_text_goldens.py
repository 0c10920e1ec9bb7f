"""Makes tests/text/goldens: small tokenizers with the ids, pieces, offsets and texts that the package
`tokenizers` gives for them, and templates with what jinja2 renders in the environment that
transformers sets up.

    pip install tokenizers==0.23.3 jinja2==3.1.6
    python tests/text/make_text_goldens.py

SPDX-License-Identifier: Apache-2.0
"""
import datetime
import json
import pathlib
import random

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Regex

FOLDER = pathlib.Path(__file__).parent / "goldens"
NOW = datetime.datetime(2026, 7, 4, 13, 5, 9)

CORPUS = [
    "The river runs past the old mill, and the miller's cat watches it all day long.",
    "We've counted 1024 boats, 365 bridges and 7 lighthouses; they'll be 1039 tomorrow.",
    "def area(width, height):\n    # square metres\n    return width * height\n",
    "for (int i = 0; i < count; ++i) {\n\ttotal += values[i];\n}\n",
    "Größe, Führer, naïve café, œuvre, çà et là, señor, Ångström",
    "Привет, мир! Как дела? Хорошо.", "你好，世界。今天天气很好。", "こんにちは世界、カタカナ",
    "안녕하세요 세계", "مرحبا بالعالم", "שלום עולם", "ἐνθάδε καὶ ἄλλοθι",
    "<|im_start|>user\nHello<|im_end|>\n", "🙂 👩‍👩‍👧 🇩🇪 🎉🎉",
] * 3

PARTS = [
    "the", "The", "river", "mill's", "we've", "they'll", "I'm", "it'd", "IT'S", "don’t", "1", "42", "1024", "½", "²",
    "Ⅷ", "x1y2", "Größe", "Führer", "naïve", "e\u0301", "a\u0323\u0308", "\u1fbd", "ﬁ", "Ｆｕｌｌ", "Привет", "你好", "世界",
    "カタ", "안녕", "مرحبا", "שלום", "🙂", "👩‍👩‍👧", "🇩🇪", "\u0301", "\u200d", "\u00a0", "\u3000", "\u2028", "\ufeff",
    "\ufffd", "\x00", "\x1b", "\u0085", ">>", "!=", "...", "(a)", "{}", "//", "'", "''", '"', "<|im_start|>", "<|im_end|>",
    "<mask>", "[x]", "word", "wordy", "<s>", "</s>", "<0x41>", "▁", "Ġ", "İ", "ß", "ς", "Σ",
]
SPACES = ["", " ", " ", " ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", " \n ", "\u00a0"]


def strings(count, seed):
    pick = random.Random(seed)
    result = ["", " ", "  ", "\n", "hello world", " hello", "hello ", "a" * 70, " " * 41 + "x", "!" * 50, "=-" * 30]
    while len(result) < count:
        if pick.random() < 0.25:
            noise = bytes(pick.randrange(256) for _ in range(pick.randrange(1, 12)))
            result.append(noise.decode("utf-8", "replace"))
        else:
            result.append("".join(pick.choice(PARTS) + pick.choice(SPACES) for _ in range(pick.randrange(1, 7))))
    return result


def train(tokenizer, size, alphabet=None, **options):
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=options.pop("special", []),
                                  initial_alphabet=alphabet or [], **options)
    tokenizer.train_from_iterator(CORPUS, trainer)


def byte_level():
    """GPT-2's kind with SmolLM2's pre-tokenizer, and added tokens with every flag."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True, add_prefix_space=False)
    train(tokenizer, 600, sorted(pre_tokenizers.ByteLevel.alphabet()), special=["<|im_start|>", "<|im_end|>"])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=True)])
    tokenizer.add_tokens([AddedToken("word", single_word=True), AddedToken("\n\n", normalized=False), AddedToken("[x]")])
    return tokenizer


def split_regex():
    """Llama 3's kind: a regular expression, whole words before merges, a token in front."""
    pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
               r"\s*[\r\n]+|\s+(?!\S)|\s+")
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    train(tokenizer, 420, sorted(pre_tokenizers.ByteLevel.alphabet()), special=["<s>", "</s>"])
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)])])
    return tokenizer


def byte_fallback():
    """Llama 2's kind: no pre-tokenizer, bytes for unknown characters."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    train(tokenizer, 480, special=["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)],
          limit_alphabet=60, max_token_length=8)
    return tokenizer


def metaspace():
    """Metaspace on normalized text; unknown characters are fused."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip(left=False, right=True)])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    train(tokenizer, 260, special=["<unk>", "<s>"], limit_alphabet=50)
    tokenizer.add_tokens([AddedToken("Führer", normalized=True)])
    return tokenizer


def late_splits():
    """Falcon's kind: more splits after ByteLevel, which then sees characters of the byte alphabet."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=True),
        pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
        pre_tokenizers.Split("th", "merged_with_next"), pre_tokenizers.Split("r", "merged_with_previous"),
        pre_tokenizers.Split(Regex("[a-z]+"), "contiguous", invert=True)])
    tokenizer.decoder = decoders.ByteLevel()
    train(tokenizer, 340, sorted(pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def word_splits():
    """Splits that drop characters; no decoder."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Split("o", "removed")])
    train(tokenizer, 160, special=["<unk>"], limit_alphabet=50)
    return tokenizer


def byte_offsets(text, offsets):
    starts = [0]
    for character in text:
        starts.append(starts[-1] + len(character.encode("utf-8")))
    return [starts[position] for pair in offsets for position in pair]


def has_newer_characters(text):
    """Characters of whose class the reference's several Unicode versions have different opinions."""
    return any(not 0x20 <= ord(c) < 0x3100 and not 0x4e00 <= ord(c) < 0xa000 and not 0xac00 <= ord(c) < 0xd7a4
               and not 0x1f000 <= ord(c) < 0x1fa00 and c not in "\n\t\r\x00\x1b\ufffd\ufeffﬁＦｕｌ" for c in text)


def tokenizer_golden(make, count, seed):
    tokenizer = make()
    cases = []
    for text in strings(count, seed):
        if has_newer_characters(text):
            continue
        for special in (True, False):
            tokenizer.encode_special_tokens = not special
            encoding = tokenizer.encode(text, add_special_tokens=special)
            if not special and cases and cases[-1]["ids"] == encoding.ids:
                continue
            cases.append({
                "text": text, "special": special, "ids": encoding.ids, "pieces": encoding.tokens,
                "offsets": byte_offsets(text, encoding.offsets),
                "decoded": tokenizer.decode(encoding.ids, skip_special_tokens=special)})
    return {"name": make.__name__, "tokenizer": json.loads(tokenizer.to_str()), "cases": cases}


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("run"), [], [], body).set_lineno(line)

    def run(self, caller):
        return caller()


class Dict:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)


class Namespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        if any(name.startswith("_") for name in kwargs):
            raise jinja2.exceptions.SecurityError("underscore")
        jinja2.utils.Namespace.__init__(args[0], *args[1:], **kwargs)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals.update(dict=Dict(), namespace=Namespace, raise_exception=raise_exception, strftime_now=NOW.strftime)
    return env


def template_golden():
    """Sources and variables stand in the golden file itself; a new case needs only its source."""
    golden = json.loads((FOLDER / "templates.json").read_text("utf-8"))
    env = environment()
    for case in golden["cases"]:
        try:
            case["text"] = env.from_string(case["source"]).render(**golden["variables"])
        except Exception:  # noqa: BLE001 - whatever it is, the template must be refused
            case["text"] = None
    return golden


def write(name, value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    (FOLDER / name).write_text(text.replace('{"text":', '\n{"text":').replace('{"source":', '\n{"source":') + "\n", "utf-8")


def main():
    FOLDER.mkdir(exist_ok=True)
    makers = [(byte_level, 70), (split_regex, 36), (byte_fallback, 30), (metaspace, 40), (late_splits, 40), (word_splits, 40)]
    for index, (make, count) in enumerate(makers):
        write(f"tokenizer_{make.__name__}.json", tokenizer_golden(make, count, index))
    write("templates.json", template_golden())


if __name__ == "__main__":
    main()
