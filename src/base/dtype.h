// Element types of tensors, and scalar conversion between the small floats and float32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "zonda/error.h"

namespace zonda {

enum class DType : uint8_t {
  kFloat32,
  kFloat16,
  kBFloat16,
  kFloat8E4M3,
  kInt8,
  kUInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt16,
  kUInt32,
  kUInt64,
  kFloat64,
  kBool,
};

// Bytes of one element.
int64_t dtype_size(DType dtype);
// TensorRT-LLM's spelling: "float32", "float16", "bfloat16", "fp8", "int8", ...
std::string_view dtype_name(DType dtype);
// kInvalidArgument for a name that dtype_name never returns.
Result<DType> parse_dtype(std::string_view name);

// IEEE half and bfloat16 travel as their bits; host code computes in float.
inline float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// Round to nearest even; NaN stays NaN.
inline uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return static_cast<uint16_t>((bits >> 16) | 0x40u);
  }
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// Exact, subnormals included.
float f16_to_float(uint16_t bits);
// Round to nearest even; overflow becomes infinity, NaN stays NaN.
uint16_t float_to_f16(float value);

// e4m3 has no infinity: 448 is the largest value, 0x7f and 0xff are NaN. Exact, subnormals
// included.
inline constexpr float kLargestF8E4M3 = 448.0f;
float f8e4m3_to_float(uint8_t bits);
// Round to nearest even; beyond 448 the value becomes 448, NaN stays NaN.
uint8_t float_to_f8e4m3(float value);

}  // namespace zonda
