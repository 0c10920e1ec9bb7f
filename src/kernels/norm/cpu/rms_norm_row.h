// One row of RMSNorm over a vector type; the files named after instruction sets instantiate it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/vector/lanes16.h"

namespace zonda::kernels {

// x, weight, y: [size]; y may alias x.
using RmsNormRow = void (*)(const float* x, const float* weight, float* y, int64_t size, float eps);

void rms_norm_row_avx2(const float* x, const float* weight, float* y, int64_t size, float eps);
void rms_norm_row_avx512(const float* x, const float* weight, float* y, int64_t size, float eps);
void rms_norm_row_reference(const float* x, const float* weight, float* y, int64_t size, float eps);

// The sum of squares: element i goes by fma into lane i mod 16, in order of i; then the lanes are
// added as a tree (Lanes16::tree_sum). y = (x * inverse) * weight.
template <class V>
void rms_norm_row(const float* x, const float* weight, float* y, int64_t size, float eps) {
  using Lanes = Lanes16<V>;
  const int64_t whole = size - size % Lanes::kLanes;
  Lanes sum = Lanes::set1(0.0f);
  const auto add_squares = [&sum](const float* from) {
    for (int r = 0; r < Lanes::kRegisters; ++r) {
      const auto value = V::load(from + r * V::kLanes);
      sum.reg[r] = V::fma(value, value, sum.reg[r]);
    }
  };
  for (int64_t i = 0; i < whole; i += Lanes::kLanes) {
    add_squares(x + i);
  }
  if (whole < size) {
    float tail[Lanes::kLanes] = {};
    for (int64_t i = whole; i < size; ++i) {
      tail[i - whole] = x[i];
    }
    add_squares(tail);
  }
  const float inverse = 1.0f / std::sqrt(sum.tree_sum() / static_cast<float>(size) + eps);
  const auto factor = V::set1(inverse);
  int64_t i = 0;
  for (; i + V::kLanes <= size; i += V::kLanes) {
    V::store(y + i, V::mul(V::mul(V::load(x + i), factor), V::load(weight + i)));
  }
  for (; i < size; ++i) {
    y[i] = x[i] * inverse * weight[i];
  }
}

}  // namespace zonda::kernels
