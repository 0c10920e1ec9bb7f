// How the values of one weight matrix are stored: the vocabulary that checkpoints, kernels and
// plans share. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "zonda/error.h"

namespace zonda {

// Integer formats are weight-only: groups of group_size consecutive values of a row share a float16
// scale and, if has_minimum, a float16 minimum.
//   without minimum (symmetric):  w = scale * q            int8: q in [-128, 127]; int4: q in [-8,
//   7] with minimum:                 w = scale * u + minimum  int8: u in [0, 255];    int4: u in
//   [0, 15]
// fp8 is e4m3 with a float32 scale of each row, or one of the matrix: w = scale * q.
enum class WeightFormat : uint8_t { kFloat32, kFloat16, kBFloat16, kInt8, kInt4, kFloat8E4M3 };
inline constexpr int kNumWeightFormats = 6;

std::string_view weight_format_name(WeightFormat format);  // "float32", ..., "int4", "fp8"
Result<WeightFormat> parse_weight_format(std::string_view name);
// Whether values are stored with scales.
constexpr bool is_quantized(WeightFormat format) { return format >= WeightFormat::kInt8; }
constexpr bool is_integer(WeightFormat format) {
  return format == WeightFormat::kInt8 || format == WeightFormat::kInt4;
}

// Shape and storage of one [rows, cols] matrix; rows are output features.
struct WeightType {
  WeightFormat format = WeightFormat::kFloat32;
  int64_t rows = 0;
  int64_t cols = 0;
  int32_t group_size = 0;    // integer formats: 32, 64 or 128; 0 is one group a row (per channel)
  bool has_minimum = false;  // integer formats only
  bool per_tensor = false;   // fp8: one scale for all rows

  // Groups of a row of an integer format; the last may be shorter. 0 for the others.
  int64_t groups() const {
    if (!is_integer(format)) {
      return 0;
    }
    return group_size == 0 ? 1 : (cols + group_size - 1) / group_size;
  }
  friend bool operator==(const WeightType&, const WeightType&) = default;
};

// A matrix in the canonical row-major layout of a checkpoint. Non-owning.
struct WeightView {
  WeightType type;
  // [rows, cols] of float32, float16 or bfloat16; int8: int8_t q (uint8_t u with minimum); int4:
  // [rows, (cols + 1) / 2] bytes, column 2j in the low nibble of byte j, column 2j + 1 in the high
  // one; the nibble is u, which is q + 8 when there is no minimum. fp8: [rows, cols] bytes.
  const void* data = nullptr;
  const uint16_t* scales = nullptr;   // [rows, groups] float16
  const uint16_t* minima = nullptr;   // [rows, groups] float16, or null
  const float* row_scales = nullptr;  // fp8: [rows], or [1] if per_tensor

  // fp8: the scale of one row.
  float row_scale(int64_t row) const { return row_scales[type.per_tensor ? 0 : row]; }
};

// Bytes of WeightView::data.
int64_t weight_data_bytes(const WeightType& type);
// Writes row `row` as float32 [cols]; one rounding of scale * q.
void dequantize_row(const WeightView& weight, int64_t row, float* out);

}  // namespace zonda
