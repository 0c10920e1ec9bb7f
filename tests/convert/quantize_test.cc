// Weight-only quantisation keeps its error bounds for every width, group size and kind of values.
// SPDX-License-Identifier: Apache-2.0
#include "convert/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "base/dtype.h"

namespace zonda::convert {
namespace {

struct Quantized {
  bool ok = false;
  std::vector<uint8_t> data;
  std::vector<uint16_t> scales;
  std::vector<uint16_t> minima;
  std::vector<float> values;  // dequantised
};

Quantized quantized(const std::vector<float>& values, WeightType type) {
  type.rows = 1;
  type.cols = static_cast<int64_t>(values.size());
  Quantized out;
  out.data.resize(static_cast<size_t>(weight_data_bytes(type)));
  out.scales.resize(static_cast<size_t>(type.groups()));
  out.minima.resize(out.scales.size());
  out.ok = quantize_row(values, type, {out.data.data(), out.scales.data(), out.minima.data()});
  out.values.resize(values.size());
  if (out.ok) {
    dequantize_row({type, out.data.data(), out.scales.data(), out.minima.data()}, 0,
                   out.values.data());
  }
  return out;
}

std::vector<WeightType> all_types() {
  std::vector<WeightType> types;
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    for (const int32_t group_size : {0, 32, 64, 128}) {
      for (const bool minimum : {false, true}) {
        types.push_back({format, 1, 0, group_size, minimum});
      }
    }
  }
  return types;
}

std::vector<float> normal_values(size_t count, float mean, float deviation, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution(mean, deviation);
  std::vector<float> values(count);
  for (float& value : values) {
    value = distribution(random);
  }
  return values;
}

float squared_error(std::span<const float> a, std::span<const float> b) {
  float sum = 0.0f;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += (a[i] - b[i]) * (a[i] - b[i]);
  }
  return sum;
}

TEST(Quantize, NoValueIsFurtherAwayThanItsStepAllows) {
  for (const WeightType& type : all_types()) {
    for (const size_t cols : {1, 2, 31, 32, 33, 127, 200}) {
      for (const float mean : {0.0f, 0.3f}) {
        const std::vector<float> values = normal_values(cols, mean, 0.1f, 7);
        const Quantized out = quantized(values, type);
        ASSERT_TRUE(out.ok);
        const size_t group_size = type.group_size == 0 ? cols : size_t(type.group_size);
        for (size_t i = 0; i < cols; ++i) {
          // Half a step; the int4 search may clip by up to 15 % of the extreme, and float16 rounds.
          const float step = std::abs(f16_to_float(out.scales[i / group_size]));
          const bool clips = type.format == WeightFormat::kInt4 && !type.has_minimum;
          const float allowed =
              0.5f * step + (clips ? 1.6f * step : 0.01f * step) + 0.001f * std::abs(values[i]);
          EXPECT_LE(std::abs(values[i] - out.values[i]), allowed)
              << weight_format_name(type.format) << " g" << type.group_size << " column " << i;
        }
      }
    }
  }
}

TEST(Quantize, TheInt4SearchIsNeverWorseThanThePlainScales) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const std::vector<float> values = normal_values(32, 0.05f, 0.1f, seed);
    const Quantized out = quantized(values, {WeightFormat::kInt4, 1, 32, 32, false});
    float extreme = 0.0f;
    for (const float value : values) {
      extreme = std::abs(value) > std::abs(extreme) ? value : extreme;
    }
    for (const float plain : {extreme / -8.0f, std::abs(extreme) / 7.0f}) {
      const float scale = f16_to_float(float_to_f16(plain));
      std::vector<float> simple(values.size());
      for (size_t i = 0; i < values.size(); ++i) {
        simple[i] = scale * std::clamp(std::nearbyint(values[i] / scale), -8.0f, 7.0f);
      }
      EXPECT_LE(squared_error(values, out.values), squared_error(values, simple) * 1.0001f);
    }
  }
}

TEST(Quantize, ValuesOnTheGridAreKeptExactly) {
  for (const WeightType& type : all_types()) {
    const bool bytes = type.format == WeightFormat::kInt8;
    const float low = type.has_minimum ? 0.0f : (bytes ? -127.0f : -8.0f);
    const float high = low + (bytes ? 254.0f : 15.0f) + (type.has_minimum && bytes ? 1.0f : 0.0f);
    std::vector<float> values = {0.25f * low, 0.25f * high};
    for (float q = low; q <= high && values.size() < 32; q += 1.0f) {
      values.push_back(0.25f * q);
    }
    EXPECT_EQ(quantized(values, type).values, values) << weight_format_name(type.format);
  }
}

TEST(Quantize, ConstantZeroAndTinyRowsStayFinite) {
  for (const WeightType& type : all_types()) {
    EXPECT_EQ(quantized(std::vector<float>(40, 0.0f), type).values, std::vector<float>(40, 0.0f));
    const Quantized constant = quantized(std::vector<float>(40, 0.5f), type);
    ASSERT_TRUE(constant.ok);
    for (const float value : constant.values) {
      EXPECT_NEAR(value, 0.5f, 0.5f / 127.0f);
    }
    const Quantized tiny = quantized(std::vector<float>(40, 1e-30f), type);
    ASSERT_TRUE(tiny.ok);
    for (const float value : tiny.values) {
      EXPECT_NEAR(value, 0.0f, 1e-7f);
    }
  }
}

TEST(Quantize, AScaleBeyondFloat16IsRefused) {
  for (const WeightType& type : all_types()) {
    std::vector<float> values(40, 0.0f);
    values[3] = 1e9f;
    values[4] = -1e9f;
    EXPECT_FALSE(quantized(values, type).ok);
    values[3] = 3e38f;
    values[4] = -3e38f;
    EXPECT_FALSE(quantized(values, type).ok);
  }
}

}  // namespace
}  // namespace zonda::convert
