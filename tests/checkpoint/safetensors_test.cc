// Safetensors files and folders: what is written is read back, and a folder is taken as a whole or
// refused. SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "base/json.h"
#include "test_support/temp_folder.h"

namespace zonda::checkpoint {
namespace {

namespace fs = std::filesystem;

// One file whose tensors hold their own name's first letter.
void write_filled(const std::string& path, const std::vector<TensorSpec>& specs,
                  const MetadataMap& metadata = {}) {
  SafetensorsWriter writer = SafetensorsWriter::create(path, specs, metadata).value();
  for (const TensorSpec& spec : specs) {
    int64_t bytes = dtype_size(spec.dtype);
    for (const int64_t dim : spec.shape) {
      bytes *= dim;
    }
    const std::string content(static_cast<size_t>(bytes), spec.name[0]);
    ASSERT_TRUE(writer.write(spec.name, 0, std::as_bytes(std::span(content))).ok());
  }
  ASSERT_TRUE(writer.finish().ok());
}

TEST(Safetensors, EveryDtypeAndShapeIsReadBack) {
  const TempFolder temp;
  const std::string path = temp.path() + "/a.safetensors";
  std::vector<TensorSpec> specs;
  char name = 'a';
  for (const DType dtype :
       {DType::kFloat64, DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kInt64,
        DType::kInt32, DType::kInt16, DType::kInt8, DType::kUInt64, DType::kUInt32, DType::kUInt16,
        DType::kUInt8, DType::kBool, DType::kFloat8E4M3}) {
    specs.push_back({std::string(1, name++), dtype, {3, 5, 1}});
  }
  specs.push_back({"scalar", DType::kFloat32, {}});
  specs.push_back({"nothing", DType::kFloat32, {0, 7}});
  write_filled(path, specs, {{"key", "value"}});
  const Result<SafetensorsFile> file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->metadata().at("key"), "value");
  ASSERT_EQ(file->tensors().size(), specs.size());
  for (const TensorSpec& spec : specs) {
    const TensorView& found = file->tensors().at(spec.name);
    EXPECT_EQ(found.dtype, spec.dtype);
    EXPECT_EQ(found.shape, spec.shape);
    for (const std::byte byte : found.bytes) {
      ASSERT_EQ(static_cast<char>(byte), spec.name[0]);
    }
  }
}

TEST(Safetensors, EveryTensorOfAWrittenFileIsAlignedToWhatDividesItsSize) {
  const TempFolder temp;
  const std::string path = temp.path() + "/a.safetensors";
  write_filled(path, {{"a", DType::kUInt8, {1}},
                      {"b", DType::kFloat32, {16}},
                      {"c", DType::kFloat16, {3}},
                      {"d", DType::kFloat64, {1}},
                      {"e", DType::kUInt8, {128}}});
  const SafetensorsFile file = SafetensorsFile::open(path).value();
  for (const auto& [name, tensor] : file.tensors()) {
    const size_t alignment = std::min<size_t>(64, tensor.bytes.size() & -tensor.bytes.size());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.bytes.data()) % alignment, 0u) << name;
  }
}

TEST(Safetensors, PiecesFromSeveralThreadsMakeOneFile) {
  const TempFolder temp;
  const std::string path = temp.path() + "/a.safetensors";
  constexpr int64_t kPieces = 64;
  SafetensorsWriter writer =
      SafetensorsWriter::create(path, {{"x", DType::kUInt8, {kPieces * 100}}}, {}).value();
  {
    std::vector<std::jthread> threads;
    for (int64_t first = 0; first < 4; ++first) {
      threads.emplace_back([&writer, first] {
        for (int64_t piece = first; piece < kPieces; piece += 4) {
          const std::string content(100, static_cast<char>(piece));
          EXPECT_TRUE(
              writer
                  .write("x", static_cast<uint64_t>(piece * 100), std::as_bytes(std::span(content)))
                  .ok());
        }
      });
    }
  }
  ASSERT_TRUE(writer.finish().ok());
  const SafetensorsFile file = SafetensorsFile::open(path).value();
  const std::span<const std::byte> bytes = file.tensors().at("x").bytes;
  for (size_t i = 0; i < bytes.size(); ++i) {
    ASSERT_EQ(static_cast<size_t>(bytes[i]), i / 100);
  }
}

TEST(Safetensors, TheWriterRefusesWhatWasNotDeclared) {
  const TempFolder temp;
  const std::string path = temp.path() + "/a.safetensors";
  SafetensorsWriter writer =
      SafetensorsWriter::create(path, {{"x", DType::kUInt8, {4}}}, {}).value();
  const std::array<std::byte, 5> bytes{};
  EXPECT_FALSE(writer.write("y", 0, bytes).ok());
  EXPECT_FALSE(writer.write("x", 0, bytes).ok());
  EXPECT_FALSE(writer.write("x", 5, {}).ok());
  EXPECT_FALSE(writer.finish().ok());
  EXPECT_EQ(
      SafetensorsWriter::create(path, {{"x", DType::kUInt8, {4}}, {"x", DType::kUInt8, {4}}}, {})
          .error()
          .code,
      ErrorCode::kInvalidArgument);
  EXPECT_EQ(SafetensorsWriter::create(temp.path() + "/none/a", {}, {}).error().code,
            ErrorCode::kIo);
}

