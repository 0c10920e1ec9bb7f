// Hand-made bad safetensors files: each is refused with its own reason, and nothing is read outside
// the file. SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/file.h"
#include "test_support/temp_folder.h"

namespace zonda::checkpoint {
namespace {

struct BadFile {
  const char* name;
  std::string image;
  ErrorCode code;
  std::string reason;  // must be part of the message
};

std::string with_length(uint64_t length, const std::string& rest) {
  std::string image(8, '\0');
  std::memcpy(image.data(), &length, 8);
  return image + rest;
}

// A file of this header and data.
std::string image(const std::string& header, size_t data_bytes = 0) {
  return with_length(header.size(), header + std::string(data_bytes, '\0'));
}

// A file of one tensor "w" with this entry.
std::string one(const std::string& entry, size_t data_bytes = 0) {
  return image("{\"w\":" + entry + "}", data_bytes);
}

constexpr ErrorCode kCorrupt = ErrorCode::kCorrupt;
constexpr ErrorCode kUnsupported = ErrorCode::kUnsupported;

std::vector<BadFile> header_files() {
  return {
      {"empty file", "", kCorrupt, "0 bytes are too few for the 8-byte header length"},
      {"seven bytes", "1234567", kCorrupt, "7 bytes are too few"},
      {"header length 0", with_length(0, ""), kCorrupt, "does not start with '{'"},
      {"header length 1", with_length(1, "{"), kCorrupt, "[json]"},
      {"header length is the file size", with_length(20, std::string(12, '{')), kCorrupt,
       "header length 20 is beyond the file's 20 bytes"},
      {"header length one too long", with_length(3, "{}"), kCorrupt,
       "header length 3 is beyond the file's 10 bytes"},
      {"header length 2^63", with_length(1ull << 63, "{}"), kCorrupt,
       "header length 9223372036854775808 is above the limit 100000000"},
      {"header length 2^64 - 1", with_length(~0ull, "{}"), kCorrupt, "above the limit"},
      {"header length one above the limit", with_length(kMaxSafetensorsHeader + 1, "{}"), kCorrupt,
       "header length 100000001 is above the limit 100000000"},
      {"header starts with a space", image(" {}"), kCorrupt, "does not start with '{'"},
      {"header is a list", image("[]"), kCorrupt, "does not start with '{'"},
      {"header is cut", image("{\"w\":"), kCorrupt, "[json]"},
      {"text after the header's object", image("{} x"), kCorrupt, "[json]"},
      {"name is not UTF-8", image("{\"\xff\":1}"), kCorrupt, "[json]"},
      {"tensor name twice",
       image(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
             R"("w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
             2),
       kCorrupt, "key \"w\" appears twice"},
      {"nesting without end", image("{\"w\":" + std::string(100, '[')), kCorrupt,
       "nesting is deeper"},
      {"metadata is a list", image(R"({"__metadata__":[]})"), kCorrupt,
       "__metadata__ is not an object"},
      {"metadata value is a number", image(R"({"__metadata__":{"a":1}})"), kCorrupt,
       "__metadata__ entry \"a\" is not a string"},
  };
}

std::vector<BadFile> entry_files() {
  return {
      {"entry is a number", one("1"), kCorrupt, "the entry of tensor w is not an object"},
      {"no dtype", one(R"({"shape":[1],"data_offsets":[0,1]})", 1), kCorrupt,
       "tensor w has no string \"dtype\""},
      {"dtype is a number", one(R"({"dtype":1,"shape":[1],"data_offsets":[0,1]})", 1), kCorrupt,
       "no string \"dtype\""},
      {"unknown dtype", one(R"({"dtype":"F13","shape":[1],"data_offsets":[0,1]})", 1), kUnsupported,
       "tensor w has the unknown dtype \"F13\""},
      {"dtype in lower case", one(R"({"dtype":"f32","shape":[1],"data_offsets":[0,4]})", 4),
       kUnsupported, "unknown dtype \"f32\""},
      {"no shape", one(R"({"dtype":"U8","data_offsets":[0,1]})", 1), kCorrupt,
       "tensor w has no array \"shape\""},
      {"shape is a number", one(R"({"dtype":"U8","shape":1,"data_offsets":[0,1]})", 1), kCorrupt,
       "no array \"shape\""},
      {"nine dimensions",
       one(R"({"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]})", 1), kCorrupt,
       "has 9 dimensions, at most 8"},
      {"negative dimension", one(R"({"dtype":"U8","shape":[-1],"data_offsets":[0,1]})", 1),
       kCorrupt, "has the dimension -1"},
      {"fractional dimension", one(R"({"dtype":"U8","shape":[1.5],"data_offsets":[0,1]})", 1),
       kCorrupt, "has the dimension 1.5"},
      {"dimension 2^63",
       one(R"({"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1]})", 1), kCorrupt,
       "expected an integer of 0 to 2^63 - 1"},
      {"shape product overflows",
       one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]})", 4), kCorrupt,
       "of shape [4294967296, 4294967296] overflow 64 bits"},
      {"shape product overflows to the right size",
       one(R"({"dtype":"F32","shape":[4611686018427387904,1],"data_offsets":[0,0]})"), kCorrupt,
       "overflow 64 bits"},
      {"no offsets", one(R"({"dtype":"U8","shape":[1]})", 1), kCorrupt, "no \"data_offsets\""},
      {"one offset", one(R"({"dtype":"U8","shape":[1],"data_offsets":[0]})", 1), kCorrupt,
       "no \"data_offsets\" of two integers"},
      {"negative offset", one(R"({"dtype":"U8","shape":[1],"data_offsets":[-1,0]})", 1), kCorrupt,
       "no \"data_offsets\" of two integers"},
      {"end before begin", one(R"({"dtype":"U8","shape":[1],"data_offsets":[1,0]})", 1), kCorrupt,
       "tensor w ends at byte 0 before its begin 1"},
      {"end past the file", one(R"({"dtype":"U8","shape":[2],"data_offsets":[0,2]})", 1), kCorrupt,
       "tensor w ends at byte 2 of 1 data bytes"},
      {"offsets near 2^64",
       one(R"({"dtype":"U8","shape":[1],"data_offsets":[18446744073709551614,18446744073709551615]})",
           1),
       kCorrupt, "ends at byte 18446744073709551615 of 1 data bytes"},
      {"size below shape x dtype", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})", 4),
       kCorrupt, "of shape [2] and dtype F32 needs 8 bytes, found 4"},
      {"size above shape x dtype", one(R"({"dtype":"F32","shape":[],"data_offsets":[0,8]})", 8),
       kCorrupt, "of shape [] and dtype F32 needs 4 bytes, found 8"},
      {"bytes for an empty tensor", one(R"({"dtype":"F32","shape":[0],"data_offsets":[0,4]})", 4),
       kCorrupt, "needs 0 bytes, found 4"},
      {"unknown field", one(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"strides":[1]})", 1),
       kCorrupt, "tensor w has the unknown field \"strides\""},
  };
}

