// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "convert/source.h"
#include "text/utf8.h"

namespace zonda::convert {
namespace {

using checkpoint::GgufFile;
using checkpoint::GgufTensor;
using checkpoint::GgufValue;

// What this file reads or what changes no value of the model.
constexpr std::array<std::string_view, 22> kKnownKeys = {
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "vocab_size",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "rope.freq_base",
    "rope.dimension_count",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "rope.scaling.attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "attention.causal",
    "tensor_data_layout",
};

// A setting that says "none": 0, false.
bool is_neutral(const GgufValue& value) {
  if (const auto* number = std::get_if<uint64_t>(&value.data)) {
    return *number == 0;
  }
  if (const auto* number = std::get_if<int64_t>(&value.data)) {
    return *number == 0;
  }
  if (const auto* number = std::get_if<double>(&value.data)) {
    return *number == 0.0;
  }
  const auto* flag = std::get_if<bool>(&value.data);
  return flag != nullptr && !*flag;
}

// Moves metadata into config.json fields; the first fault is kept.
class ConfigMaker {
 public:
  ConfigMaker(const GgufFile& file, const models::Architecture& architecture,
              std::vector<std::string>& consumed)
      : file_(file), prefix_(std::string(architecture.gguf_name) + "."), consumed_(consumed) {
    json_["architectures"] = Json::array({architecture.hf_class});
    json_["torch_dtype"] = "bfloat16";
  }

  Result<Json> make() {
    refuse_unknown_keys();
    copy_sizes();
    copy_vocabulary();
    copy_rope();
    json_["tie_word_embeddings"] = !file_.tensors().contains("output.weight");
    json_["attention_bias"] = file_.tensors().contains("blk.0.attn_q.bias");
    json_["mlp_bias"] = file_.tensors().contains("blk.0.ffn_gate.bias");
    if (fault_) {
      return *fault_;
    }
    return std::move(json_);
  }

 private:
  void fail(Error error) {
    if (!fault_) {
      fault_ = std::move(error);
    }
  }
  bool has(std::string_view key) const { return file_.has(prefix_ + std::string(key)); }

  // The value, or 0 with a fault noted.
  int64_t integer(std::string_view key) {
    const Result<int64_t> value = file_.integer(prefix_ + std::string(key));
    if (!value.ok()) {
      fail(value.error());
      return 0;
    }
    return *value;
  }
  double number(std::string_view key) {
    const Result<double> value = file_.number(prefix_ + std::string(key));
    if (!value.ok()) {
      fail(value.error());
      return 0.0;
    }
    return *value;
  }
  // One value, or a list of equal ones (a value a layer).
  int64_t integer_of_layers(std::string_view key) {
    const Result<std::vector<int64_t>> list = file_.integers(prefix_ + std::string(key));
    if (!list.ok() || list->empty()) {
      return integer(key);
    }
    if (std::any_of(list->begin(), list->end(), [&](int64_t n) { return n != list->front(); })) {
      fail(unsupported("[convert] {}: metadata {}{} differs between layers.", file_.path(), prefix_,
                       key));
    }
    return list->front();
  }

  void refuse_unknown_keys() {
    for (const auto& [key, value] : file_.metadata()) {
      if (!key.starts_with(prefix_)) {
        continue;
      }
      const std::string_view name = std::string_view(key).substr(prefix_.size());
      const bool known = std::find(kKnownKeys.begin(), kKnownKeys.end(), name) != kKnownKeys.end();
      if (!known && !is_neutral(value)) {
        fail(unsupported("[convert] {}: metadata {} is not known to this version.", file_.path(),
                         text::to_valid_utf8(key)));
      }
    }
    const Result<int64_t> splits = file_.integer("split.count");
    if (splits.ok() && *splits > 1) {
      fail(unsupported("[convert] {} is one of {} files (split.count); merge them first.",
                       file_.path(), *splits));
    }
  }

  void copy_sizes() {
    json_["num_hidden_layers"] = integer("block_count");
    json_["max_position_embeddings"] = integer("context_length");
    json_["hidden_size"] = integer("embedding_length");
    json_["intermediate_size"] = integer_of_layers("feed_forward_length");
    const int64_t heads = integer_of_layers("attention.head_count");
    json_["num_attention_heads"] = heads;
    json_["num_key_value_heads"] =
        has("attention.head_count_kv") ? integer_of_layers("attention.head_count_kv") : heads;
    json_["rms_norm_eps"] = static_cast<float>(number("attention.layer_norm_rms_epsilon"));
    if (has("attention.key_length")) {
      head_size_ = integer("attention.key_length");
    } else if (heads > 0) {
      head_size_ = integer("embedding_length") / heads;
    }
    json_["head_dim"] = head_size_;
    if (has("attention.value_length") && integer("attention.value_length") != head_size_) {
      fail(unsupported("[convert] {}: {}attention.value_length {} differs from the key's {}.",
                       file_.path(), prefix_, integer("attention.value_length"), head_size_));
    }
  }

