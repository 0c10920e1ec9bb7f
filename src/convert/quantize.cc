// SPDX-License-Identifier: Apache-2.0
#include "convert/quantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/dtype.h"
#include "base/error.h"

namespace zonda::convert {
namespace {

// Clipping the extremes a little often lowers the error of the many.
constexpr std::array kInt4Shrink = {1.0f, 0.95f, 0.90f, 0.85f};

struct IntegerRange {
  int low;
  int high;
};
IntegerRange range_of(const WeightType& type) {
  const bool bytes = type.format == WeightFormat::kInt8;
  if (type.has_minimum) {
    return {0, bytes ? 255 : 15};
  }
  return bytes ? IntegerRange{-128, 127} : IntegerRange{-8, 7};
}

float rounded(float scale) { return f16_to_float(float_to_f16(scale)); }

// The nearest integer of the range as a float, ties to even. Adding 1.5 * 2^23 leaves no fraction
// bits for the magnitudes here; unlike nearbyint it is a plain vector instruction.
float nearest(float value, float inverse_scale, const IntegerRange& range) {
  constexpr float kRound = 12582912.0f;
  const float q = std::clamp(value * inverse_scale, static_cast<float>(range.low),
                             static_cast<float>(range.high));
  return (q + kRound) - kRound;
}

float inverse(float scale) { return scale == 0.0f ? 0.0f : 1.0f / scale; }

// Eight running sums: one order of adding on every machine, and lanes for vector instructions.
float squared_error(std::span<const float> values, float scale, const IntegerRange& range) {
  constexpr size_t kLanes = 8;
  const float inverse_scale = inverse(scale);
  std::array<float, kLanes> sums{};
  const auto add = [&](size_t lane, float value) {
    const float difference = value - scale * nearest(value, inverse_scale, range);
    sums[lane] += difference * difference;
  };
  const size_t whole = values.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      add(lane, values[i + lane]);
    }
  }
  for (size_t i = whole; i < values.size(); ++i) {
    add(i - whole, values[i]);
  }
  float sum = 0.0f;
  for (const float lane : sums) {
    sum += lane;
  }
  return sum;
}

// The value of largest magnitude, with its sign.
float signed_extreme(std::span<const float> values) {
  float extreme = 0.0f;
  for (const float value : values) {
    extreme = std::abs(value) > std::abs(extreme) ? value : extreme;
  }
  return extreme;
}

float symmetric_scale(std::span<const float> values, const WeightType& type) {
  const float extreme = signed_extreme(values);
  if (type.format == WeightFormat::kInt8) {
    return rounded(std::abs(extreme) / 127.0f);
  }
  float best = rounded(extreme / -8.0f);
  float best_error = squared_error(values, best, range_of(type));
  for (const float base : {extreme / -8.0f, std::abs(extreme) / 7.0f}) {
    for (const float shrink : kInt4Shrink) {
      const float scale = rounded(base * shrink);
      const float error = squared_error(values, scale, range_of(type));
      if (error < best_error) {
        best = scale;
        best_error = error;
      }
    }
  }
  return best;
}

struct Affine {
  float scale = 0.0f;
  float minimum = 0.0f;
};
Affine affine(std::span<const float> values, const WeightType& type) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const float minimum = rounded(*low);
  const float steps = type.format == WeightFormat::kInt8 ? 255.0f : 15.0f;
  // Halved first: the span of two finite values can overflow.
  return {rounded((*high * 0.5f - minimum * 0.5f) / (steps * 0.5f)), minimum};
}

void store(const WeightType& type, int64_t col, int q, uint8_t* data) {
  if (type.format == WeightFormat::kInt8) {
    data[col] = static_cast<uint8_t>(q);
    return;
  }
  const auto nibble = static_cast<uint8_t>(type.has_minimum ? q : q + 8);
  uint8_t& byte = data[col / 2];
  byte = col % 2 == 0 ? nibble : static_cast<uint8_t>(byte | (nibble << 4));
}

}  // namespace

bool quantize_row(std::span<const float> values, const WeightType& type, const QuantizedRow& out) {
  CHECK(is_integer(type.format) && static_cast<int64_t>(values.size()) == type.cols);
  const IntegerRange range = range_of(type);
  const int64_t group_size = type.group_size == 0 ? type.cols : type.group_size;
  for (int64_t group = 0; group < type.groups(); ++group) {
    const int64_t begin = group * group_size;
    const std::span<const float> part = values.subspan(
        static_cast<size_t>(begin), static_cast<size_t>(std::min(group_size, type.cols - begin)));
    const Affine fit =
        type.has_minimum ? affine(part, type) : Affine{symmetric_scale(part, type), 0.0f};
    if (!std::isfinite(fit.scale) || !std::isfinite(fit.minimum)) {
      return false;
    }
    out.scales[group] = float_to_f16(fit.scale);
    if (type.has_minimum) {
      out.minima[group] = float_to_f16(fit.minimum);
    }
    const float inverse_scale = inverse(fit.scale);
    for (size_t i = 0; i < part.size(); ++i) {
      store(type, begin + static_cast<int64_t>(i),
            static_cast<int>(nearest(part[i] - fit.minimum, inverse_scale, range)), out.data);
    }
  }
  return true;
}

float largest_magnitude(std::span<const float> values) {
  float largest = 0.0f;
  for (const float value : values) {
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

float fp8_scale(float largest) {
  return std::max(largest / kLargestF8E4M3, std::numeric_limits<float>::min());
}

void quantize_fp8(std::span<const float> values, float scale, uint8_t* out) {
  for (size_t i = 0; i < values.size(); ++i) {
    out[i] = float_to_f8e4m3(values[i] / scale);
  }
}

}  // namespace zonda::convert
