// Rotation and cache append of one token over a vector type; the files named after instruction sets
// instantiate it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/rope/kv_layout.h"
#include "kernels/rope/rope.h"
#include "kernels/rope/sincos.h"

namespace zonda::kernels {

// Tokens [begin, end) of params.
using RopeAppendTokens = void (*)(const RopeAppendParams& params, int64_t begin, int64_t end);

void rope_append_tokens_avx2(const RopeAppendParams& params, int64_t begin, int64_t end);
void rope_append_tokens_avx512(const RopeAppendParams& params, int64_t begin, int64_t end);
void rope_append_tokens_reference(const RopeAppendParams& params, int64_t begin, int64_t end);

// A pair (x, y) becomes (x cos - y sin, y cos + x sin): two products and one addition, as
// transformers rounds it. Pairs go in chunks, so that cos and sin of a chunk serve all heads.
template <class V>
class RopeToken {
 public:
  RopeToken(const RopeAppendParams& params, int64_t token) : params_(params) {
    const int64_t set = params.frequency_sets == nullptr ? 0 : params.frequency_sets[token];
    half_ = params.rotary_dim / 2;
    inv_freq_ = params.inv_freq + set * half_;
    position_ = static_cast<float>(params.positions[token]);
  }

  // qk: the token's q heads and k heads, one after the other.
  void rotate(float* qk) {
    const int32_t heads = params_.num_heads + params_.kv.num_kv_heads;
    for (int32_t first = 0; first < half_; first += kChunk) {
      const int32_t pairs = half_ - first < kChunk ? half_ - first : kChunk;
      fill_angles(first, pairs);
      for (int32_t head = 0; head < heads; ++head) {
        float* at = qk + int64_t{head} * params_.kv.head_size;
        if (params_.style == RopeStyle::kNeox) {
          rotate_halves(at + first, at + half_ + first, pairs);
        } else {
          rotate_neighbours(at + 2 * first, pairs);
        }
      }
    }
  }

 private:
  static constexpr int32_t kChunk = 32;

  void fill_angles(int32_t first, int32_t pairs) {
    float frequency[kChunk] = {};
    std::memcpy(frequency, inv_freq_ + first, static_cast<size_t>(pairs) * sizeof(float));
    const auto position = V::set1(position_);
    const auto factor = V::set1(params_.attention_factor);
    for (int32_t i = 0; i < pairs; i += V::kLanes) {
      typename V::F sine;
      typename V::F cosine;
      fast_sincos<V>(V::mul(position, V::load(frequency + i)), &sine, &cosine);
      V::store(sin_ + i, V::mul(sine, factor));
      V::store(cos_ + i, V::mul(cosine, factor));
    }
  }

  void rotate_halves(float* x, float* y, int32_t pairs) const {
    int32_t i = 0;
    for (; i + V::kLanes <= pairs; i += V::kLanes) {
      const auto c = V::load(cos_ + i);
      const auto s = V::load(sin_ + i);
      const auto a = V::load(x + i);
      const auto b = V::load(y + i);
      V::store(x + i, V::sub(V::mul(a, c), V::mul(b, s)));
      V::store(y + i, V::add(V::mul(b, c), V::mul(a, s)));
    }
    for (; i < pairs; ++i) {
      const float a = x[i];
      const float b = y[i];
      x[i] = a * cos_[i] - b * sin_[i];
      y[i] = b * cos_[i] + a * sin_[i];
    }
  }

  void rotate_neighbours(float* xy, int32_t pairs) const {
    for (int32_t i = 0; i < pairs; ++i) {
      const float a = xy[2 * i];
      const float b = xy[2 * i + 1];
      xy[2 * i] = a * cos_[i] - b * sin_[i];
      xy[2 * i + 1] = b * cos_[i] + a * sin_[i];
    }
  }

  const RopeAppendParams& params_;
  const float* inv_freq_ = nullptr;
  int32_t half_ = 0;
  float position_ = 0.0f;
  alignas(64) float cos_[kChunk];
  alignas(64) float sin_[kChunk];
};

// Narrows one head's row of float32 into the cache; the tail goes through a padded copy.
template <class V, typename Narrow>
void append_row_16bit(const float* from, uint16_t* to, int32_t size, Narrow&& narrow) {
  int32_t i = 0;
  for (; i + V::kLanes <= size; i += V::kLanes) {
    narrow(to + i, V::load(from + i));
  }
  if (i < size) {
    float padded[V::kLanes] = {};
    uint16_t narrowed[V::kLanes];
    const auto rest = static_cast<size_t>(size - i);
    std::memcpy(padded, from + i, rest * sizeof(float));
    narrow(narrowed, V::load(padded));
    std::memcpy(to + i, narrowed, rest * sizeof(uint16_t));
  }
}

template <class V>
void append_row(const float* from, const PagedKv& kv, int64_t offset) {
  if (kv.dtype == DType::kFloat32) {
    std::memcpy(static_cast<float*>(kv.base) + offset, from,
                static_cast<size_t>(kv.head_size) * sizeof(float));
    return;
  }
  uint16_t* to = static_cast<uint16_t*>(kv.base) + offset;
  if (kv.dtype == DType::kBFloat16) {
    append_row_16bit<V>(from, to, kv.head_size, V::store_bf16);
  } else {
    append_row_16bit<V>(from, to, kv.head_size, V::store_f16);
  }
}

template <class V>
void rope_append_tokens(const RopeAppendParams& params, int64_t begin, int64_t end) {
  const PagedKv& kv = params.kv;
  for (int64_t token = begin; token < end; ++token) {
    float* q = params.qkv + token * params.qkv_stride;
    if (params.style != RopeStyle::kNone) {
      RopeToken<V>(params, token).rotate(q);
    }
    const int64_t slot = params.slots[token];
    if (slot < 0) {
      continue;
    }
    const float* k = q + int64_t{params.num_heads} * kv.head_size;
    const float* v = k + int64_t{kv.num_kv_heads} * kv.head_size;
    for (int32_t head = 0; head < kv.num_kv_heads; ++head) {
      const int64_t from = int64_t{head} * kv.head_size;
      append_row<V>(k + from, kv, kv_element_offset(kv, slot, 0, head));
      append_row<V>(v + from, kv, kv_element_offset(kv, slot, 1, head));
    }
  }
}

}  // namespace zonda::kernels
