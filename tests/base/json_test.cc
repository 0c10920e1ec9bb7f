// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <gtest/gtest.h>

namespace zonda {
namespace {

TEST(Json, RefusesWhatItWouldOtherwiseSilentlyChange) {
  EXPECT_EQ(parse_json(R"({"a": 1, "a": 2})", "t").error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(parse_json("1e999", "t").error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(parse_json("[1,]", "t").error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(parse_json("\"\xff\"", "t").error().code, ErrorCode::kCorrupt);
}

TEST(Json, RepeatedKeyIsAllowedInDifferentObjects) {
  EXPECT_TRUE(parse_json(R"([{"a": 1}, {"a": {"a": 2}}])", "t").ok());
}

TEST(Json, DepthOf64IsReadAnd65IsRefused) {
  EXPECT_TRUE(parse_json(std::string(64, '[') + std::string(64, ']'), "t").ok());
  EXPECT_FALSE(parse_json(std::string(65, '[') + std::string(65, ']'), "t").ok());
  EXPECT_FALSE(parse_json(std::string(1000000, '['), "t").ok());
}

TEST(Json, ErrorsNeverEchoInvalidUtf8) {
  const std::string message = parse_json("{\"a\xff\": 1}", "t").error().message;
  for (const char byte : message) {
    EXPECT_NE(byte, '\xff') << message;
  }
  EXPECT_TRUE(parse_json(dump_json(Json(message)), "t").ok());
}

TEST(Json, PrintingReplacesInvalidUtf8) {
  EXPECT_EQ(dump_json(Json("a\xff")), "\"a\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace zonda
