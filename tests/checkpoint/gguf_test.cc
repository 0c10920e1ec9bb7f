// GGUF files are read as their writers meant them, value types and block formats included.
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/gguf.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/dtype.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/gguf_builder.h"
#include "test_support/temp_folder.h"

namespace zonda::checkpoint {
namespace {

struct Parsed {
  std::string image;
  GgufMetadata metadata;
  GgufTensors tensors;
};

std::string unhex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

GgmlType type_named(const std::string& name) {
  for (uint32_t number = 0; number < 40; ++number) {
    const GgmlTypeInfo* info = find_ggml_type(number);
    if (info != nullptr && info->name == name) {
      return info->type;
    }
  }
  ADD_FAILURE() << name;
  return GgmlType::kF32;
}

Json block_goldens() {
  return parse_json_file(ZONDA_SOURCE_DIR "/tests/checkpoint/gguf_blocks.json").value();
}

TEST(GgufBlocks, ValuesEqualThoseOfTheGgufPackageBitForBit) {
  int formats = 0;
  const Json goldens = block_goldens();
  for (const auto& [name, golden] : goldens.items()) {
    const GgmlType type = type_named(name);
    const std::string blocks = unhex(golden["blocks"]);
    const std::string expected = unhex(golden["values"]);
    const auto values = static_cast<int64_t>(expected.size() / 4);
    std::vector<float> found(static_cast<size_t>(values));
    dequantize_blocks(type, reinterpret_cast<const std::byte*>(blocks.data()), values,
                      found.data());
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), expected.size()), 0) << name;
    ++formats;
  }
  EXPECT_EQ(formats, 8);
}

TEST(GgufBlocks, PlainFloatsAreWidenedExactly) {
  const std::array<uint16_t, 3> halves = {0x3c00, 0x8001, 0x7bff};
  std::array<float, 3> found{};
  dequantize_blocks(GgmlType::kF16, reinterpret_cast<const std::byte*>(halves.data()), 3,
                    found.data());
  EXPECT_EQ(found, (std::array<float, 3>{1.0f, -5.9604645e-08f, 65504.0f}));
  const std::array<uint16_t, 3> brains = {0x3f80, 0xc000, 0x7f7f};
  dequantize_blocks(GgmlType::kBF16, reinterpret_cast<const std::byte*>(brains.data()), 3,
                    found.data());
  EXPECT_EQ(found, (std::array<float, 3>{1.0f, -2.0f, bf16_to_float(0x7f7f)}));
}

// Blocks of one row of random integers and scales.
std::string random_blocks(GgmlType type, int64_t cols, std::mt19937& random) {
  const GgmlTypeInfo& info = ggml_type_info(type);
  std::string bytes;
  for (int64_t block = 0; block < cols / info.block_values; ++block) {
    std::string one(static_cast<size_t>(info.block_bytes), '\0');
    for (char& byte : one) {
      byte = static_cast<char>(random());
    }
    const auto half = [&] {
      return float_to_f16(static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 1234.5f);
    };
    const uint16_t d = half();
    const uint16_t m = half();
    std::memcpy(one.data(), &d, 2);
    if (type == GgmlType::kQ4_1 || type == GgmlType::kQ5_1) {
      std::memcpy(one.data() + 2, &m, 2);
    }
    bytes += one;
  }
  return bytes;
}

constexpr std::array kExact = {GgmlType::kQ4_0, GgmlType::kQ4_1, GgmlType::kQ5_0, GgmlType::kQ5_1,
                               GgmlType::kQ8_0};

// The values of a row stored as `type`.
std::vector<float> repacked(GgmlType source, const std::string& blocks, WeightType type) {
  type.rows = 1;
  std::vector<uint8_t> data(static_cast<size_t>(weight_data_bytes(type)));
  std::vector<uint16_t> scales(static_cast<size_t>(type.groups()));
  std::vector<uint16_t> minima(type.has_minimum ? scales.size() : 0);
  const Result<void> done =
      repack_blocks(source, reinterpret_cast<const std::byte*>(blocks.data()), type,
                    {data.data(), scales.data(), type.has_minimum ? minima.data() : nullptr});
  EXPECT_TRUE(done.ok());
  std::vector<float> values(static_cast<size_t>(type.cols));
  dequantize_row({type, data.data(), scales.data(), minima.data()}, 0, values.data());
  return values;
}

TEST(GgufBlocks, RepackingIntoTheExactTypeAndAnyJoinChangesNoValue) {
  constexpr int64_t kCols = 96;
  std::mt19937 random(1);
  for (const GgmlType source : kExact) {
    for (const GgmlType other : kExact) {
      for (int round = 0; round < 20; ++round) {
        const std::string blocks = random_blocks(source, kCols, random);
        std::vector<float> expected(kCols);
        dequantize_blocks(source, reinterpret_cast<const std::byte*>(blocks.data()), kCols,
                          expected.data());
        const WeightType own = *exact_weight_type(source, 1, kCols);
        const WeightType joined = join_exact_types(own, *exact_weight_type(other, 1, kCols));
        EXPECT_EQ(repacked(source, blocks, own), expected) << ggml_type_info(source).name;
        EXPECT_EQ(repacked(source, blocks, joined), expected)
            << ggml_type_info(source).name << " with " << ggml_type_info(other).name;
      }
    }
  }
}

