// SPDX-License-Identifier: Apache-2.0
#include "models/quantization_config.h"

#include "base/error.h"

namespace zonda::models {
namespace {

constexpr std::string_view kTensor = "FP8";
constexpr std::string_view kChannel = "FP8_PER_CHANNEL_PER_TOKEN";

Error refused(std::string_view key, const Json& value, std::string_view expected) {
  return unsupported("[config] \"quantization_config\": \"{}\" is {}; {}.", key, dump_json(value),
                     expected);
}

Json member(const Json& json, std::string_view key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return json.is_object() && found != json.end() ? *found : Json();
}

QuantizationConfig named(std::string_view algorithm) {
  QuantizationConfig config;
  config.quant_algo = algorithm;
  return config;
}

// All groups alike: 8-bit floats, one scale of the tensor or of each row.
Result<QuantizationConfig> compressed_tensors(const Json& json) {
  const Json groups = member(json, "config_groups");
  if (!groups.is_object() || groups.empty()) {
    return refused("config_groups", groups, "expected an object of groups");
  }
  bool by_channel = false;
  for (const auto& [name, group] : groups.items()) {
    const Json weights = member(group, "weights");
    if (member(weights, "type") != "float" || member(weights, "num_bits") != 8) {
      return refused("config_groups." + name + ".weights", weights,
                     "only 8-bit float weights are read");
    }
    const Json strategy = member(weights, "strategy");
    if (strategy != "tensor" && strategy != "channel") {
      return refused("config_groups." + name + ".weights.strategy", strategy,
                     "only tensor and channel are supported");
    }
    by_channel = by_channel || strategy == "channel";
  }
  return named(by_channel ? kChannel : kTensor);
}

}  // namespace

Result<QuantizationConfig> parse_hf_quantization(const Json& json) {
  const Json method = member(json, "quant_method");
  if (method == "compressed-tensors") {
    return compressed_tensors(json);
  }
  if (method == "fp8") {
    const Json block = member(json, "weight_block_size");
    return block.is_null() ? Result<QuantizationConfig>(named(kTensor))
                           : refused("weight_block_size", block,
                                     "scales of two-dimensional blocks are not supported");
  }
  if (method == "fbgemm_fp8") {
    return named(kChannel);
  }
  if (method == "modelopt") {
    const Json algorithm = member(json, "quant_algo");
    return algorithm == "FP8" || algorithm == std::string(kChannel)
               ? Result<QuantizationConfig>(named(algorithm.get<std::string>()))
               : refused("quant_algo", algorithm,
                         "only FP8 and FP8_PER_CHANNEL_PER_TOKEN are read");
  }
  return refused("quant_method", method,
                 "quantised folders are read only if their weights are fp8 (compressed-tensors, "
                 "modelopt, fp8, fbgemm_fp8)");
}

}  // namespace zonda::models
