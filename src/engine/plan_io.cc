// A plan as JSON: one list of fields a struct serves writing and reading.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <concepts>
#include <limits>

#include "base/error.h"
#include "engine/plan.h"

namespace zonda::engine {
namespace {

// Stores each field under its name.
class Writer {
 public:
  template <typename T>
  void operator()(const char* name, T& value) {
    json_[name] = to_json(value);
  }
  template <typename T>
  static Json to_json(T& value);
  Json take() { return std::move(json_); }

 private:
  Json json_ = Json::object();
};

// Reads each field by its name; remembers the first fault.
class Reader {
 public:
  Reader(const Json& json, std::string& fault) : json_(json), fault_(fault) {}

  template <typename T>
  void operator()(const char* name, T& value) {
    if (!fault_.empty()) {
      return;
    }
    const auto found = json_.is_object() ? json_.find(name) : json_.end();
    if (found == json_.end()) {
      fault_ = fmt::format("field \"{}\" is missing", name);
      return;
    }
    from_json(*found, value, fault_);
    if (!fault_.empty() && !fault_.starts_with("field")) {
      fault_ = fmt::format("field \"{}\" {}", name, fault_);
    }
  }
  template <typename T>
  static void from_json(const Json& json, T& value, std::string& fault);

 private:
  const Json& json_;
  std::string& fault_;
};

template <typename Ar>
void fields(Ar& ar, BuildLimits& v) {
  ar("max_batch_size", v.max_batch_size);
  ar("max_input_len", v.max_input_len);
  ar("max_seq_len", v.max_seq_len);
  ar("max_num_tokens", v.max_num_tokens);
  ar("max_beam_width", v.max_beam_width);
  ar("tokens_per_block", v.tokens_per_block);
}
template <typename Ar>
void fields(Ar& ar, KvLayout& v) {
  ar("dtype", v.dtype);
  ar("num_layers", v.num_layers);
  ar("num_kv_heads", v.num_kv_heads);
  ar("head_size", v.head_size);
  ar("tokens_per_block", v.tokens_per_block);
}
template <typename Ar>
void fields(Ar& ar, RotaryPlan& v) {
  ar("rotary_dim", v.rotary_dim);
  ar("interleaved", v.interleaved);
  ar("attention_factor", v.attention_factor);
  ar("inv_freq", v.inv_freq);
  ar("threshold", v.threshold);
  ar("long_inv_freq", v.long_inv_freq);
  ar("ntk_base", v.ntk_base);
  ar("ntk_factor", v.ntk_factor);
}
template <typename Ar>
void fields(Ar& ar, WeightType& v) {
  ar("format", v.format);
  ar("rows", v.rows);
  ar("cols", v.cols);
  ar("group_size", v.group_size);
  ar("has_minimum", v.has_minimum);
}
template <typename Ar>
void fields(Ar& ar, kernels::PackedType& v) {
  ar("type", v.type);
  ar("order", v.order);
}
template <typename Ar>
void fields(Ar& ar, PlanMatrix& v) {
  ar("sources", v.sources);
  ar("packed", v.packed);
  ar("offset", v.offset);
  ar("bytes", v.bytes);
}
template <typename Ar>
void fields(Ar& ar, PlanVector& v) {
  ar("sources", v.sources);
  ar("size", v.size);
  ar("offset", v.offset);
}
template <typename Ar>
void fields(Ar& ar, PlanSlot& v) {
  ar("columns", v.columns);
  ar("selected_rows", v.selected_rows);
}
template <typename Ar>
void fields(Ar& ar, EmbeddingCall& v) {
  ar("matrix", v.matrix);
  ar("y", v.y);
}
template <typename Ar>
void fields(Ar& ar, RmsNormCall& v) {
  ar("x", v.x);
  ar("y", v.y);
  ar("vector", v.vector);
  ar("eps", v.eps);
}
template <typename Ar>
void fields(Ar& ar, LinearCall& v) {
  ar("x", v.x);
  ar("y", v.y);
  ar("residual", v.residual);
  ar("matrix", v.matrix);
  ar("bias", v.bias);
  ar("epilogue", v.epilogue);
  ar("tactics", v.tactics);
}
template <typename Ar>
void fields(Ar& ar, RopeAppendCall& v) {
  ar("qkv", v.qkv);
  ar("layer", v.layer);
  ar("rotate", v.rotate);
  ar("append", v.append);
}
template <typename Ar>
void fields(Ar& ar, AttentionCall& v) {
  ar("qkv", v.qkv);
  ar("y", v.y);
  ar("layer", v.layer);
  ar("scale", v.scale);
  ar("window", v.window);
  ar("soft_cap", v.soft_cap);
}
template <typename Ar>
void fields(Ar& ar, AddCall& v) {
  ar("a", v.a);
  ar("b", v.b);
  ar("y", v.y);
}
template <typename Ar>
void fields(Ar& ar, GatedCall& v) {
  ar("a", v.a);
  ar("b", v.b);
  ar("y", v.y);
  ar("gelu_tanh", v.gelu_tanh);
}
template <typename Ar>
void fields(Ar& ar, SelectCall& v) {
  ar("x", v.x);
  ar("y", v.y);
}
template <typename Ar>
void fields(Ar& ar, PlanCall& v) {
  ar("name", v.name);
  ar("call", v.call);
}
template <typename Ar>
void fields(Ar& ar, EnginePlan& v) {
  ar("device", v.device);
  ar("activation", v.activation);
  ar("device_fingerprint", v.device_fingerprint);
  ar("pretrained_config", v.pretrained_config);
  ar("checkpoint_dir", v.checkpoint_dir);
  ar("random_seed", v.random_seed);
  ar("limits", v.limits);
  ar("kv", v.kv);
  ar("rotary", v.rotary);
  ar("num_heads", v.num_heads);
  ar("vocab_size", v.vocab_size);
  ar("matrices", v.matrices);
  ar("vectors", v.vectors);
  ar("slots", v.slots);
  ar("calls", v.calls);
  ar("logits_slot", v.logits_slot);
}

// Names of the enums in a plan.
template <typename E>
struct EnumNames;
template <>
struct EnumNames<DType> {
  static std::string_view name(DType value) { return dtype_name(value); }
  static Result<DType> parse(std::string_view text) { return parse_dtype(text); }
};
template <>
struct EnumNames<device::DeviceKind> {
  static std::string_view name(device::DeviceKind value) { return device::device_kind_name(value); }
  static Result<device::DeviceKind> parse(std::string_view text) {
    return device::parse_device_kind(text);
  }
};
template <>
struct EnumNames<WeightFormat> {
  static std::string_view name(WeightFormat value) { return weight_format_name(value); }
  static Result<WeightFormat> parse(std::string_view text) { return parse_weight_format(text); }
};
template <typename E, size_t N>
Result<E> parse_listed(const std::array<std::string_view, N>& names, std::string_view text) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) {
    return corrupt("is \"{}\", an unknown name", text);
  }
  return static_cast<E>(found - names.begin());
}
template <>
struct EnumNames<kernels::RowOrder> {
  static constexpr std::array<std::string_view, 2> kNames = {"stacked", "interleaved"};
  static std::string_view name(kernels::RowOrder value) {
    return kNames[static_cast<size_t>(value)];
  }
  static Result<kernels::RowOrder> parse(std::string_view text) {
    return parse_listed<kernels::RowOrder>(kNames, text);
  }
};
template <>
struct EnumNames<kernels::Epilogue> {
  static constexpr std::array<std::string_view, 4> kNames = {"store", "add_residual", "gated_silu",
                                                             "gated_gelu_tanh"};
  static std::string_view name(kernels::Epilogue value) {
    return kNames[static_cast<size_t>(value)];
  }
  static Result<kernels::Epilogue> parse(std::string_view text) {
    return parse_listed<kernels::Epilogue>(kNames, text);
  }
};