  void copy_vocabulary() {
    const auto table = file_.tensors().find("token_embd.weight");
    if (table == file_.tensors().end()) {
      fail(not_found("[convert] {} has no tensor token_embd.weight.", file_.path()));
      return;
    }
    json_["vocab_size"] = table->second.rows();
    copy_id("bos_token_id", "tokenizer.ggml.bos_token_id");
    copy_id("pad_token_id", "tokenizer.ggml.padding_token_id");
    Json ends = Json::array();
    for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                            "tokenizer.ggml.eom_token_id"}) {
      const Result<int64_t> id = file_.integer(key);
      if (id.ok() && std::find(ends.begin(), ends.end(), *id) == ends.end()) {
        ends.push_back(*id);
      }
    }
    json_["eos_token_id"] = ends;
  }

  void copy_id(const char* field, const char* key) {
    if (const Result<int64_t> id = file_.integer(key); id.ok()) {
      json_[field] = *id;
    }
  }

  void copy_rope() {
    json_["rope_theta"] = has("rope.freq_base") ? number("rope.freq_base") : 10000.0;
    if (has("rope.dimension_count") && integer("rope.dimension_count") != head_size_) {
      fail(unsupported("[convert] {}: {}rope.dimension_count {} differs from the head size {}.",
                       file_.path(), prefix_, integer("rope.dimension_count"), head_size_));
    }
    std::string type = "none";
    if (has("rope.scaling.type")) {
      const Result<std::string_view> text = file_.string(prefix_ + "rope.scaling.type");
      if (!text.ok()) {
        return fail(text.error());
      }
      type = *text;
    }
    if (type == "none" && has("rope.scale_linear") && number("rope.scale_linear") != 1.0) {
      json_["rope_scaling"] = {{"rope_type", "linear"}, {"factor", number("rope.scale_linear")}};
    } else if (type == "linear") {
      json_["rope_scaling"] = {{"rope_type", "linear"}, {"factor", number("rope.scaling.factor")}};
    } else if (type == "yarn") {
      copy_yarn();
    } else if (type != "none") {
      fail(unsupported("[convert] {}: {}rope.scaling.type \"{}\" is none of none, linear, yarn.",
                       file_.path(), prefix_, text::to_valid_utf8(type)));
    }
    copy_rope_factors();
  }

  void copy_yarn() {
    Json scaling = {{"rope_type", "yarn"}, {"factor", number("rope.scaling.factor")}};
    if (has("rope.scaling.original_context_length")) {
      scaling["original_max_position_embeddings"] = integer("rope.scaling.original_context_length");
    }
    if (has("rope.scaling.yarn_beta_fast")) {
      scaling["beta_fast"] = number("rope.scaling.yarn_beta_fast");
    }
    if (has("rope.scaling.yarn_beta_slow")) {
      scaling["beta_slow"] = number("rope.scaling.yarn_beta_slow");
    }
    if (has("rope.scaling.attn_factor") && number("rope.scaling.attn_factor") != 1.0) {
      fail(unsupported("[convert] {}: {}rope.scaling.attn_factor other than 1.", file_.path(),
                       prefix_));
    }
    json_["rope_scaling"] = std::move(scaling);
  }

  // Llama 3.1 files carry a divisor of each frequency: longrope with one list for every length.
  void copy_rope_factors() {
    const auto found = file_.tensors().find("rope_freqs.weight");
    if (found == file_.tensors().end()) {
      return;
    }
    consumed_.push_back("rope_freqs.weight");
    const GgufTensor& tensor = found->second;
    if (tensor.type != checkpoint::GgmlType::kF32 || tensor.rows() != 1 ||
        tensor.cols() != head_size_ / 2) {
      return fail(corrupt("[convert] {}: tensor rope_freqs.weight is not F32 [{}].", file_.path(),
                          head_size_ / 2));
    }
    std::vector<float> factors(static_cast<size_t>(tensor.cols()));
    std::memcpy(factors.data(), tensor.bytes.data(), tensor.bytes.size());
    for (const float factor : factors) {
      if (!std::isfinite(factor) || factor <= 0.0f) {
        return fail(corrupt("[convert] {}: tensor rope_freqs.weight holds {}, expected values > 0.",
                            file_.path(), factor));
      }
    }
    if (std::all_of(factors.begin(), factors.end(), [](float f) { return f == 1.0f; })) {
      return;
    }
    if (json_.contains("rope_scaling")) {
      return fail(unsupported("[convert] {}: rope_freqs.weight together with {}rope.scaling.type.",
                              file_.path(), prefix_));
    }
    json_["rope_scaling"] = {
        {"rope_type", "longrope"}, {"factor", 1.0},
        {"attention_factor", 1.0}, {"original_max_position_embeddings", integer("context_length")},
        {"short_factor", factors}, {"long_factor", factors}};
  }

  const GgufFile& file_;
  std::string prefix_;
  std::vector<std::string>& consumed_;
  Json json_ = Json::object();
  int64_t head_size_ = 0;
  std::optional<Error> fault_;
};

}  // namespace

Result<Json> gguf_config(const GgufFile& file, const models::Architecture& architecture,
                         std::vector<std::string>& consumed) {
  return ConfigMaker(file, architecture, consumed).make();
}

}  // namespace zonda::convert
