// Hand-made bad GGUF files: each is refused with its own reason, and nothing is read outside the
// file. SPDX-License-Identifier: Apache-2.0
#include "checkpoint/gguf.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "checkpoint/gguf_builder.h"

namespace zonda::checkpoint {
namespace {

constexpr ErrorCode kCorrupt = ErrorCode::kCorrupt;
constexpr ErrorCode kUnsupported = ErrorCode::kUnsupported;

// A good file of a few entries and two tensors.
GgufBuilder good_file() {
  GgufBuilder builder;
  builder.string("general.architecture", "llama").u32("general.alignment", 32);
  builder.tensor("a", {8}, GgmlType::kF32, std::string(32, '\0'));
  builder.tensor("b", {32, 2}, GgmlType::kQ8_0, std::string(68, '\0'));
  return builder;
}

struct BadFile {
  const char* name;
  std::function<std::string(GgufBuilder)> make;
  ErrorCode code;
  std::string reason;
};

// A change of the builder, as a maker of the file.
std::function<std::string(GgufBuilder)> with(std::function<void(GgufBuilder&)> change) {
  return [change](GgufBuilder builder) {
    change(builder);
    return builder.build();
  };
}

// An array value: type of its elements, count, bytes.
std::string array(uint32_t type, uint64_t count, const std::string& bytes) {
  std::string out;
  append_value<uint32_t>(out, type);
  append_value<uint64_t>(out, count);
  return out + bytes;
}

std::string nested_arrays(int depth) {
  std::string value = array(0, 1, "x");
  for (int i = 1; i < depth; ++i) {
    value = array(9, 1, value);
  }
  return value;
}

std::vector<BadFile> header_files() {
  return {
      {"wrong magic", with([](GgufBuilder& b) { b.magic = "GGML"; }), kCorrupt,
       "does not start with \"GGUF\""},
      {"version 1", with([](GgufBuilder& b) { b.version = 1; }), kUnsupported,
       "has version 1; 2 and 3 are read"},
      {"version 0", with([](GgufBuilder& b) { b.version = 0; }), kUnsupported, "has version 0"},
      {"version 4", with([](GgufBuilder& b) { b.version = 4; }), kUnsupported, "has version 4"},
      {"big-endian", with([](GgufBuilder& b) { b.version = 3u << 24; }), kUnsupported,
       "is big-endian"},
      {"tensor count 2^64 - 1",
       [](const GgufBuilder& b) {
         std::string image = b.build();
         std::memset(image.data() + 8, 0xff, 8);
         return image;
       },
       kCorrupt, "tensor count 18446744073709551615 is above the limit"},
      {"metadata count 2^64 - 1",
       [](const GgufBuilder& b) {
         std::string image = b.build();
         std::memset(image.data() + 16, 0xff, 8);
         return image;
       },
       kCorrupt, "metadata count 18446744073709551615 is above the limit"},
      {"tensor count too high", with([](GgufBuilder& b) { b.tensor_count = 1000; }), kCorrupt,
       "expected 1 to 4"},
      {"metadata count too high", with([](GgufBuilder& b) { b.metadata_count = 1000; }), kCorrupt,
       "metadata key 4 has a length of"},
  };
}

std::vector<BadFile> metadata_files() {
  return {
      {"unknown value type", with([](GgufBuilder& b) { b.raw("k", 13, ""); }), kCorrupt,
       "metadata k has the unknown value type 13"},
      {"value type 2^32 - 1", with([](GgufBuilder& b) { b.raw("k", ~0u, ""); }), kCorrupt,
       "unknown value type 4294967295"},
      {"bool of 2", with([](GgufBuilder& b) { b.number<uint8_t>("k", 7, 2); }), kCorrupt,
       "metadata k is a bool of value 2"},
      {"key twice", with([](GgufBuilder& b) { b.u32("k", 1).u32("k", 2); }), kCorrupt,
       "metadata k appears twice"},
      {"key too long", with([](GgufBuilder& b) { b.u32(std::string(70000, 'k'), 1); }), kCorrupt,
       "has a length of 70000 bytes, above the limit 65535"},
      {"key length 2^64 - 1",
       [](const GgufBuilder& b) {
         std::string image = b.build();
         std::memset(image.data() + 24, 0xff, 8);
         return image;
       },
       kCorrupt, "metadata key 0 has a length of 18446744073709551615 bytes"},
      {"string beyond the file", with([](GgufBuilder& b) { b.number<uint64_t>("k", 8, 1u << 20); }),
       kCorrupt, "inside metadata k"},
      {"string length 2^64 - 1", with([](GgufBuilder& b) { b.number<uint64_t>("k", 8, ~0ull); }),
       kCorrupt, "inside metadata k"},
      {"array beyond the file", with([](GgufBuilder& b) { b.raw("k", 9, array(0, 5000, "x")); }),
       kCorrupt, "metadata k is an array of 5000 values in the"},
      {"array of 2^64 - 1", with([](GgufBuilder& b) { b.raw("k", 9, array(0, ~0ull, "x")); }),
       kCorrupt, "is an array of 18446744073709551615 values"},
      {"array of wide values beyond the file",
       with([](GgufBuilder& b) { b.raw("k", 9, array(10, 200, std::string(200, 'x'))); }), kCorrupt,
       "inside metadata k"},
      {"array of an unknown type", with([](GgufBuilder& b) { b.raw("k", 9, array(77, 1, "x")); }),
       kCorrupt, "unknown value type 77"},
      {"arrays in arrays without end",
       with([](GgufBuilder& b) { b.raw("k", 9, nested_arrays(5)); }), kCorrupt,
       "nests arrays deeper than 4"},
      {"alignment 0", with([](GgufBuilder& b) {
         b.remove("general.alignment");
         b.u32("general.alignment", 0);
       }),
       kCorrupt, "general.alignment is not a power of two"},
      {"alignment 24", with([](GgufBuilder& b) {
         b.remove("general.alignment");
         b.u32("general.alignment", 24);
       }),
       kCorrupt, "general.alignment is not a power of two"},
      {"alignment 2^31", with([](GgufBuilder& b) {
         b.remove("general.alignment");
         b.u32("general.alignment", 1u << 31);
       }),
       kCorrupt, "general.alignment is not a power of two up to 1048576"},
      {"alignment is text", with([](GgufBuilder& b) {
         b.remove("general.alignment");
         b.string("general.alignment", "32");
       }),
       kCorrupt, "general.alignment is not a power of two"},
  };
}

std::vector<BadFile> tensor_files() {
  return {
      {"type that is not read", with([](GgufBuilder& b) { b.tensors[1].type = 20; }), kUnsupported,
       "tensor b has the type IQ4_NL"},
      {"type that nobody knows", with([](GgufBuilder& b) { b.tensors[1].type = 999; }),
       kUnsupported, "tensor b has the type number 999"},
      {"no dimension", with([](GgufBuilder& b) { b.tensors[0].dims = {}; }), kCorrupt,
       "tensor a has 0 dimensions"},
      {"five dimensions", with([](GgufBuilder& b) {
         b.tensors[0].dims = {2, 2, 2, 1, 1};
       }),
       kCorrupt, "tensor a has 5 dimensions, expected 1 to 4"},
      {"dimension 0", with([](GgufBuilder& b) { b.tensors[0].dims = {0}; }), kCorrupt,
       "tensor a has the dimension 0"},
      {"dimension 2^64 - 1", with([](GgufBuilder& b) { b.tensors[0].dims = {~0ull}; }), kCorrupt,
       "tensor a has the dimension 18446744073709551615"},
      {"dimension 2^63 - 1", with([](GgufBuilder& b) { b.tensors[0].dims = {~0ull >> 1}; }),
       kCorrupt, "the bytes of tensor a overflow 64 bits"},
      {"dims whose product overflows", with([](GgufBuilder& b) {
         b.tensors[0].dims = {1ull << 32, 1ull << 32};
       }),
       kCorrupt, "the bytes of tensor a overflow 64 bits"},
      {"dims whose product overflows to 0", with([](GgufBuilder& b) {
         b.tensors[0].dims = {1ull << 31, 1ull << 31, 1};
       }),
       kCorrupt, "overflow 64 bits"},
      {"rows that end inside a block", with([](GgufBuilder& b) {
         b.tensors[1].dims = {33, 2};
       }),
       kCorrupt, "tensor b of type Q8_0 has rows of 33 values, not a multiple of 32"},
      {"K-quant rows of 128", with([](GgufBuilder& b) {
         b.tensors[1].type = 12;
         b.tensors[1].dims = {128};
       }),
       kCorrupt, "has rows of 128 values, not a multiple of 256"},
      {"offset between the alignment", with([](GgufBuilder& b) { b.tensors[1].offset = 33; }),
       kCorrupt, "tensor b is at offset 33, not a multiple of the alignment 32"},
      {"offset past the file", with([](GgufBuilder& b) { b.tensors[1].offset = 1 << 20; }),
       kCorrupt, "tensor b needs bytes 1048576 + 68 of"},
      {"offset that would wrap",
       with([](GgufBuilder& b) { b.tensors[1].offset = INT64_MAX / 32 * 32; }), kCorrupt,
       "out of range"},
      {"tensor beyond the file", with([](GgufBuilder& b) {
         b.tensors[1].dims = {32, 9};
       }),
       kCorrupt, "tensor b needs bytes 32 + 306 of 100 data bytes"},
      {"overlap", with([](GgufBuilder& b) {
         b.tensors[0].dims = {16};
         b.tensors[0].bytes.resize(64);
         b.tensors[1].offset = 32;
       }),
       kCorrupt, "tensors a and b overlap at data byte 32"},
      {"same bytes twice", with([](GgufBuilder& b) { b.tensors[1].offset = 0; }), kCorrupt,
       "overlap at data byte 0"},
      {"name twice", with([](GgufBuilder& b) {
         b.tensors[1].name = b.tensors[0].name;
         b.tensors[1].offset = 32;
       }),
       kCorrupt, "tensor a appears twice"},
      {"name too long", with([](GgufBuilder& b) { b.tensors[0].name = std::string(70000, 'n'); }),
       kCorrupt, "the name of tensor 0 has a length of 70000 bytes"},
      {"name that is no text", with([](GgufBuilder& b) {
         b.tensors[0].name = std::string("\xff\n\x01");
         b.tensors[0].type = 99;
       }),
       kUnsupported, "tensor ??? has the type number 99"},
  };
}

Result<void> parse(const std::string& image) {
  GgufMetadata metadata;
  GgufTensors tensors;
  return parse_gguf(std::as_bytes(std::span(image)), "bad.gguf", metadata, tensors);
}

TEST(MalformedGguf, EachIsRefusedWithItsReason) {
  for (const std::vector<BadFile>& files : {header_files(), metadata_files(), tensor_files()}) {
    for (const BadFile& bad : files) {
      const Result<void> parsed = parse(bad.make(good_file()));
      ASSERT_FALSE(parsed.ok()) << bad.name;
      EXPECT_EQ(parsed.error().code, bad.code) << bad.name << ": " << parsed.error().message;
      EXPECT_NE(parsed.error().message.find(bad.reason), std::string::npos)
          << bad.name << ": " << parsed.error().message;
      EXPECT_NE(parsed.error().message.find("bad.gguf"), std::string::npos) << bad.name;
    }
  }
}

TEST(MalformedGguf, AFileCutAnywhereIsRefused) {
  const std::string image = good_file().build();
  ASSERT_TRUE(parse(image).ok());
  for (size_t length = 0; length < image.size(); ++length) {
    const Result<void> parsed = parse(image.substr(0, length));
    ASSERT_FALSE(parsed.ok()) << length;
    EXPECT_EQ(parsed.error().code, kCorrupt) << length;
  }
}

// Whatever a field says, the reader ends with a result and stays inside the file.
TEST(MalformedGguf, ExtremeValuesInAnyEightBytesNeverReachOutsideTheFile) {
  const std::string image = good_file().build();
  for (const uint64_t extreme : {uint64_t{0}, ~uint64_t{0}, ~uint64_t{0} - 1, uint64_t{1} << 63,
                                 (uint64_t{1} << 63) - 1, uint64_t{1} << 32}) {
    for (size_t at = 0; at + 8 <= image.size(); ++at) {
      std::string spoiled = image;
      std::memcpy(spoiled.data() + at, &extreme, 8);
      GgufMetadata metadata;
      GgufTensors tensors;
      const auto bytes = std::as_bytes(std::span(spoiled));
      if (!parse_gguf(bytes, "bad.gguf", metadata, tensors).ok()) {
        continue;
      }
      for (const auto& [name, tensor] : tensors) {
        EXPECT_GE(tensor.bytes.data(), bytes.data());
        EXPECT_LE(tensor.bytes.data() + tensor.bytes.size(), bytes.data() + bytes.size());
      }
    }
  }
}

}  // namespace
}  // namespace zonda::checkpoint