// A folder of three shards with a, b, c, and its index.
void write_shards(const std::string& folder, Json weight_map) {
  write_filled(folder + "/1.safetensors", {{"a", DType::kFloat32, {2}}});
  write_filled(folder + "/2.safetensors", {{"b", DType::kFloat32, {2}}});
  write_filled(folder + "/3.safetensors", {{"c", DType::kFloat32, {2}}});
  const Json index = {{"metadata", {{"total_size", 24}}}, {"weight_map", std::move(weight_map)}};
  ASSERT_TRUE(write_file(folder + "/model.safetensors.index.json", dump_json(index)).ok());
}
const Json kGoodMap = {{"a", "1.safetensors"}, {"b", "2.safetensors"}, {"c", "3.safetensors"}};

TEST(SafetensorsFolder, ShardsAreOneSet) {
  const TempFolder temp;
  write_shards(temp.path(), kGoodMap);
  const Result<SafetensorsSet> set = SafetensorsSet::open_folder(temp.path());
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_EQ(set->names(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(static_cast<char>(set->find("c")->bytes[0]), 'c');
  EXPECT_EQ(set->file_of("b").path(), temp.path() + "/2.safetensors");
  EXPECT_EQ(set->find("d"), nullptr);
}

TEST(SafetensorsFolder, AnIndexThatDisagreesWithItsShardsIsRefused) {
  struct Case {
    std::string map;
    std::string remove;  // a shard
    std::string reason;
  };
  const std::vector<Case> cases = {
      {R"({"a": "1.safetensors", "b": "2.safetensors", "c": "3.safetensors"})", "2.safetensors",
       "names the file 2.safetensors, which is not there"},
      {R"({"a": "1.safetensors", "b": "1.safetensors", "c": "3.safetensors"})", "",
       "tensor b is not in 1.safetensors where the index places it"},
      {R"({"a": "2.safetensors", "b": "1.safetensors", "c": "3.safetensors"})", "",
       "tensor a is placed in 2.safetensors but stored in 1.safetensors"},
      {R"({"a": "1.safetensors", "b": "2.safetensors", "c": "3.safetensors", "d": "3.safetensors"})",
       "", "tensor d is not in 3.safetensors"},
      {R"({"a": "../1.safetensors"})", "", "expected a file name"},
      {R"({"a": "1.bin"})", "", "expected a file name"},
      {R"({"a": 1})", "", "expected a file name"},
      {R"({})", "", "no object \"weight_map\" with entries"},
      {R"([])", "", "no object \"weight_map\" with entries"},
  };
  for (const Case& one : cases) {
    const TempFolder temp;
    write_shards(temp.path(), parse_json(one.map, "map").value());
    if (!one.remove.empty()) {
      fs::remove(temp.path() + "/" + one.remove);
    }
    const Result<SafetensorsSet> set = SafetensorsSet::open_folder(temp.path());
    ASSERT_FALSE(set.ok()) << one.reason;
    EXPECT_NE(set.error().message.find(one.reason), std::string::npos) << set.error().message;
  }
}

TEST(SafetensorsFolder, TensorsThatTheIndexForgetsOrRepeatsAreRefused) {
  const TempFolder temp;
  write_shards(temp.path(), kGoodMap);
  write_filled(temp.path() + "/3.safetensors",
               {{"c", DType::kFloat32, {2}}, {"hidden", DType::kFloat32, {2}}});
  EXPECT_NE(
      SafetensorsSet::open_folder(temp.path()).error().message.find("does not name tensor hidden"),
      std::string::npos);
  write_filled(temp.path() + "/3.safetensors",
               {{"c", DType::kFloat32, {2}}, {"a", DType::kFloat32, {2}}});
  EXPECT_NE(SafetensorsSet::open_folder(temp.path()).error().message.find("tensor a is in both"),
            std::string::npos);
}

TEST(SafetensorsFolder, AFolderWithoutAnIndexHasOneFile) {
  const TempFolder temp;
  EXPECT_EQ(SafetensorsSet::open_folder(temp.path()).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(write_file(temp.path() + "/pytorch_model.bin", "x").ok());
  EXPECT_EQ(SafetensorsSet::open_folder(temp.path()).error().code, ErrorCode::kUnsupported);
  write_filled(temp.path() + "/model.safetensors", {{"a", DType::kFloat32, {2}}});
  EXPECT_TRUE(SafetensorsSet::open_folder(temp.path()).ok());
  write_filled(temp.path() + "/other.safetensors", {{"b", DType::kFloat32, {2}}});
  EXPECT_NE(SafetensorsSet::open_folder(temp.path()).error().message.find("2 *.safetensors files"),
            std::string::npos);
}

}  // namespace
}  // namespace zonda::checkpoint