TEST(GgufBlocks, ExactTypesAreTheNarrowestThatHoldTheFormat) {
  const WeightType int4{WeightFormat::kInt4, 2, 64, 32, false};
  const WeightType int4_min{WeightFormat::kInt4, 2, 64, 32, true};
  const WeightType int8{WeightFormat::kInt8, 2, 64, 32, false};
  const WeightType int8_min{WeightFormat::kInt8, 2, 64, 32, true};
  EXPECT_EQ(exact_weight_type(GgmlType::kQ4_0, 2, 64), int4);
  EXPECT_EQ(exact_weight_type(GgmlType::kQ4_1, 2, 64), int4_min);
  EXPECT_EQ(exact_weight_type(GgmlType::kQ5_0, 2, 64), int8);
  EXPECT_EQ(exact_weight_type(GgmlType::kQ5_1, 2, 64), int8_min);
  EXPECT_EQ(exact_weight_type(GgmlType::kQ8_0, 2, 64), int8);
  for (const GgmlType type : {GgmlType::kQ4_K, GgmlType::kQ5_K, GgmlType::kQ6_K, GgmlType::kF16}) {
    EXPECT_EQ(exact_weight_type(type, 2, 256), std::nullopt);
  }
}

TEST(GgufBlocks, AnImpliedMinimumThatOverflowsIsRefused) {
  std::string block(18, '\0');
  const uint16_t d = float_to_f16(10000.0f);
  std::memcpy(block.data(), &d, 2);
  WeightType type = *exact_weight_type(GgmlType::kQ4_1, 1, 32);
  std::array<uint8_t, 32> data;
  uint16_t scale = 0;
  uint16_t minimum = 0;
  const Result<void> done =
      repack_blocks(GgmlType::kQ4_0, reinterpret_cast<const std::byte*>(block.data()), type,
                    {data.data(), &scale, &minimum});
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().message, "[gguf] Q4_0 block scale 10000 times -8 overflows float16.");
}

TEST(Gguf, EveryMetadataTypeOfVersions2And3IsRead) {
  for (const uint32_t version : {2u, 3u}) {
    GgufBuilder builder;
    builder.version = version;
    builder.number<uint8_t>("u8", 0, 200);
    builder.number<int8_t>("i8", 1, -100);
    builder.number<uint16_t>("u16", 2, 60000);
    builder.number<int16_t>("i16", 3, -30000);
    builder.u32("u32", 4000000000u);
    builder.number<int32_t>("i32", 5, -2000000000);
    builder.f32("f32", 0.5f).boolean("yes", true).boolean("no", false).string("text", "a\nb");
    builder.number<uint64_t>("u64", 10, 1ull << 63);
    builder.number<int64_t>("i64", 11, -(1ll << 62));
    builder.number<double>("f64", 12, 0.1);
    builder.strings("texts", {"x", "", "z"}).integers("numbers", {1, -2, 3});
    const TempFolder temp;
    const std::string path = temp.path() + "/a.gguf";
    ASSERT_TRUE(write_file(path, builder.build()).ok());
    const Result<GgufFile> file = GgufFile::open(path);
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(file->integer("u8").value(), 200);
    EXPECT_EQ(file->integer("i8").value(), -100);
    EXPECT_EQ(file->integer("u16").value(), 60000);
    EXPECT_EQ(file->integer("i16").value(), -30000);
    EXPECT_EQ(file->integer("u32").value(), 4000000000);
    EXPECT_EQ(file->integer("i32").value(), -2000000000);
    EXPECT_EQ(file->number("f32").value(), 0.5);
    EXPECT_TRUE(file->boolean("yes").value());
    EXPECT_FALSE(file->boolean("no").value());
    EXPECT_EQ(file->string("text").value(), "a\nb");
    EXPECT_EQ(file->integer("i64").value(), -(1ll << 62));
    EXPECT_EQ(file->number("f64").value(), 0.1);
    EXPECT_EQ(file->number("u8").value(), 200.0);
    EXPECT_EQ(file->strings("texts").value(), (std::vector<std::string_view>{"x", "", "z"}));
    EXPECT_EQ(file->integers("numbers").value(), (std::vector<int64_t>{1, -2, 3}));
    EXPECT_EQ(file->integer("u64").error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(file->integer("text").error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(file->strings("numbers").error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(file->integer("absent").error().code, ErrorCode::kNotFound);
  }
}

TEST(Gguf, TensorsAreFoundAtAnyAlignment) {
  for (const uint32_t alignment : {8u, 32u, 4096u}) {
    GgufBuilder builder;
    builder.alignment = alignment;
    builder.u32("general.alignment", alignment);
    builder.tensor("a", {3}, GgmlType::kF32, std::string(12, 'a'));
    builder.tensor("b", {32, 2}, GgmlType::kQ8_0, std::string(68, 'b'));
    builder.tensor("c", {2, 2, 2}, GgmlType::kF16, std::string(16, 'c'));
    const std::string image = builder.build();
    GgufMetadata metadata;
    GgufTensors tensors;
    const Result<void> parsed = parse_gguf(std::as_bytes(std::span(image)), "x", metadata, tensors);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_EQ(static_cast<char>(tensors["a"].bytes[11]), 'a');
    EXPECT_EQ(static_cast<char>(tensors["b"].bytes[67]), 'b');
    EXPECT_EQ(tensors["b"].rows(), 2);
    EXPECT_EQ(tensors["b"].cols(), 32);
    EXPECT_EQ(tensors["c"].rows(), 4);
    EXPECT_EQ(static_cast<char>(tensors["c"].bytes[15]), 'c');
  }
}

}  // namespace
}  // namespace zonda::checkpoint
