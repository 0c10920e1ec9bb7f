// Numbers mean what people write.
// SPDX-License-Identifier: Apache-2.0
#include "cli/number.h"

#include <gtest/gtest.h>

namespace zonda::cli {
namespace {

TEST(Number, LettersMultiplyByThousandsOrPowersOf1024) {
  EXPECT_EQ(parse_integer("12"), 12);
  EXPECT_EQ(parse_integer("-1"), -1);
  EXPECT_EQ(parse_integer("+3"), 3);
  EXPECT_EQ(parse_integer("1k"), 1000);
  EXPECT_EQ(parse_integer("1K"), 1024);
  EXPECT_EQ(parse_integer("2m"), 2000000);
  EXPECT_EQ(parse_integer("2M"), int64_t{2} << 20);
  EXPECT_EQ(parse_integer("3g"), 3000000000);
  EXPECT_EQ(parse_integer("3G"), int64_t{3} << 30);
  EXPECT_EQ(parse_integer("1t"), 1000000000000);
  EXPECT_EQ(parse_integer("1T"), int64_t{1} << 40);
  EXPECT_EQ(parse_integer("1.5k"), 1500);
}

TEST(Number, WhatIsNoWholeNumberIsRefused) {
  for (const char* text : {"", "k", "many", "1.5", "1.5K", "1.0005k", "1 ", " 1", "0x10", "1e3",
                           "--1", "9223372036854775808", "9223372036854775807k", "1.5kk", "nank"}) {
    EXPECT_EQ(parse_integer(text), std::nullopt) << text;
  }
}

TEST(Number, NumbersAreFiniteDecimals) {
  EXPECT_EQ(parse_number("0.7"), 0.7);
  EXPECT_EQ(parse_number("-2"), -2.0);
  EXPECT_EQ(parse_number("1e-3"), 1e-3);
  for (const char* text : {"", "x", "nan", "inf", "1.0.0", "1f"}) {
    EXPECT_EQ(parse_number(text), std::nullopt) << text;
  }
}

TEST(Number, IdsAreSeparatedByCommas) {
  EXPECT_EQ(parse_ids("1,2,3"), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(parse_ids(" 1 , 2"), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(parse_ids(""), std::vector<int32_t>{});
  for (const char* text : {"1,x", "1,", ",1", "1,,2", "1;2", "3000000000"}) {
    EXPECT_EQ(parse_ids(text), std::nullopt) << text;
  }
}

TEST(Number, BytesAreReadable) {
  EXPECT_EQ(bytes_text(999), "999 bytes");
  EXPECT_EQ(bytes_text(1500000), "1.5 MB");
  EXPECT_EQ(bytes_text(2340000000), "2.34 GB");
}

}  // namespace
}  // namespace zonda::cli
