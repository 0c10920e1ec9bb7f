// SPDX-License-Identifier: Apache-2.0
#include "base/weight_format.h"

#include <array>
#include <cstring>

#include "base/dtype.h"
#include "base/error.h"

namespace zonda {
namespace {

constexpr std::array<std::string_view, kNumWeightFormats> kNames = {
    "float32", "float16", "bfloat16", "int8", "int4", "fp8"};

// The integer of column `col` before scaling: q without minimum, u with.
int quantized_value(const WeightView& weight, int64_t row, int64_t col) {
  const WeightType& type = weight.type;
  if (type.format == WeightFormat::kInt8) {
    const uint8_t byte = static_cast<const uint8_t*>(weight.data)[row * type.cols + col];
    return type.has_minimum ? int{byte} : int{static_cast<int8_t>(byte)};
  }
  const int64_t row_bytes = (type.cols + 1) / 2;
  const uint8_t byte = static_cast<const uint8_t*>(weight.data)[row * row_bytes + col / 2];
  const int nibble = (col % 2 == 0) ? byte & 0x0f : byte >> 4;
  return type.has_minimum ? nibble : nibble - 8;
}

}  // namespace

std::string_view weight_format_name(WeightFormat format) {
  return kNames.at(static_cast<size_t>(format));
}

Result<WeightFormat> parse_weight_format(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) {
      return static_cast<WeightFormat>(i);
    }
  }
  return invalid_argument(
      "[weight_format] \"{}\" is none of float32, float16, bfloat16, int8, int4, fp8.", name);
}

int64_t weight_data_bytes(const WeightType& type) {
  switch (type.format) {
    case WeightFormat::kFloat32:
      return type.rows * type.cols * 4;
    case WeightFormat::kFloat16:
    case WeightFormat::kBFloat16:
      return type.rows * type.cols * 2;
    case WeightFormat::kInt8:
    case WeightFormat::kFloat8E4M3:
      return type.rows * type.cols;
    case WeightFormat::kInt4:
      return type.rows * ((type.cols + 1) / 2);
  }
  return 0;
}

void dequantize_row(const WeightView& weight, int64_t row, float* out) {
  const WeightType& type = weight.type;
  if (type.format == WeightFormat::kFloat32) {
    std::memcpy(out, static_cast<const float*>(weight.data) + row * type.cols, type.cols * 4);
    return;
  }
  if (type.format == WeightFormat::kFloat8E4M3) {
    const auto* in = static_cast<const uint8_t*>(weight.data) + row * type.cols;
    const float scale = weight.row_scale(row);
    for (int64_t col = 0; col < type.cols; ++col) {
      out[col] = scale * f8e4m3_to_float(in[col]);
    }
    return;
  }
  if (!is_quantized(type.format)) {
    const auto* in = static_cast<const uint16_t*>(weight.data) + row * type.cols;
    const auto convert = type.format == WeightFormat::kBFloat16 ? bf16_to_float : f16_to_float;
    for (int64_t col = 0; col < type.cols; ++col) {
      out[col] = convert(in[col]);
    }
    return;
  }
  const int64_t groups = type.groups();
  const int64_t group_size = type.group_size == 0 ? type.cols : type.group_size;
  for (int64_t col = 0; col < type.cols; ++col) {
    const int64_t group = row * groups + col / group_size;
    const float scaled =
        f16_to_float(weight.scales[group]) * static_cast<float>(quantized_value(weight, row, col));
    out[col] = type.has_minimum ? scaled + f16_to_float(weight.minima[group]) : scaled;
  }
}

}  // namespace zonda