template <typename T>
concept Listed = requires(T& value) {
  value.begin();
}
&&!std::same_as<T, std::string> && !std::same_as<T, Json>;
template <typename T>
concept Growing = Listed<T> && requires(T& value) {
  value.emplace_back();
};

template <typename T>
Json Writer::to_json(T& value) {
  if constexpr (std::is_enum_v<T>) {
    return std::string(EnumNames<T>::name(value));
  } else if constexpr (std::is_arithmetic_v<T> || std::same_as<T, std::string> ||
                       std::same_as<T, Json>) {
    return value;
  } else if constexpr (std::same_as<T, Call>) {
    Json json = std::visit([](auto& call) { return to_json(call); }, value);
    json["op"] = call_name(value);
    return json;
  } else if constexpr (Listed<T>) {
    Json list = Json::array();
    for (auto& element : value) {
      list.push_back(to_json(element));
    }
    return list;
  } else {
    Writer writer;
    fields(writer, value);
    return writer.take();
  }
}

template <typename T>
void read_number(const Json& json, T& value, std::string& fault) {
  if constexpr (std::floating_point<T>) {
    if (!json.is_number()) {
      fault = "is not a number";
      return;
    }
    value = json.get<T>();
  } else {
    const bool fits = json.is_number_integer() &&
                      !(json.is_number_unsigned() && json.get<uint64_t>() > uint64_t{INT64_MAX}) &&
                      json.get<int64_t>() >= std::numeric_limits<T>::min() &&
                      json.get<int64_t>() <= std::numeric_limits<T>::max();
    if (!fits) {
      fault = "is not an integer of its range";
      return;
    }
    value = static_cast<T>(json.get<int64_t>());
  }
}

