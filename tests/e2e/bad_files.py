# Hand-made bad files: what is wrong, the bytes, and a pattern that the refusal must match.
# SPDX-License-Identifier: Apache-2.0
#
# Each *_cases function takes a good file and yields (name, bytes, pattern). The end-to-end tests
# put the bytes into a model; tests/fuzz/make_corpus.py makes seeds of them.
import copy
import json
import struct

import numpy as np
import xxhash


# safetensors: 8 bytes of header length, the header as JSON, the data.
def split_safetensors(raw):
    start = 8 + int.from_bytes(raw[:8], "little")
    return json.loads(raw[8:start]), raw[start:]


def join_safetensors(header, data, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def safetensors_layout_cases(raw):
    """Files that no reader may accept, whatever the model."""
    header, data = split_safetensors(raw)
    first, second = sorted((k for k in header if k != "__metadata__"),
                           key=lambda k: header[k]["data_offsets"])[:2]
    begin, end = header[first]["data_offsets"]

    def edited(**fields):
        changed = copy.deepcopy(header)
        for key, value in fields.items():
            if value is None:
                del changed[first][key]
            else:
                changed[first][key] = value
        return join_safetensors(changed, data)

    name = first.replace(".", r"\.")
    yield "empty", b"", "0 bytes"
    yield "four_bytes", raw[:4], "4 bytes"
    yield "length_zero", join_safetensors(b"", data), r"header"
    yield "length_beyond_file", join_safetensors(header, data, length=len(raw) * 2), "header length"
    yield "length_huge", join_safetensors(header, data, length=1 << 63), r"header length"
    yield "header_cut", raw[:100], r"header length|header"
    yield "header_not_json", join_safetensors(b"{" + b"x" * 50, data), r"syntax|parse"
    yield "header_a_list", join_safetensors(b"[1]", data), r"start with|object"
    yield "header_not_utf8", join_safetensors(b'{"\xff\xfe":{}}', data), r"UTF-8"
    yield "header_deep", join_safetensors(b'{"a":' * 5000 + b"1" + b"}" * 5000, data), r"dep|nest"
    yield "name_twice", join_safetensors(
        json.dumps(header)[:-1].encode() + f', "{first}": {json.dumps(header[first])}}}'.encode(),
        data), r"twice|repeat|duplicate"
    metadata = {**header, "__metadata__": {"a": 1}}
    yield "metadata_number", join_safetensors(metadata, data), "metadata"
    yield "entry_a_number", join_safetensors({**header, first: 3}, data), name
    yield "dtype_unknown", edited(dtype="F13"), f"{name}.*F13"
    yield "dtype_missing", edited(dtype=None), f"{name}.*dtype"
    yield "dtype_a_number", edited(dtype=4), f"{name}.*dtype"
    yield "shape_missing", edited(shape=None), f"{name}.*shape"
    yield "shape_negative", edited(shape=[-1, 4]), f"{name}.*-1"
    yield "shape_fraction", edited(shape=[1.5, 4]), name
    yield "shape_overflow", edited(shape=[1 << 40, 1 << 40]), f"{name}.*overflow"
    yield "shape_disagrees", edited(shape=[3, 3]), f"{name}.*36.*{end - begin}"
    yield "offsets_missing", edited(data_offsets=None), f"{name}.*data_offsets"
    yield "offsets_text", edited(data_offsets=["0", "4"]), f"{name}.*data_offsets"
    yield "offsets_three", edited(data_offsets=[0, 4, 8]), f"{name}.*data_offsets"
    yield "offsets_negative", edited(data_offsets=[-4, 0]), f"{name}.*data_offsets"
    yield "offsets_reversed", edited(data_offsets=[end, begin]), f"{name}"
    yield "offsets_huge", edited(data_offsets=[begin, 1 << 62]), f"{name}.*truncated|{name}.*range"
    yield "offsets_overflow", edited(data_offsets=[(1 << 64) - 4, 1 << 64]), name
    overlap = copy.deepcopy(header)
    size = overlap[second]["data_offsets"]
    overlap[second]["data_offsets"] = [size[0] - 4, size[1] - 4]
    yield "tensors_overlap", join_safetensors(overlap, data), r"overlap"
    hole = copy.deepcopy(header)
    for key in hole:
        if key not in (first, "__metadata__"):
            hole[key]["data_offsets"] = [value + 8 for value in hole[key]["data_offsets"]]
    yield "hole", join_safetensors(hole, data[:end] + bytes(8) + data[end:]), r"no tensor"
    yield "data_truncated", raw[:-10], r"truncated"
    yield "data_missing", join_safetensors(header, b""), r"truncated"
    yield "trailing_bytes", raw + bytes(16), r"after the last"
    yield "field_unknown", edited(strides=[1, 1]), f"{name}.*strides"


def safetensors_model_cases(raw):
    """Well-formed files that do not hold the model of the configuration."""
    header, data = split_safetensors(raw)
    victim = "model.layers.1.mlp.up_proj.weight"
    name = victim.replace(".", r"\.")
    begin, end = header[victim]["data_offsets"]

    def without():
        changed, shift = {}, end - begin
        for key, entry in header.items():
            if key == victim:
                continue
            entry = copy.deepcopy(entry)
            if key != "__metadata__" and entry["data_offsets"][0] >= end:
                entry["data_offsets"] = [value - shift for value in entry["data_offsets"]]
            changed[key] = entry
        return join_safetensors(changed, data[:begin] + data[end:])

    def patched(value):
        return join_safetensors(header, data[:begin] + np.float32(value).tobytes() +
                                data[begin + 4:])

    reshaped, integer, extra = (copy.deepcopy(header) for _ in range(3))
    reshaped[victim]["shape"] = header[victim]["shape"][::-1]
    integer[victim]["dtype"] = "I32"
    extra["model.layers.1.mlp.extra.weight"] = {
        "dtype": "F32", "shape": [2], "data_offsets": [len(data), len(data) + 8]}
    yield "tensor_missing", without(), name
    yield "tensor_extra", join_safetensors(extra, data + bytes(8)), r"extra\.weight"
    yield "tensor_transposed", join_safetensors(reshaped, data), f"{name}.*48.*32|{name}.*32.*48"
    yield "tensor_integer", join_safetensors(integer, data), f"{name}.*(I32|int32)"
    yield "tensor_nan", patched(np.nan), name
    yield "tensor_infinite", patched(-np.inf), name


# GGUF: magic, version, counts; metadata; tensor table; data.
class Gguf:
    """Writes a GGUF file piece by piece, so that each piece can be wrong."""

    TYPES = {"u32": (4, "<I"), "f32": (6, "<f"), "bool": (7, "<?"), "u64": (10, "<Q")}

    def __init__(self, metadata, tensors, alignment=32):
        self.metadata, self.tensors, self.alignment = list(metadata), list(tensors), alignment
        self.magic, self.version, self.counts = b"GGUF", 3, None

    @staticmethod
    def string(text):
        raw = text if isinstance(text, bytes) else text.encode()
        return struct.pack("<Q", len(raw)) + raw

    def value(self, kind, value):
        if kind == "raw":
            return value
        if kind == "str":
            return struct.pack("<I", 8) + self.string(value)
        number, form = self.TYPES[kind]
        return struct.pack("<I", number) + struct.pack(form, value)

    def bytes(self):
        counts = self.counts or (len(self.tensors), len(self.metadata))
        out = self.magic + struct.pack("<IQQ", self.version, *counts)
        for key, kind, value in self.metadata:
            out += self.string(key) + self.value(kind, value)
        data, offset = b"", 0
        for tensor in self.tensors:
            dims, raw = tensor["dims"], tensor["raw"]
            out += self.string(tensor["name"]) + struct.pack("<I", tensor.get("n_dims", len(dims)))
            out += b"".join(struct.pack("<Q", dim) for dim in dims)
            out += struct.pack("<IQ", tensor["type"], tensor.get("offset", offset))
            data += raw + bytes(-len(raw) % self.alignment)
            offset = len(data)
        return out + bytes(-len(out) % self.alignment) + data


def tiny_gguf(config, matrices, vectors):
    """A good file of a float32 model, as a Gguf to spoil."""
    metadata = [("general.architecture", "str", "llama")]
    for key, field in (("block_count", "num_hidden_layers"), ("embedding_length", "hidden_size"),
                       ("context_length", "max_position_embeddings"),
                       ("feed_forward_length", "intermediate_size"),
                       ("attention.head_count", "num_attention_heads"),
                       ("attention.head_count_kv", "num_key_value_heads"),
                       ("vocab_size", "vocab_size")):
        metadata.append(("llama." + key, "u32", config[field]))
    metadata += [("llama.attention.layer_norm_rms_epsilon", "f32", config["rms_norm_eps"]),
                 ("llama.rope.freq_base", "f32", config["rope_theta"]),
                 ("tokenizer.ggml.bos_token_id", "u32", 1),
                 ("tokenizer.ggml.eos_token_id", "u32", 2)]
    tensors = [{"name": name + ".weight", "dims": list(reversed(values.shape)), "type": 0,
                "raw": values.astype(np.float32).tobytes()}
               for name, values in {**vectors, **matrices}.items()]
    return Gguf(metadata, tensors)


def gguf_cases(good):
    """good: a Gguf; each case spoils a copy."""

    def spoiled(change):
        bad = copy.deepcopy(good)
        result = change(bad)
        return bad.bytes() if result is None else result

    def tensor(index=-1, **fields):
        return spoiled(lambda bad: bad.tensors[index].update(fields))

    def with_value(key, kind, value):
        return spoiled(lambda bad: bad.metadata.append((key, kind, value)))

    def replaced(key, kind, value):
        return spoiled(lambda bad: setattr(bad, "metadata", [
            (k, kind, value) if k == key else (k, t, v) for k, t, v in bad.metadata]))

    def without(key):
        return spoiled(lambda bad: setattr(bad, "metadata", [
            row for row in bad.metadata if row[0] != key]))

    raw, last = good.bytes(), good.tensors[-1]["name"].replace(".", r"\.")
    yield "empty", b"", r"byte 0|empty|0 bytes|GGUF"
    yield "magic", b"GGML" + raw[4:], r"GGUF"
    yield "version_1", raw[:4] + struct.pack("<I", 1) + raw[8:], r"version 1\b"
    yield "version_99", raw[:4] + struct.pack("<I", 99) + raw[8:], r"version 99"
    yield "big_endian", raw[:4] + struct.pack(">I", 3) + raw[8:], r"big-endian"
    yield "cut_in_header", raw[:20], r"ends at byte 20"
    yield "cut_in_metadata", raw[:150], r"ends at byte 150"
    yield "cut_in_data", raw[:-64], r"truncated|ends"
    yield "tensor_count", spoiled(lambda b: setattr(b, "counts", (1 << 60, 3))), r"tensor count"
    yield "metadata_count", spoiled(lambda b: setattr(b, "counts", (3, 1 << 60))), r"metadata count"
    yield "one_tensor_more", spoiled(
        lambda b: setattr(b, "counts", (len(b.tensors) + 1, len(b.metadata)))), r"."
    yield "key_length", spoiled(lambda b: b.bytes()[:24] + struct.pack("<Q", 1 << 62) +
                                b.bytes()[32:]), r"length|ends"
    yield "key_twice", with_value("llama.block_count", "u32", 2), r"llama\.block_count.*twice"
    yield "value_type", with_value("x.y", "raw", struct.pack("<I", 77) + bytes(8)), r"77"
    yield "bool_seven", with_value("x.y", "raw", struct.pack("<IB", 7, 7)), r"x\.y.*7"
    array = struct.pack("<I", 9)
    yield "array_length", with_value("x.y", "raw", array + struct.pack("<IQ", 4, 1 << 61)), r"x\.y"
    yield "array_type", with_value("x.y", "raw", array + struct.pack("<IQ", 99, 1) + bytes(8)), "99"
    yield "array_nested", with_value("x.y", "raw", array + struct.pack("<IQ", 9, 1) * 50 +
                                     struct.pack("<IQ", 4, 0)), r"x\.y"
    yield "string_beyond", with_value("x.y", "raw", struct.pack("<IQ", 8, 1 << 40)), r"x\.y"
    yield "alignment_zero", with_value("general.alignment", "u32", 0), r"general\.alignment"
    yield "alignment_odd", with_value("general.alignment", "u32", 24), r"general\.alignment"
    yield "architecture_missing", without("general.architecture"), r"general\.architecture"
    yield "architecture_unknown", replaced("general.architecture", "str", "mamba"), r"mamba"
    yield "heads_missing", without("llama.attention.head_count"), r"llama\.attention\.head_count"
    yield "heads_text", replaced("llama.attention.head_count", "str", "two"), r"head_count"
    yield "heads_zero", replaced("llama.attention.head_count", "u32", 0), r"head"
    yield "layers_huge", replaced("llama.block_count", "u32", 4_000_000_000), r"block_count|layers"
    yield "epsilon_nan", replaced("llama.attention.layer_norm_rms_epsilon", "f32", float("nan")), \
        r"epsilon"
    yield "tensor_type", tensor(type=31), f"{last}.*31"
    yield "tensor_dims_zero", tensor(dims=[0, 4]), f"{last}.*0"
    yield "tensor_dims_many", tensor(n_dims=9), f"{last}.*9"
    yield "tensor_dims_overflow", tensor(dims=[1 << 40, 1 << 40]), f"{last}"
    yield "tensor_row_no_block", tensor(type=2, dims=[33, 2]), f"{last}.*33"
    yield "tensor_offset_odd", tensor(offset=7), f"{last}.*7"
    yield "tensor_offset_beyond", tensor(offset=1 << 50), f"{last}"
    yield "tensors_overlap", tensor(offset=0), r"overlap"
    yield "tensor_twice", tensor(name=good.tensors[-2]["name"]), r"twice"
    yield "tensor_missing", spoiled(lambda b: b.tensors.pop() and None), last
    yield "tensor_extra", spoiled(lambda b: b.tensors.append(
        {"name": "blk.0.extra.weight", "dims": [4], "type": 0, "raw": bytes(16)})), r"extra"
    yield "tensor_misshapen", tensor(dims=[16, 96]), last
    yield "tensor_nan", tensor(raw=np.full(len(good.tensors[-1]["raw"]) // 4, np.nan,
                                           np.float32).tobytes()), last


def config_cases(config):
    """config: a good config.json of Llama as a dictionary, in the older spelling."""

    def edited(**fields):
        return json.dumps({**config, **fields}).encode()

    def without(key):
        return json.dumps({k: v for k, v in config.items() if k != key}).encode()

    def rope(**scaling):
        return edited(rope_scaling=scaling)

    yield "empty", b"", r"config\.json"
    yield "not_json", b"hidden_size: 32", r"config\.json"
    yield "a_list", b"[]", r"config\.json|object"
    yield "cut", json.dumps(config).encode()[:-30], r"config\.json"
    yield "deep", b'{"a":' * 200 + b"1" + b"}" * 200, r"dep|nest"
    yield "key_twice", b'{"hidden_size": 32, "hidden_size": 64}', r"hidden_size|twice|repeat"
    yield "number_huge", b'{"hidden_size": 1e999}', r"config\.json"
    yield "class_missing", without("architectures"), r"architectures"
    yield "class_unknown", edited(architectures=["MambaForCausalLM"], model_type="mamba"), r"Mamba"
    for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"):
        yield key + "_missing", without(key), key
    yield "hidden_size_text", edited(hidden_size="32"), r"hidden_size"
    yield "hidden_size_zero", edited(hidden_size=0), r"hidden_size"
    yield "hidden_size_negative", edited(hidden_size=-32), r"hidden_size"
    yield "hidden_size_huge", edited(hidden_size=1 << 40), r"hidden_size"
    yield "heads_fraction", edited(num_attention_heads=2.5), r"num_attention_heads"
    yield "heads_do_not_divide", edited(num_attention_heads=5), r"num_attention_heads|head"
    yield "kv_heads_do_not_divide", edited(num_key_value_heads=3), r"num_key_value_heads"
    yield "layers_huge", edited(num_hidden_layers=1 << 33), r"num_hidden_layers"
    yield "activation", edited(hidden_act="swishy"), r"swishy"
    yield "epsilon_negative", edited(rms_norm_eps=-1.0), r"eps"
    yield "eos_outside", edited(eos_token_id=4096), r"4096"
    yield "eos_text", edited(eos_token_id="two"), r"eos_token_id"
    yield "theta_zero", edited(rope_theta=0), r"rope_theta|rotary_base|theta"
    yield "rope_unknown", rope(rope_type="spiral", factor=2.0), r"spiral"
    yield "rope_without_factor", rope(rope_type="linear"), r"factor"
    yield "rope_factor_zero", rope(rope_type="linear", factor=0), r"factor"
    yield "rope_factor_text", rope(rope_type="linear", factor="two"), r"factor"
    yield "rope_llama3_frequencies", rope(
        rope_type="llama3", factor=8.0, low_freq_factor=4.0, high_freq_factor=1.0,
        original_max_position_embeddings=32), r"freq_factor"
    yield "quantised_otherwise", edited(quantization_config={"quant_method": "bitsandbytes"}), \
        r"quantization_config|bitsandbytes"


# Engine file: one page of header (72 bytes used), weights, plan as JSON; see docs/formats.md.
HEADER = struct.Struct("<8sII7Q")
FIELDS = ("magic", "version", "header_bytes", "weights_offset", "weights_bytes", "weights_checksum",
          "plan_offset", "plan_bytes", "plan_checksum", "header_checksum")


def engine_file(header, weights, plan, seal=True):
    """The file of these parts; seal: with checksums that hold, so that what is inside is judged."""
    header = dict(header)
    if seal:
        header["plan_bytes"], header["plan_checksum"] = len(plan), xxhash.xxh3_64_intdigest(plan)
        header["weights_checksum"] = xxhash.xxh3_64_intdigest(weights)
    packed = HEADER.pack(*(header[field] for field in FIELDS))
    if seal:
        packed = packed[:-8] + struct.pack("<Q", xxhash.xxh3_64_intdigest(packed[:-8]))
    return packed + bytes(4096 - len(packed)) + weights + plan


def engine_cases(raw):
    header = dict(zip(FIELDS, HEADER.unpack(raw[:HEADER.size])))
    weights = raw[4096:4096 + header["weights_bytes"]]
    plan = raw[header["plan_offset"]:header["plan_offset"] + header["plan_bytes"]]

    def head(**fields):
        return engine_file({**header, **fields}, weights, plan, seal=True)[:4096] + weights + plan

    def planned(change):
        value = json.loads(plan)
        change(value)
        return engine_file(header, weights, json.dumps(value).encode())

    yield "empty", b"", r"0 bytes"
    yield "short", raw[:50], r"50 bytes"
    yield "magic", b"NOTANENG" + raw[8:], r"not an engine"
    yield "version_0", raw[:8] + bytes(4) + raw[12:], r"version 0\b.*zonda build"
    yield "version_99", raw[:8] + struct.pack("<I", 99) + raw[12:], r"version 99.*zonda build"
    yield "header_flipped", raw[:20] + bytes([raw[20] ^ 1]) + raw[21:], r"checksum"
    yield "cut_in_weights", raw[:4096 + 100], r"beyond"
    yield "cut_in_plan", raw[:-5], r"beyond"
    yield "plan_flipped", raw[:-20] + bytes([raw[-20] ^ 1]) + raw[-19:], r"plan.*checksum"
    yield "plan_beyond", head(plan_offset=1 << 60), r"plan.*beyond"
    yield "plan_wraps", head(plan_offset=(1 << 64) - 8), r"plan.*beyond"
    yield "weights_beyond", head(weights_bytes=1 << 62), r"weights.*beyond"
    yield "weights_unaligned", head(weights_offset=4100, weights_bytes=100), r"aligned"
    yield "plan_not_json", engine_file(header, weights, b"{" + b"x" * 100), r"plan"
    yield "plan_a_list", engine_file(header, weights, b"[]"), r"."
    yield "plan_empty_object", engine_file(header, weights, b"{}"), r"."
    value = json.loads(plan)
    for key in value:
        yield f"plan_without_{key}", planned(lambda v, key=key: v.pop(key)), key
        if isinstance(value[key], list) and value[key]:
            yield f"plan_{key}_number", planned(lambda v, key=key: v.update({key: 7})), key
    yield "matrix_beyond", planned(
        lambda v: v["matrices"][0].update(offset=1 << 40)), r"matri"
    yield "matrix_negative", planned(lambda v: v["matrices"][0].update(offset=-4096)), r"matri"
    yield "vector_beyond", planned(lambda v: v["vectors"][0].update(offset=1 << 40)), r"vector"
    yield "vector_huge", planned(lambda v: v["vectors"][0].update(size=1 << 61)), r"vector"
    yield "slot_negative", planned(lambda v: v["slots"][0].update(columns=-1)), r"slot"
    yield "logits_slot", planned(lambda v: v.update(logits_slot=10_000)), r"logits"
