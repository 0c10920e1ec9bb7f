// SPDX-License-Identifier: Apache-2.0
#include "engine/convert_weights.h"

#include <cmath>

#include "base/dtype.h"
#include "base/error.h"

namespace zonda::engine {
namespace {

constexpr float kLargestHalf = 65504.0f;

Result<std::vector<uint16_t>> rounded(const WeightView& source, WeightFormat format) {
  std::vector<uint16_t> out(static_cast<size_t>(source.type.rows * source.type.cols));
  std::vector<float> row(static_cast<size_t>(source.type.cols));
  auto to = out.begin();
  for (int64_t r = 0; r < source.type.rows; ++r) {
    dequantize_row(source, r, row.data());
    for (const float value : row) {
      if (format == WeightFormat::kFloat16 && std::abs(value) > kLargestHalf) {
        return invalid_argument("[pack_weights] a weight of {} in row {} exceeds float16.", value,
                                r);
      }
      *to++ = format == WeightFormat::kFloat16 ? float_to_f16(value) : float_to_bf16(value);
    }
  }
  return out;
}

}  // namespace

Result<ConvertedWeights> convert_weights(std::span<const WeightView> sources, WeightFormat format) {
  const bool is_16_bit = format == WeightFormat::kFloat16 || format == WeightFormat::kBFloat16;
  ConvertedWeights converted;
  for (const WeightView& source : sources) {
    WeightView view = source;
    if (is_16_bit && source.type.format != format) {
      Result<std::vector<uint16_t>> copy = rounded(source, format);
      if (!copy) {
        return copy.error();
      }
      converted.copies.push_back(std::move(*copy));
      view.type = {format, source.type.rows, source.type.cols, 0, false};
      view.data = converted.copies.back().data();
    }
    converted.views.push_back(view);
  }
  return converted;
}

}  // namespace zonda::engine