std::vector<BadFile> cover_files() {
  const auto two = [](const std::string& a, const std::string& b, size_t data_bytes) {
    return image(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
                     R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}",
                 data_bytes);
  };
  return {
      {"overlap", two("[0,4]", "[3,7]", 7), kCorrupt, "tensors a and b overlap at data byte 3"},
      {"same bytes twice", two("[0,4]", "[0,4]", 4), kCorrupt,
       "tensors a and b overlap at data byte 0"},
      {"hole", two("[0,4]", "[5,9]", 9), kCorrupt,
       "data bytes 4 to 5 before tensor b belong to no tensor"},
      {"hole at the front", two("[1,5]", "[5,9]", 9), kCorrupt,
       "data bytes 0 to 1 before tensor a"},
      {"trailing bytes", two("[0,4]", "[4,8]", 10), kCorrupt,
       "2 bytes after the last tensor belong to no tensor"},
      {"only bytes", image("{}", 3), kCorrupt, "3 bytes after the last tensor"},
  };
}

TEST(MalformedSafetensors, EachIsRefusedWithItsReason) {
  for (const std::vector<BadFile>& files : {header_files(), entry_files(), cover_files()}) {
    for (const BadFile& bad : files) {
      TensorMap tensors;
      MetadataMap metadata;
      const Result<void> parsed = parse_safetensors(std::as_bytes(std::span(bad.image)),
                                                    "bad.safetensors", tensors, metadata);
      ASSERT_FALSE(parsed.ok()) << bad.name;
      EXPECT_EQ(parsed.error().code, bad.code) << bad.name << ": " << parsed.error().message;
      EXPECT_NE(parsed.error().message.find(bad.reason), std::string::npos)
          << bad.name << ": " << parsed.error().message;
      EXPECT_NE(parsed.error().message.find("bad.safetensors"), std::string::npos) << bad.name;
    }
  }
}

TEST(MalformedSafetensors, TheSmallestGoodFilesAreNotRefused) {
  for (const std::string& good : {image("{}"), image("{}  \n"), image(R"({"__metadata__":{}})"),
                                  one(R"({"dtype":"F32","shape":[],"data_offsets":[0,4]})", 4),
                                  one(R"({"dtype":"F32","shape":[0,5],"data_offsets":[0,0]})")}) {
    TensorMap tensors;
    MetadataMap metadata;
    const Result<void> parsed =
        parse_safetensors(std::as_bytes(std::span(good)), "good", tensors, metadata);
    EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  }
}

TEST(MalformedSafetensors, AFileCutAnywhereIsRefused) {
  const std::string good = image(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4);
  const TempFolder temp;
  const std::string path = temp.path() + "/cut.safetensors";
  for (size_t length = 0; length < good.size(); ++length) {
    ASSERT_TRUE(write_file(path, good.substr(0, length)).ok());
    EXPECT_EQ(SafetensorsFile::open(path).error().code, kCorrupt) << length;
  }
  ASSERT_TRUE(write_file(path, good).ok());
  EXPECT_TRUE(SafetensorsFile::open(path).ok());
}

}  // namespace
}  // namespace zonda::checkpoint
