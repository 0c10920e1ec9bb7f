// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace zonda {
namespace {

TEST(DType, EveryHalfSurvivesTheRoundTripThroughFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = f16_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(value))));
    } else {
      EXPECT_EQ(float_to_f16(value), bits);
    }
  }
}

TEST(DType, HalfRoundsToNearestEvenAndOverflowsToInfinity) {
  EXPECT_EQ(float_to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(float_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_f16(-1e30f), 0xfc00);
  EXPECT_EQ(float_to_f16(std::ldexp(1.0f, -25)), 0);  // a tie goes to even, which is zero
  EXPECT_EQ(float_to_f16(std::ldexp(1.5f, -25)), 1);
  EXPECT_EQ(float_to_f16(1.0f + std::ldexp(1.0f, -11)), 0x3c00);
  EXPECT_EQ(float_to_f16(1.0f + std::ldexp(3.0f, -11)), 0x3c02);
}

TEST(DType, BFloat16RoundsToNearestEvenAndKeepsNaN) {
  EXPECT_EQ(float_to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(float_to_bf16(1.0f + std::ldexp(1.0f, -8)), 0x3f80);
  EXPECT_EQ(float_to_bf16(1.0f + std::ldexp(3.0f, -8)), 0x3f82);
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::infinity()), 0x7f80);
}

TEST(DType, EveryE4M3CodeSurvivesTheRoundTripThroughFloat) {
  for (int bits = 0; bits < 256; ++bits) {
    const float value = f8e4m3_to_float(static_cast<uint8_t>(bits));
    if ((bits & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_TRUE(std::isnan(f8e4m3_to_float(float_to_f8e4m3(value))));
    } else {
      EXPECT_EQ(float_to_f8e4m3(value), bits);
    }
  }
  EXPECT_EQ(f8e4m3_to_float(0x01), std::ldexp(1.0f, -9));
  EXPECT_EQ(f8e4m3_to_float(0x08), std::ldexp(1.0f, -6));
  EXPECT_EQ(f8e4m3_to_float(0x7e), 448.0f);
  EXPECT_EQ(f8e4m3_to_float(0xb8), -1.0f);
}

TEST(DType, E4M3RoundsToNearestEvenAndSaturates) {
  for (int bits = 0; bits < 0x7e; ++bits) {
    const float low = f8e4m3_to_float(static_cast<uint8_t>(bits));
    const float high = f8e4m3_to_float(static_cast<uint8_t>(bits + 1));
    const float middle = 0.5f * (low + high);
    EXPECT_EQ(float_to_f8e4m3(middle), bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(float_to_f8e4m3(std::nextafter(middle, 0.0f)), bits);
    EXPECT_EQ(float_to_f8e4m3(std::nextafter(middle, 1000.0f)), bits + 1);
    EXPECT_EQ(float_to_f8e4m3(-middle), 0x80 | (bits % 2 == 0 ? bits : bits + 1));
  }
  EXPECT_EQ(float_to_f8e4m3(449.0f), 0x7e);
  EXPECT_EQ(float_to_f8e4m3(-std::numeric_limits<float>::infinity()), 0xfe);
}

TEST(DType, NamesRoundTripAndUnknownNamesAreRefused) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kInt8}) {
    EXPECT_EQ(parse_dtype(dtype_name(dtype)).value(), dtype);
  }
  EXPECT_EQ(parse_dtype("half").error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace zonda