template <size_t I = 0>
void read_call(const Json& json, Call& call, std::string& fault) {
  if constexpr (I < std::variant_size_v<Call>) {
    Call candidate(std::in_place_index<I>);
    if (json.is_object() && json.value("op", "") == call_name(candidate)) {
      Reader reader(json, fault);
      fields(reader, std::get<I>(candidate));
      call = std::move(candidate);
      return;
    }
    read_call<I + 1>(json, call, fault);
  } else {
    fault = "names no known kernel call";
  }
}

template <typename T>
void Reader::from_json(const Json& json, T& value, std::string& fault) {
  if constexpr (std::is_enum_v<T>) {
    const auto parsed =
        EnumNames<T>::parse(json.is_string() ? json.get<std::string>() : std::string());
    if (!parsed.ok()) {
      fault = "is not a known name";
      return;
    }
    value = *parsed;
  } else if constexpr (std::same_as<T, bool>) {
    fault = json.is_boolean() ? "" : "is not true or false";
    value = json.is_boolean() && json.get<bool>();
  } else if constexpr (std::is_arithmetic_v<T>) {
    read_number(json, value, fault);
  } else if constexpr (std::same_as<T, std::string>) {
    fault = json.is_string() ? "" : "is not a string";
    value = json.is_string() ? json.get<std::string>() : std::string();
  } else if constexpr (std::same_as<T, Json>) {
    value = json;
  } else if constexpr (std::same_as<T, Call>) {
    read_call(json, value, fault);
  } else if constexpr (Listed<T>) {
    if (!json.is_array()) {
      fault = "is not a list";
      return;
    }
    if constexpr (Growing<T>) {
      value.resize(json.size());
    }
    if (json.size() != value.size()) {
      fault = fmt::format("has {} elements, expected {}", json.size(), value.size());
      return;
    }
    for (size_t i = 0; i < value.size() && fault.empty(); ++i) {
      from_json(json[i], value[i], fault);
    }
  } else {
    Reader reader(json, fault);
    fields(reader, value);
  }
}

}  // namespace

const char* call_name(const Call& call) {
  constexpr std::array kNames = {"embedding", "rms_norm", "linear", "rope_append",
                                 "attention", "add",      "gated",  "select"};
  static_assert(kNames.size() == std::variant_size_v<Call>);
  return kNames[call.index()];
}

int32_t token_bucket(int64_t num_tokens) {
  int32_t bucket = 0;
  while (num_tokens > kBucketTokens[static_cast<size_t>(bucket)]) {
    ++bucket;
  }
  return bucket;
}

Json plan_to_json(const EnginePlan& plan) {
  EnginePlan copy = plan;  // the field lists take mutable references; a plan is small
  return Writer::to_json(copy);
}

Result<EnginePlan> plan_from_json(const Json& json) {
  EnginePlan plan;
  std::string fault;
  Reader::from_json(json, plan, fault);
  if (!fault.empty()) {
    return corrupt("[plan] {}.", fault);
  }
  return plan;
}

}  // namespace zonda::engine
