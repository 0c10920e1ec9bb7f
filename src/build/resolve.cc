// SPDX-License-Identifier: Apache-2.0
#include "build/resolve.h"

#include <cstdint>

#include "base/error.h"

namespace zonda::build {
namespace {

constexpr int64_t kMaxBatch = 65536;
constexpr int64_t kMaxTokensAStep = int64_t{1} << 20;

// Positions the model was made for; linear and dynamic scaling stretch max_position_embeddings by
// their factor.
int64_t model_positions(const models::ModelConfig& config) {
  const bool stretched = config.rope.scaling == models::RopeScaling::kLinear ||
                         config.rope.scaling == models::RopeScaling::kDynamic;
  const double factor = stretched ? static_cast<double>(config.rope.factor) : 1.0;
  return static_cast<int64_t>(static_cast<double>(config.max_position_embeddings) * factor);
}

Result<void> in_range(const char* option, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most) {
    return invalid_argument("[build] --{} is {}, expected {} to {}.", option, value, least, most);
  }
  return {};
}

}  // namespace

Result<engine::BuildLimits> resolve_limits(const BuildOptions& options,
                                           const models::ModelConfig& config) {
  const int64_t positions = model_positions(config);
  engine::BuildLimits limits;
  limits.max_batch_size = options.max_batch_size;
  limits.max_seq_len = options.max_seq_len == 0 ? positions : options.max_seq_len;
  limits.max_input_len = options.max_input_len == 0 ? std::max<int64_t>(limits.max_seq_len - 1, 1)
                                                    : options.max_input_len;
  limits.max_num_tokens = options.max_num_tokens;
  limits.max_beam_width = options.max_beam_width;
  limits.tokens_per_block = options.tokens_per_block;
  for (const Result<void>& checked :
       {in_range("max_batch_size", limits.max_batch_size, 1, kMaxBatch),
        in_range("max_seq_len", limits.max_seq_len, 1, positions),
        in_range("max_input_len", limits.max_input_len, 1, limits.max_seq_len),
        in_range("max_num_tokens", limits.max_num_tokens, 1, kMaxTokensAStep),
        in_range("max_beam_width", limits.max_beam_width, 1, 1),
        in_range("tokens_per_block", limits.tokens_per_block, 8, 128)}) {
    if (!checked.ok()) {
      return checked.error();
    }
  }
  if ((limits.tokens_per_block & (limits.tokens_per_block - 1)) != 0) {
    return invalid_argument("[build] --tokens_per_block is {}, expected a power of two.",
                            limits.tokens_per_block);
  }
  return limits;
}

Result<const engine::Backend*> resolve_backend(const std::string& device) {
  if (device == "auto") {
    const engine::Backend* cuda = engine::find_backend(device::DeviceKind::kCuda);
    return cuda != nullptr && cuda->present() ? cuda
                                              : engine::find_backend(device::DeviceKind::kCpu);
  }
  const Result<device::DeviceKind> kind = device::parse_device_kind(device);
  if (!kind.ok()) {
    return invalid_argument("[build] --device is \"{}\", expected auto, cpu or cuda.", device);
  }
  return engine::require_backend(*kind);
}

Result<engine::KvLayout> resolve_kv_layout(const BuildOptions& options,
                                           const models::ModelConfig& config,
                                           const engine::Backend& backend) {
  engine::KvLayout kv;
  kv.dtype = backend.kv_dtype(config.dtype);
  if (options.kv_cache_dtype != "auto") {
    const Result<DType> dtype = parse_dtype(options.kv_cache_dtype);
    if (!dtype.ok() || !backend.supports_kv_dtype(*dtype)) {
      std::string names = "auto";
      for (const DType known :
           {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3}) {
        names += backend.supports_kv_dtype(known) ? fmt::format(", {}", dtype_name(known)) : "";
      }
      return invalid_argument("[build] --kv_cache_dtype is \"{}\", expected one of {}.",
                              options.kv_cache_dtype, names);
    }
    kv.dtype = *dtype;
  }
  kv.num_layers = config.num_hidden_layers;
  kv.num_kv_heads = config.num_key_value_heads;
  kv.head_size = config.head_size;
  kv.tokens_per_block = options.tokens_per_block;
  return kv;
}

engine::RotaryPlan resolve_rotary(const models::ModelConfig& config) {
  const models::RopeConfig& rope = config.rope;
  const auto short_set = models::rope_frequencies(rope, config.max_position_embeddings, 1);
  engine::RotaryPlan plan;
  plan.rotary_dim = rope.rotary_dim;
  plan.interleaved = rope.interleaved;
  plan.attention_factor = short_set.attention_factor;
  plan.inv_freq = short_set.inv_freq;
  if (models::depends_on_length(rope)) {
    plan.threshold = rope.original_max_position_embeddings;
    if (rope.scaling == models::RopeScaling::kDynamic) {
      plan.ntk_base = rope.base;
      plan.ntk_factor = rope.factor;
    } else {
      plan.long_inv_freq =
          models::rope_frequencies(rope, config.max_position_embeddings, INT64_MAX).inv_freq;
    }
  }
  return plan;
}

}  // namespace zonda::build
