// SPDX-License-Identifier: Apache-2.0
#include "models/config.h"

#include <algorithm>

#include "base/error.h"
#include "models/fields.h"

namespace zonda::models {
namespace {

constexpr int64_t kMaxVocab = int64_t{1} << 24;
constexpr int64_t kMaxWidth = int64_t{1} << 20;
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxPositions = int64_t{1} << 30;

OrderedJson quantization_json(const QuantizationConfig& quantization) {
  OrderedJson json;
  json["quant_algo"] =
      quantization.quant_algo.empty() ? OrderedJson(nullptr) : OrderedJson(quantization.quant_algo);
  json["kv_cache_quant_algo"] = nullptr;
  json["group_size"] = quantization.group_size;
  json["has_zero_point"] = quantization.has_minimum;
  json["pre_quant_scale"] = false;
  json["exclude_modules"] = nullptr;
  return json;
}

OrderedJson mapping_json() {
  OrderedJson json;
  for (const char* key :
       {"world_size", "tp_size", "pp_size", "cp_size", "moe_tp_size", "moe_ep_size"}) {
    json[key] = 1;
  }
  return json;
}

// Values of upstream's config that this version honours only at their neutral setting.
void refuse_unsupported(FieldReader& reader) {
  const auto neutral = [&](std::string_view key, const Json& value) {
    if (reader.has(key) && reader.at(key) != value) {
      reader.fail(fmt::format("\"{}\" is {}; only {} is supported", key, dump_json(reader.at(key)),
                              dump_json(value)));
    }
  };
  neutral("qk_layernorm", false);
  neutral("residual_mlp", false);
  neutral("use_parallel_embedding", false);
  neutral("remove_duplicated_kv_heads", false);
}

void read_mapping(FieldReader& reader, const Json& json) {
  if (!reader.has("mapping")) {
    return;
  }
  int64_t ranks = 1;
  FieldReader mapping(json["mapping"], "config.json mapping");
  mapping.integer("world_size", ranks, 1, 1 << 20);
  if (const Result<void> read = mapping.result(); !read.ok()) {
    reader.fail(read.error().message);
  } else if (ranks != 1) {
    reader.fail(
        fmt::format("\"mapping\".\"world_size\" is {}; a checkpoint here is rank-free (1)", ranks));
  }
}

void read_quantization(FieldReader& reader, const Json& json, QuantizationConfig& out) {
  if (!reader.has("quantization")) {
    return;
  }
  FieldReader quantization(json["quantization"], "config.json quantization");
  quantization.string("quant_algo", out.quant_algo);
  quantization.integer("group_size", out.group_size, 0, 128);
  quantization.boolean("has_zero_point", out.has_minimum);
  std::string kv_cache;
  quantization.string("kv_cache_quant_algo", kv_cache);
  if (!kv_cache.empty()) {
    quantization.fail(
        fmt::format("\"kv_cache_quant_algo\" is \"{}\"; only null is supported", kv_cache));
  }
  constexpr std::string_view kKnown[] = {
      "", "W8A16", "W4A16", "FP8", "FP8_PER_CHANNEL_PER_TOKEN", "MIXED_PRECISION"};
  if (std::find(std::begin(kKnown), std::end(kKnown), out.quant_algo) == std::end(kKnown)) {
    quantization.fail(
        fmt::format("\"quant_algo\" is \"{}\", which is none of W8A16, W4A16, FP8, "
                    "FP8_PER_CHANNEL_PER_TOKEN, MIXED_PRECISION",
                    out.quant_algo));
  }
  if (const Result<void> read = quantization.result(); !read.ok()) {
    reader.fail(read.error().message);
  }
}

}  // namespace

OrderedJson to_checkpoint_json(const ModelConfig& config) {
  OrderedJson json;
  json["architecture"] = config.architecture;
  json["dtype"] = dtype_name(config.dtype);
  json["logits_dtype"] = "float32";
  json["vocab_size"] = config.vocab_size;
  json["hidden_size"] = config.hidden_size;
  json["intermediate_size"] = config.intermediate_size;
  json["num_hidden_layers"] = config.num_hidden_layers;
  json["num_attention_heads"] = config.num_attention_heads;
  json["num_key_value_heads"] = config.num_key_value_heads;
  json["head_size"] = config.head_size;
  json["hidden_act"] = config.hidden_act;
  json["norm_epsilon"] = config.norm_epsilon;
  json["qk_layernorm"] = false;
  json["position_embedding_type"] = config.rope.interleaved ? "rope_gptj" : "rope_gpt_neox";
  json["max_position_embeddings"] = config.max_position_embeddings;
  json["rotary_base"] = config.rope.base;
  json["rotary_dim"] = config.rope.rotary_dim;
  json["rotary_scaling"] = rope_scaling_json(config.rope);
  json["attn_bias"] = config.attn_bias;
  json["attn_dense_bias"] = config.attn_dense_bias;
  json["mlp_bias"] = config.mlp_bias;
  json["sliding_window"] = config.sliding_window;
  json["residual_mlp"] = false;
  json["use_parallel_embedding"] = false;
  json["share_embedding_table"] = config.share_embedding_table;
  json["mapping"] = mapping_json();
  json["quantization"] = quantization_json(config.quantization);
  json["eos_token_id"] = config.eos_token_ids;
  json["bos_token_id"] =
      config.bos_token_id < 0 ? OrderedJson(nullptr) : OrderedJson(config.bos_token_id);
  json["pad_token_id"] =
      config.pad_token_id < 0 ? OrderedJson(nullptr) : OrderedJson(config.pad_token_id);
  return json;
}

Result<ModelConfig> parse_checkpoint_config(const Json& json) {
  FieldReader reader(json, "config.json");
  ModelConfig config;
  std::string dtype;
  std::string position = "rope_gpt_neox";
  reader.string("architecture", config.architecture, true);
  reader.string("dtype", dtype, true);
  reader.integer("vocab_size", config.vocab_size, 1, kMaxVocab, true);
  reader.integer("hidden_size", config.hidden_size, 1, kMaxWidth, true);
  reader.integer("num_hidden_layers", config.num_hidden_layers, 1, kMaxLayers, true);
  reader.integer("num_attention_heads", config.num_attention_heads, 1, kMaxHeads, true);
  config.intermediate_size = 4 * config.hidden_size;
  reader.integer("intermediate_size", config.intermediate_size, 1, kMaxWidth);
  config.num_key_value_heads = config.num_attention_heads;
  reader.integer("num_key_value_heads", config.num_key_value_heads, 1, kMaxHeads);
  if (config.num_attention_heads > 0) {
    config.head_size = static_cast<int32_t>(config.hidden_size / config.num_attention_heads);
  }
  reader.integer("head_size", config.head_size, 1, kMaxWidth);
  reader.string("hidden_act", config.hidden_act);
  reader.number("norm_epsilon", config.norm_epsilon, 0.0, 1.0);
  reader.string("position_embedding_type", position);
  config.max_position_embeddings = 2048;
  reader.integer("max_position_embeddings", config.max_position_embeddings, 1, kMaxPositions);
  reader.number("rotary_base", config.rope.base, 1.0, 1e12);
  config.rope.rotary_dim = config.head_size;
  reader.integer("rotary_dim", config.rope.rotary_dim, 0, kMaxWidth);
  reader.boolean("attn_bias", config.attn_bias);
  reader.boolean("attn_dense_bias", config.attn_dense_bias);
  reader.boolean("mlp_bias", config.mlp_bias);
  reader.integer("sliding_window", config.sliding_window, 0, kMaxPositions);
  reader.boolean("share_embedding_table", config.share_embedding_table);
  reader.token_ids("eos_token_id", config.eos_token_ids);
  reader.integer("bos_token_id", config.bos_token_id, 0, kMaxVocab);
  reader.integer("pad_token_id", config.pad_token_id, 0, kMaxVocab);
  refuse_unsupported(reader);
  read_mapping(reader, json);
  read_quantization(reader, json, config.quantization);
  if (position != "rope_gpt_neox" && position != "rope_gptj") {
    reader.fail(fmt::format(
        "\"position_embedding_type\" is \"{}\", which is none of rope_gpt_neox, rope_gptj",
        position));
  }
  config.rope.interleaved = position == "rope_gptj";
  if (const Result<void> read = reader.result(); !read.ok()) {
    return read.error();
  }
  const Result<DType> parsed = parse_dtype(dtype);
  if (!parsed.ok()) {
    return parsed.error();
  }
  config.dtype = *parsed;
  if (reader.has("rotary_scaling")) {
    const Result<void> scaling =
        parse_rope_scaling(json["rotary_scaling"], config.max_position_embeddings, config.rope);
    if (!scaling.ok()) {
      return scaling.error();
    }
  }
  if (const Result<void> valid = validate(config); !valid.ok()) {
    return valid.error();
  }
  return config;
}

Result<void> validate(const ModelConfig& config) {
  const auto fault = [](std::string text) -> Error {
    return invalid_argument("[config] {}.", text);
  };
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    return fault(fmt::format("num_attention_heads {} is not a multiple of num_key_value_heads {}",
                             config.num_attention_heads, config.num_key_value_heads));
  }
  if (config.rope.rotary_dim % 2 != 0 || config.rope.rotary_dim > config.head_size) {
    return fault(fmt::format("rotary_dim {} is odd or above head_size {}", config.rope.rotary_dim,
                             config.head_size));
  }
  if (config.head_size > 512) {
    return fault(fmt::format("head_size is {}; at most 512 is supported", config.head_size));
  }
  if (int64_t{config.num_attention_heads} * config.head_size > kMaxWidth) {
    return fault(fmt::format("num_attention_heads x head_size is {}; at most {} is supported",
                             int64_t{config.num_attention_heads} * config.head_size, kMaxWidth));
  }
  if (config.hidden_act != "silu" && config.hidden_act != "gelu_pytorch_tanh") {
    return fault(
        fmt::format("hidden_act \"{}\" is none of silu, gelu_pytorch_tanh", config.hidden_act));
  }
  if (config.dtype != DType::kFloat32 && config.dtype != DType::kFloat16 &&
      config.dtype != DType::kBFloat16) {
    return fault(
        fmt::format("dtype {} is none of float32, float16, bfloat16", dtype_name(config.dtype)));
  }
  for (const int32_t id : config.eos_token_ids) {
    if (id >= config.vocab_size) {
      return fault(
          fmt::format("eos_token_id {} is not below vocab_size {}", id, config.vocab_size));
    }
  }
  return {};
}

}  // namespace zonda::models
