// Reads tokenizer.json and tokenizer_config.json.
// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_parts.h"

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "text/fault.h"
#include "text/json_fields.h"

namespace zonda::text {
namespace {

const Json& field_or_null(const Json& object, const char* name) {
  static const Json null;
  const auto it = object.find(name);
  return it == object.end() ? null : *it;
}

// eos_token and bos_token are a string or an object with "content".
std::optional<std::string> token_name(const Json& config, const char* name) {
  const Json& json = field_or_null(config, name);
  const Json& content = json.is_object() ? field_or_null(json, "content") : json;
  if (content.is_null()) {
    return std::nullopt;
  }
  if (!content.is_string()) {
    throw Fault{corrupt("[tokenizer] tokenizer_config.json: {} is not a token.", name)};
  }
  return content.get<std::string>();
}

std::optional<int32_t> token_id(const Tokenizer::Parts& parts, const Json& config,
                                const char* name);

bool is_true(const Json& config, const char* name) {
  const Json& json = field_or_null(config, name);
  return json.is_boolean() && json.get<bool>();
}

// tokenizer.json written for a pre-tokenizer that rewrites bytes.
bool ends_with_byte_level(const Json& pre_tokenizer) {
  if (!pre_tokenizer.is_object()) {
    return false;
  }
  const Json& type = field_or_null(pre_tokenizer, "type");
  const Json& steps = field_or_null(pre_tokenizer, "pretokenizers");
  if (type == "Sequence" && steps.is_array() && !steps.empty()) {
    return ends_with_byte_level(steps.back());
  }
  return type == "ByteLevel";
}

void read_config(std::string_view text, Tokenizer::Parts& parts) {
  const Json config = value_or_fault(parse_json(text, "tokenizer_config.json"));
  if (!config.is_object()) {
    throw Fault{corrupt("[tokenizer] tokenizer_config.json is not an object.")};
  }
  if (const auto id = token_id(parts, config, "eos_token"); id.has_value()) {
    parts.eos_token_ids.push_back(*id);
  }
  parts.bos_token_id = token_id(parts, config, "bos_token");
  // Some files leave the wrapping to these switches instead of a post-processor.
  PostProcessor& post = parts.post_processor;
  if (is_true(config, "add_bos_token") && post.before.empty() && parts.bos_token_id.has_value()) {
    post.before.push_back({*parts.bos_token_id, *token_name(config, "bos_token")});
  }
  if (is_true(config, "add_eos_token") && post.after.empty() && !parts.eos_token_ids.empty()) {
    post.after.push_back({parts.eos_token_ids[0], *token_name(config, "eos_token")});
  }
}

std::optional<int32_t> token_id(const Tokenizer::Parts& parts, const Json& config,
                                const char* name) {
  const std::optional<std::string> token = token_name(config, name);
  if (!token.has_value()) {
    return std::nullopt;
  }
  const std::optional<int32_t> id = parts.token_to_id(*token);
  if (!id.has_value()) {
    log_warning("[tokenizer] {} \"{}\" of tokenizer_config.json is not a token of tokenizer.json.",
                name, *token);
  }
  return id;
}

}  // namespace

std::unique_ptr<Tokenizer::Parts> Tokenizer::Parts::parse(std::string_view tokenizer_json,
                                                          std::string_view tokenizer_config_json) {
  const Json json = value_or_fault(parse_json(tokenizer_json, "tokenizer.json"));
  Fields fields(json, "tokenizer.json");
  fields.ignore({"version"});
  for (const char* name : {"truncation", "padding"}) {
    if (fields.has(name)) {
      log_warning("[tokenizer] {} of tokenizer.json is a training option and is not applied.",
                  name);
    }
    fields.ignore({name});
  }
  const Json& model = fields.value("model");
  // The oldest files leave the type out; only BPE has merges.
  const std::string type = model.is_object() && !model.contains("type") && model.contains("merges")
                               ? "BPE"
                               : component_type(model, "model");
  if (type != "BPE") {
    throw_unsupported_component("model", type);
  }
  fields.ignore({"added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder"});
  fields.finish();

  auto parts = std::make_unique<Parts>();
  const Json& pre_tokenizer = field_or_null(json, "pre_tokenizer");
  parts->normalizer = parse_normalizer(field_or_null(json, "normalizer"));
  parts->model = BpeModel::parse(model, ends_with_byte_level(pre_tokenizer));
  parts->pre_tokenizers = parse_pre_tokenizers(pre_tokenizer, parts->model->takes_raw_bytes());
  parts->added = AddedTokens::parse(field_or_null(json, "added_tokens"), parts->model->vocabulary(),
                                    parts->normalizer.get());
  parts->post_processor = parse_post_processor(field_or_null(json, "post_processor"));
  parts->decoder =
      TokenDecoder::parse(field_or_null(json, "decoder"), parts->model->vocabulary(), parts->added);
  if (!tokenizer_config_json.empty()) {
    read_config(tokenizer_config_json, *parts);
  }
  return parts;
}

std::optional<int32_t> Tokenizer::Parts::token_to_id(std::string_view token) const {
  if (const AddedToken* known = added.find(token); known != nullptr) {
    return known->id;
  }
  const int32_t id = model->vocabulary().find(token);
  return id < 0 ? std::nullopt : std::optional(id);
}

}  // namespace zonda::text
