// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

#include <array>
#include <cmath>

#include "base/error.h"

namespace zonda {
namespace {

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  int64_t size;
};

constexpr std::array kTypes = {
    DTypeInfo{DType::kFloat32, "float32", 4},   DTypeInfo{DType::kFloat16, "float16", 2},
    DTypeInfo{DType::kBFloat16, "bfloat16", 2}, DTypeInfo{DType::kFloat8E4M3, "fp8", 1},
    DTypeInfo{DType::kInt8, "int8", 1},         DTypeInfo{DType::kUInt8, "uint8", 1},
    DTypeInfo{DType::kInt16, "int16", 2},       DTypeInfo{DType::kInt32, "int32", 4},
    DTypeInfo{DType::kInt64, "int64", 8},       DTypeInfo{DType::kUInt16, "uint16", 2},
    DTypeInfo{DType::kUInt32, "uint32", 4},     DTypeInfo{DType::kUInt64, "uint64", 8},
    DTypeInfo{DType::kFloat64, "float64", 8},   DTypeInfo{DType::kBool, "bool", 1},
};

const DTypeInfo& info(DType dtype) {
  const DTypeInfo& found = kTypes.at(static_cast<size_t>(dtype));
  CHECK(found.dtype == dtype);
  return found;
}

}  // namespace

int64_t dtype_size(DType dtype) { return info(dtype).size; }

std::string_view dtype_name(DType dtype) { return info(dtype).name; }

Result<DType> parse_dtype(std::string_view name) {
  for (const DTypeInfo& type : kTypes) {
    if (type.name == name) {
      return type.dtype;
    }
  }
  return invalid_argument("[dtype] \"{}\" is not a data type Zonda knows.", name);
}

float f16_to_float(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1fu) {
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  }
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

uint16_t float_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<uint16_t>(sign | 0x7e00u);
  }
  if (magnitude >= 0x477ff000u) {  // 65520 rounds to infinity
    return static_cast<uint16_t>(sign | 0x7c00u);
  }
  if (magnitude < 0x38800000u) {  // below 2^-14: a multiple of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 16777216.0f;
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(scaled)));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | static_cast<uint16_t>((rounded - 0x38000000u) >> 13));
}

float f8e4m3_to_float(uint8_t bits) {
  const uint32_t sign = uint32_t{bits & 0x80u} << 24;
  const uint32_t magnitude = bits & 0x7fu;
  if (magnitude == 0x7fu) {
    return std::bit_cast<float>(sign | 0x7fc00000u);
  }
  // The fields at their places in a float, whose exponent is larger by 120; exact for subnormals.
  const float value = std::bit_cast<float>(magnitude << 20) * 0x1p120f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

uint8_t float_to_f8e4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint8_t>((bits >> 24) & 0x80u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<uint8_t>(sign | 0x7fu);
  }
  if (magnitude >= 0x43e00000u) {  // 448
    return static_cast<uint8_t>(sign | 0x7eu);
  }
  if (magnitude < 0x3c800000u) {  // below 2^-6: a multiple of 2^-9, brought to the last bit
    const float steps = std::bit_cast<float>(magnitude) * 512.0f + 8388608.0f;
    return static_cast<uint8_t>(sign | static_cast<uint8_t>(std::bit_cast<uint32_t>(steps)));
  }
  const uint32_t rounded = magnitude + 0x7ffffu + ((magnitude >> 20) & 1u);
  return static_cast<uint8_t>(sign | static_cast<uint8_t>((rounded - 0x3c000000u) >> 20));
}

}  // namespace zonda
