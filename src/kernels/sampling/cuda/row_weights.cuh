// Order, weight and bin of a logit, and what is asked of a row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/activation/exp.h"
#include "kernels/sampling/cuda/row_work.h"

namespace zonda::kernels::cuda {

__device__ __forceinline__ float minus_infinity() { return __int_as_float(0xff800000); }

// Larger for larger logits; equal for -0 and +0.
__device__ __forceinline__ uint32_t order_key(float logit) {
  const uint32_t bits = __float_as_uint(__fadd_rn(logit, 0.0f));
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float logit_of_key(uint32_t key) {
  return __uint_as_float((key & 0x80000000u) != 0 ? key ^ 0x80000000u : ~key);
}

// Logit and token in one: larger logits first, of equal ones lower tokens; never 0.
__device__ __forceinline__ uint64_t ranked(float logit, int32_t token) {
  return uint64_t{order_key(logit)} << 32 | (0xffffffffu - static_cast<uint32_t>(token));
}
__device__ __forceinline__ float logit_of(uint64_t entry) {
  return logit_of_key(static_cast<uint32_t>(entry >> 32));
}
__device__ __forceinline__ int32_t token_of(uint64_t entry) {
  return static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(entry));
}

// e^x for x <= 0: the operations of fast_exp (kernels/activation/exp.h), so with its bits.
__device__ __forceinline__ float exp_below_one(float x) {
  using K = ExpConstants;
  const float shifted = __fmaf_rn(x, K::kLog2E, K::kMagic);
  const float n = __fsub_rn(shifted, K::kMagic);
  float r = __fmaf_rn(-n, K::kLn2High, x);
  r = __fmaf_rn(-n, K::kLn2Low, r);
  float p = __fmaf_rn(r, K::kC6, K::kC5);
  p = __fmaf_rn(r, p, K::kC4);
  p = __fmaf_rn(r, p, K::kC3);
  p = __fmaf_rn(r, p, K::kC2);
  p = __fmaf_rn(r, p, 1.0f);
  p = __fmaf_rn(r, p, 1.0f);
  const float scale = __uint_as_float((__float_as_uint(shifted) + K::kExponentOffset) << 23);
  return x < K::kLowest ? 0.0f : __fmul_rn(__fmul_rn(p, scale), 2.0f);
}

// Weights are counted in units of 2^-38, so that a slice's sum fits two halves of 32 bits and the
// sum over a row is exact in any order.
inline constexpr int kMassBits = 38;
inline constexpr int kHalfMassBits = kMassBits / 2;
inline constexpr float kMassUnit = 0x1p38f;
// Distances, in temperatures, that bins cover: beyond the first, a weight is less than half a unit;
// log-probabilities rank tokens without weight too.
inline constexpr float kDrawReach = 27.1f;
inline constexpr float kLogprobReach = 64.0f;

struct RowWeights {
  float max;
  float temperature;
  float min_weight;
  float bins_per_unit;

  // Never increases as the logit falls; <= 0.
  __device__ __forceinline__ float distance(float logit) const {
    return __fdiv_rn(__fsub_rn(logit, max), temperature);
  }
  __device__ __forceinline__ uint64_t mass(float distance) const {
    const float weight = exp_below_one(distance);
    return weight < min_weight ? 0 : __float2ull_rn(weight * kMassUnit);
  }
  __device__ __forceinline__ uint64_t mass_of(float logit) const { return mass(distance(logit)); }
  // Never falls as the logit falls.
  __device__ __forceinline__ int bin(float distance) const {
    return static_cast<int>(fminf(-distance * bins_per_unit, static_cast<float>(kBins - 1)));
  }
  __device__ __forceinline__ int bin_of(float logit) const { return bin(distance(logit)); }
};

// What a row asks for.
struct RowTask {
  bool active;
  bool weighs;  // needs more than the largest logit
  DrawParams draw;

  __device__ __forceinline__ bool limits_mass() const {
    return draw.top_p > 0.0f && draw.top_p < 1.0f;
  }
  __device__ __forceinline__ bool filters() const { return draw.top_k > 0 || limits_mass(); }
};

template <bool kLogprobs>
__device__ __forceinline__ RowTask row_task(const RowPass& pass, int64_t row) {
  RowTask task = {};
  if constexpr (kLogprobs) {
    const int32_t top_n = min(pass.top_n[row], kMaxTopLogprobs);
    task.active =
        top_n >= 0 && static_cast<uint32_t>(pass.chosen[row]) < static_cast<uint32_t>(pass.vocab);
    task.weighs = task.active;
    task.draw.top_k = top_n;
    task.draw.temperature = 1.0f;
  } else {
    const RowMode mode = pass.rows[row].mode;
    task.active = mode != RowMode::kSkip;
    task.weighs = mode == RowMode::kDraw;
    if (task.weighs) {
      task.draw = pass.rows[row].draw;
    } else {
      task.draw.temperature = 1.0f;
    }
  }
  return task;
}

__device__ __forceinline__ RowWeights row_weights(const RowTask& task, const RowState& state) {
  return {state.max, task.draw.temperature, task.draw.min_p, state.bins_per_unit};
}

// A thread's logits of a slice, in packs of kWidth neighbours.
template <int kWidth>
struct SliceLogits {
  float logit[kPerThread];
  int32_t first;  // token of the slice

  __device__ __forceinline__ int32_t token(int i) const {
    return first + (i / kWidth * kThreads + static_cast<int32_t>(threadIdx.x)) * kWidth +
           i % kWidth;
  }

  // Tokens beyond the vocabulary get -infinity.
  __device__ __forceinline__ void load(const float* row, int slice, int32_t vocab) {
    first = slice * kSlice;
#pragma unroll
    for (int i = 0; i < kPerThread; i += kWidth) {
      const int32_t begin = token(i);
      if constexpr (kWidth == 4) {
        if (begin + 4 <= vocab) {
          const float4 four = *reinterpret_cast<const float4*>(row + begin);
          logit[i] = four.x;
          logit[i + 1] = four.y;
          logit[i + 2] = four.z;
          logit[i + 3] = four.w;
          continue;
        }
      }
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        logit[i + j] = begin + j < vocab ? row[begin + j] : minus_infinity();
      }
    }
  }
};

}  // namespace zonda::kernels::cuda
