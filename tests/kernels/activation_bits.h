// Random activations of every dtype as raw bytes, and their values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "base/dtype.h"

namespace zonda::test {

// The bytes of `values` rounded to `dtype`: float32, float16 or bfloat16.
inline std::vector<uint8_t> to_bits(const std::vector<float>& values, DType dtype) {
  const auto width = static_cast<size_t>(dtype_size(dtype));
  std::vector<uint8_t> bits(values.size() * width);
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kFloat32) {
      std::memcpy(&bits[i * width], &values[i], width);
    } else {
      const uint16_t half =
          dtype == DType::kBFloat16 ? float_to_bf16(values[i]) : float_to_f16(values[i]);
      std::memcpy(&bits[i * width], &half, width);
    }
  }
  return bits;
}

inline std::vector<float> to_values(const std::vector<uint8_t>& bits, DType dtype) {
  const auto width = static_cast<size_t>(dtype_size(dtype));
  std::vector<float> values(bits.size() / width);
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kFloat32) {
      std::memcpy(&values[i], &bits[i * width], width);
    } else {
      uint16_t half = 0;
      std::memcpy(&half, &bits[i * width], width);
      values[i] = dtype == DType::kBFloat16 ? bf16_to_float(half) : f16_to_float(half);
    }
  }
  return values;
}

inline std::vector<float> random_normal(std::mt19937& random, size_t size, float spread) {
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> values(size);
  for (float& value : values) {
    value = normal(random);
  }
  return values;
}

// Largest relative error of rounding to nearest, with room for a few units of float32 arithmetic.
inline float rounding_bound(DType dtype) {
  const float half_unit = dtype == DType::kBFloat16  ? 0x1p-8f
                          : dtype == DType::kFloat16 ? 0x1p-11f
                                                     : 0.0f;
  return half_unit * 1.001f + 2e-6f;
}

}  // namespace zonda::test
