// SPDX-License-Identifier: Apache-2.0
#include "api/facts.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "api/model_text.h"
#include "base/error.h"
#include "convert/source.h"
#include "runtime/engine_info.h"

namespace zonda::api {
namespace {

// What the sections are made of, whatever the form of the model.
struct Facts {
  ModelSource source;
  models::ModelConfig config;
  Json original;            // the configuration as the source has it
  std::string config_from;  // "config.json", "GGUF metadata", "engine file"
  int64_t parameters = 0;
  int64_t weight_bytes = 0;
  std::string weight_from;
  std::optional<runtime::EngineInfo> engine;
  ModelText text;
};

OrderedJson entry(OrderedJson value, std::string_view from) {
  return {{"value", std::move(value)}, {"from", from}};
}

int64_t count_parameters(const models::ModelConfig& config) {
  const Result<const models::Architecture*> architecture =
      models::find_architecture(config.architecture);
  int64_t parameters = 0;
  if (architecture) {
    for (const models::WeightSpec& spec : (*architecture)->weights(config)) {
      parameters += spec.rows * std::max<int64_t>(spec.cols, 1);
    }
  }
  return parameters;
}

int64_t file_bytes(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

int64_t safetensors_bytes(const std::string& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    if (file.path().extension() == ".safetensors") {
      bytes += file_bytes(file.path().string());
    }
  }
  return bytes;
}

Result<void> read_model(Facts& facts) {
  Result<convert::Source> source = convert::open_source(facts.source.path);
  if (!source) {
    return source.error();
  }
  facts.config = source->config;
  facts.original = source->hf_config;
  facts.config_from = source->gguf ? "GGUF metadata" : "config.json";
  facts.weight_bytes = source->gguf ? file_bytes(source->path) : safetensors_bytes(source->path);
  facts.weight_from = source->gguf ? "size of the GGUF file" : "size of the safetensors files";
  return {};
}

Result<void> read_checkpoint(Facts& facts) {
  Result<Json> json = parse_json_file(facts.source.path + "/config.json");
  if (!json) {
    return json.error();
  }
  Result<models::ModelConfig> config = models::parse_checkpoint_config(*json);
  if (!config) {
    return config.error();
  }
  facts.config = std::move(*config);
  facts.original = std::move(*json);
  facts.config_from = "config.json";
  facts.weight_bytes = safetensors_bytes(facts.source.path);
  facts.weight_from = "size of the safetensors files";
  return {};
}

Result<void> read_engine(Facts& facts) {
  Result<runtime::EngineInfo> engine = runtime::read_engine_info(facts.source.path, true);
  if (!engine) {
    return engine.error();
  }
  Result<models::ModelConfig> config =
      models::parse_checkpoint_config(engine->plan.pretrained_config);
  if (!config) {
    return config.error();
  }
  facts.config = std::move(*config);
  facts.original = engine->plan.pretrained_config;
  facts.config_from = "engine file";
  facts.weight_bytes = engine->weight_bytes;
  facts.weight_from = "packed weights of the engine file";
  facts.engine = std::move(*engine);
  return {};
}

// Where a field of the unified names comes from in Hugging Face's configuration.
std::string origin_of(const std::string& field, const Facts& facts) {
  static const std::map<std::string, std::vector<std::string>> kHuggingFaceNames = {
      {"architecture", {"architectures"}},
      {"dtype", {"torch_dtype", "dtype"}},
      {"head_size", {"head_dim"}},
      {"norm_epsilon", {"rms_norm_eps"}},
      {"rotary_base", {"rope_theta", "rope_parameters"}},
      {"rotary_scaling", {"rope_scaling", "rope_parameters"}},
      {"attn_bias", {"attention_bias"}},
      {"share_embedding_table", {"tie_word_embeddings"}},
  };
  const auto renamed = kHuggingFaceNames.find(field);
  const std::vector<std::string> names =
      renamed == kHuggingFaceNames.end() ? std::vector<std::string>{field} : renamed->second;
  for (const std::string& name : names) {
    const auto found = facts.original.find(name);
    if (found != facts.original.end() && !found->is_null()) {
      return name == field ? facts.config_from : facts.config_from + ", " + name;
    }
  }
  return facts.original.contains(field) ? facts.config_from : "default of the architecture";
}

OrderedJson source_section(const Facts& facts) {
  std::error_code error;
  return {{"path", entry(std::filesystem::absolute(facts.source.path, error).string(), "given")},
          {"form", entry(source_kind_name(facts.source.kind), "content of the path")}};
}

OrderedJson model_section(const Facts& facts) {
  const OrderedJson unified = models::to_checkpoint_json(facts.config);
  OrderedJson section;
  for (const auto& [field, value] : unified.items()) {
    const bool shown = field != "mapping" && field != "eos_token_id" && field != "moe";
    if (shown) {
      section[field] = entry(value, origin_of(field, facts));
    }
  }
  section["parameters"] = entry(facts.parameters, "weights of the architecture");
  return section;
}

std::vector<int32_t> ids_of(const Json& config) {
  std::vector<int32_t> ids;
  const auto found = config.find("eos_token_id");
  if (found != config.end()) {
    for (const Json& id : found->is_array() ? *found : Json::array({*found})) {
      if (id.is_number_integer()) {
        ids.push_back(id.get<int32_t>());
      }
    }
  }
  return ids;
}

OrderedJson stop_section(const Facts& facts) {
  std::vector<int32_t> all = facts.config.eos_token_ids;
  OrderedJson parts;
  const auto add = [&](const std::string& from, const std::vector<int32_t>& ids) {
    add_ids(all, ids);
    parts[from] = ids;
  };
  add(facts.config_from, ids_of(facts.original));
  add("generation_config.json", facts.text.generation.end_ids);
  add("tokenizer_config.json",
      facts.text.tokenizer ? facts.text.tokenizer->eos_token_ids() : std::vector<int32_t>{});
  std::sort(all.begin(), all.end());
  OrderedJson section;
  section["stop_ids"] = entry(all, "union");
  for (const auto& [from, ids] : parts.items()) {
    if (!ids.empty()) {
      section["stop_ids of " + from] = entry(ids, from);
    }
  }
  return section;
}

OrderedJson sampling_section(const Facts& facts) {
  OrderedJson section;
  section["completions"] = entry("greedy", "default");
  const GenerationSettings& settings = facts.text.generation;
  const SamplingParams& chat = settings.sampling;
  OrderedJson values = OrderedJson::object();
  const auto add = [&](const char* name, const auto& value) {
    if (value) {
      values[name] = *value;
    }
  };
  add("temperature", chat.temperature);
  add("top_k", chat.top_k);
  add("top_p", chat.top_p);
  add("min_p", chat.min_p);
  if (chat.repetition_penalty != 1.0f) {
    values["repetition_penalty"] = chat.repetition_penalty;
  }
  section["chat"] =
      values.empty() ? entry("greedy", "default") : entry(values, "generation_config.json");
  section["max_output_len"] = entry("up to the sequence limit", "default");
  return section;
}

OrderedJson tokenizer_section(const Facts& facts) {
  OrderedJson section;
  const text::Tokenizer* tokenizer = facts.text.tokenizer.get();
  const std::string from =
      facts.source.kind == SourceKind::kGguf ? "GGUF metadata" : "tokenizer.json";
  section["tokenizer"] = entry(tokenizer != nullptr,
                               tokenizer != nullptr ? from : "no such file: only token ids work");
  if (tokenizer != nullptr) {
    section["vocabulary"] = entry(tokenizer->vocab_size(), from);
    section["bos_token_id"] = entry(
        tokenizer->bos_token_id() ? OrderedJson(*tokenizer->bos_token_id()) : OrderedJson(nullptr),
        from);
    section["chat_template"] = entry(facts.text.chat != nullptr,
                                     facts.text.chat ? "model" : "no template: --chat refuses");
  }
  return section;
}

OrderedJson memory_section(const Facts& facts) {
  const models::ModelConfig& config = facts.config;
  const int64_t element = config.dtype == DType::kFloat32 ? 4 : 2;
  int64_t per_token = int64_t{2} * config.num_hidden_layers * config.num_key_value_heads *
                      config.head_size * element;
  int64_t longest = config.max_position_embeddings;
  std::string kv_from = "layers, KV heads, head size and --kv_cache_dtype auto";
  if (facts.engine) {
    const engine::EnginePlan& plan = facts.engine->plan;
    per_token = plan.kv.block_bytes() / plan.kv.tokens_per_block;
    longest = plan.limits.max_seq_len;
    kv_from = "engine file";
  }
  const int64_t available = runtime::available_memory();
  const int64_t needed = facts.weight_bytes + per_token * longest;
  OrderedJson section;
  section["weight_bytes"] = entry(facts.weight_bytes, facts.weight_from);
  section["kv_bytes_per_token"] = entry(per_token, kv_from);
  section["kv_bytes_of_longest_sequence"] =
      entry(per_token * longest, fmt::format("{} tokens", longest));
  section["needed_bytes"] = entry(needed, "weights and the longest sequence");
  section["available_bytes"] = entry(available, "this machine now");
  section["fits"] = entry(needed <= available, "needed_bytes against available_bytes");
  return section;
}

OrderedJson engine_section(const runtime::EngineInfo& engine) {
  const engine::EnginePlan& plan = engine.plan;
  OrderedJson section;
  const auto add = [&](const char* name, OrderedJson value) {
    section[name] = entry(std::move(value), "engine file");
  };
  add("device", plan.device_fingerprint);
  add("file_bytes", engine.file_bytes);
  add("max_batch_size", plan.limits.max_batch_size);
  add("max_input_len", plan.limits.max_input_len);
  add("max_seq_len", plan.limits.max_seq_len);
  add("max_num_tokens", plan.limits.max_num_tokens);
  add("tokens_per_block", plan.limits.tokens_per_block);
  add("kv_cache_dtype", dtype_name(plan.kv.dtype));
  add("kv_block_bytes", plan.kv.block_bytes());
  std::map<std::string, int64_t> calls;
  std::map<std::string, int64_t> tactics;
  for (const engine::PlanCall& call : plan.calls) {
    ++calls[engine::call_name(call.call)];
    if (const auto* linear = std::get_if<engine::LinearCall>(&call.call)) {
      for (const std::string& tactic : linear->tactics) {
        ++tactics[tactic];
      }
    }
  }
  add("kernel_calls", OrderedJson(calls));
  add("tactics", OrderedJson(tactics));
  return section;
}

Result<void> read_texts(const std::string& tokenizer_dir, Facts& facts) {
  Result<TextFiles> files =
      tokenizer_dir.empty() ? read_text_files(facts.source) : read_text_files(tokenizer_dir);
  if (!files) {
    return files.error();
  }
  Result<ModelText> text = load_model_text(*files);
  if (!text) {
    return text.error();
  }
  facts.text = std::move(*text);
  return {};
}

Result<Facts> read_facts(const std::string& path, const std::string& tokenizer_dir) {
  Result<ModelSource> source = find_source(path);
  if (!source) {
    return source.error();
  }
  Facts facts;
  facts.source = std::move(*source);
  Result<void> read;
  switch (facts.source.kind) {
    case SourceKind::kModelFolder:
    case SourceKind::kGguf:
      read = read_model(facts);
      break;
    case SourceKind::kCheckpoint:
      read = read_checkpoint(facts);
      break;
    case SourceKind::kEngine:
      read = read_engine(facts);
      break;
  }
  if (read) {
    read = read_texts(tokenizer_dir, facts);
  }
  if (!read) {
    return read.error();
  }
  facts.parameters = count_parameters(facts.config);
  return facts;
}

}  // namespace

Result<OrderedJson> describe_model(const std::string& path, const std::string& tokenizer_dir) {
  Result<Facts> facts = read_facts(path, tokenizer_dir);
  if (!facts) {
    return facts.error();
  }
  OrderedJson json;
  json["source"] = source_section(*facts);
  json["model"] = model_section(*facts);
  json["stop"] = stop_section(*facts);
  json["sampling"] = sampling_section(*facts);
  json["tokenizer"] = tokenizer_section(*facts);
  json["memory"] = memory_section(*facts);
  if (facts->engine) {
    json["engine"] = engine_section(*facts->engine);
  }
  return json;
}

}  // namespace zonda::api
