// The two passes over a row of logits that are worth vector instructions, over a vector type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/activation/exp.h"
#include "kernels/vector/lanes16.h"

namespace zonda::kernels {

// Logits are taken in blocks; the last one may be shorter.
inline constexpr int64_t kSampleBlock = 64;

struct SoftmaxScale {
  float max;          // largest logit
  float temperature;  // > 0
  float min_weight;   // weights below count as 0
};

struct RowScanKernel {
  // block_max[b] is the largest logit of block b. Returns false if a logit is NaN or +infinity.
  bool (*block_max)(const float* logits, int64_t size, float* block_max);
  // block_sum[b] is the sum over block b of weight = exp((logit - max) / temperature): element i to
  // lane i mod 16 in order, lanes added as a tree.
  void (*block_sum)(const float* logits, int64_t size, const SoftmaxScale& scale, float* block_sum);
  // Replaces logits by their weights; `size` is a multiple of 16.
  void (*to_weights)(float* logits, int64_t size, const SoftmaxScale& scale);
};

extern const RowScanKernel kRowScanPortable;
extern const RowScanKernel kRowScanAvx2;
extern const RowScanKernel kRowScanAvx512;

template <class V>
typename V::F softmax_weight(typename V::F logit, const SoftmaxScale& scale) {
  const auto distance = V::sub(logit, V::set1(scale.max));
  const auto weight = fast_exp<V>(V::div(distance, V::set1(scale.temperature)));
  return V::select(V::less(weight, V::set1(scale.min_weight)), V::set1(0.0f), weight);
}

// Calls body(block, logits of the block) with the last block padded by -infinity.
template <typename Body>
void for_sample_blocks(const float* logits, int64_t size, Body&& body) {
  const int64_t whole = size / kSampleBlock;
  for (int64_t block = 0; block < whole; ++block) {
    body(block, logits + block * kSampleBlock);
  }
  if (whole * kSampleBlock < size) {
    float tail[kSampleBlock];
    for (int64_t i = 0; i < kSampleBlock; ++i) {
      const int64_t at = whole * kSampleBlock + i;
      tail[i] = at < size ? logits[at] : -std::numeric_limits<float>::infinity();
    }
    body(whole, tail);
  }
}

template <class V>
bool row_block_max(const float* logits, int64_t size, float* block_max) {
  using Lanes = Lanes16<V>;
  const auto infinity = V::set1(std::numeric_limits<float>::infinity());
  const auto one = V::set1(1.0f);
  auto bad = V::set1(0.0f);
  for_sample_blocks(logits, size, [&](int64_t block, const float* from) {
    Lanes top = Lanes::set1(-std::numeric_limits<float>::infinity());
    for (int64_t i = 0; i < kSampleBlock; i += Lanes::kLanes) {
      for (int r = 0; r < Lanes::kRegisters; ++r) {
        const auto value = V::load(from + i + r * V::kLanes);
        bad = V::select(V::less(value, infinity), bad, one);
        top.reg[r] = V::max(value, top.reg[r]);
      }
    }
    block_max[block] = top.max();
  });
  alignas(64) float lane[V::kLanes];
  V::store(lane, bad);
  for (const float value : lane) {
    if (value != 0.0f) {
      return false;
    }
  }
  return true;
}

template <class V>
void row_block_sum(const float* logits, int64_t size, const SoftmaxScale& scale, float* block_sum) {
  using Lanes = Lanes16<V>;
  for_sample_blocks(logits, size, [&](int64_t block, const float* from) {
    Lanes sum = Lanes::set1(0.0f);
    for (int64_t i = 0; i < kSampleBlock; i += Lanes::kLanes) {
      for (int r = 0; r < Lanes::kRegisters; ++r) {
        const auto weight = softmax_weight<V>(V::load(from + i + r * V::kLanes), scale);
        sum.reg[r] = V::add(sum.reg[r], weight);
      }
    }
    block_sum[block] = sum.tree_sum();
  });
}

template <class V>
void row_to_weights(float* logits, int64_t size, const SoftmaxScale& scale) {
  for (int64_t i = 0; i < size; i += V::kLanes) {
    V::store(logits + i, softmax_weight<V>(V::load(logits + i), scale));
  }
}

}  // namespace zonda::kernels
