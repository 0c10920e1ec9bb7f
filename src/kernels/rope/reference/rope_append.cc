// Rotation and cache append in plain loops: the oracle of the tests and the portable kernel.
// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "kernels/rope/cpu/rope_append_token.h"

namespace zonda::kernels {
namespace {

void rotate_head(const RopeAppendParams& params, int64_t token, float* head) {
  const int32_t half = params.rotary_dim / 2;
  const int64_t set = params.frequency_sets == nullptr ? 0 : params.frequency_sets[token];
  for (int32_t i = 0; i < half; ++i) {
    const float angle =
        static_cast<float>(params.positions[token]) * params.inv_freq[set * half + i];
    float sine = 0.0f;
    float cosine = 0.0f;
    fast_sincos<Scalar>(angle, &sine, &cosine);
    sine *= params.attention_factor;
    cosine *= params.attention_factor;
    float& x = params.style == RopeStyle::kNeox ? head[i] : head[2 * i];
    float& y = params.style == RopeStyle::kNeox ? head[i + half] : head[2 * i + 1];
    const float rotated = x * cosine - y * sine;
    y = y * cosine + x * sine;
    x = rotated;
  }
}

void append_head(const float* from, const PagedKv& kv, int64_t offset) {
  for (int32_t i = 0; i < kv.head_size; ++i) {
    switch (kv.dtype) {
      case DType::kFloat32:
        static_cast<float*>(kv.base)[offset + i] = from[i];
        break;
      case DType::kBFloat16:
        static_cast<uint16_t*>(kv.base)[offset + i] = float_to_bf16(from[i]);
        break;
      default:
        static_cast<uint16_t*>(kv.base)[offset + i] = float_to_f16(from[i]);
        break;
    }
  }
}

}  // namespace

void rope_append_tokens_reference(const RopeAppendParams& params, int64_t begin, int64_t end) {
  const PagedKv& kv = params.kv;
  for (int64_t token = begin; token < end; ++token) {
    float* q = params.qkv + token * params.qkv_stride;
    if (params.style != RopeStyle::kNone) {
      for (int32_t head = 0; head < params.num_heads + kv.num_kv_heads; ++head) {
        rotate_head(params, token, q + int64_t{head} * kv.head_size);
      }
    }
    const int64_t slot = params.slots[token];
    for (int32_t head = 0; slot >= 0 && head < kv.num_kv_heads; ++head) {
      const float* k = q + int64_t{params.num_heads + head} * kv.head_size;
      const float* v = k + int64_t{kv.num_kv_heads} * kv.head_size;
      append_head(k, kv, kv_element_offset(kv, slot, 0, head));
      append_head(v, kv, kv_element_offset(kv, slot, 1, head));
    }
  }
}

void rope_append_reference(const RopeAppendParams& params) {
  rope_append_tokens_reference(params, 0, params.num_tokens);
}

}  // namespace zonda::kernels
