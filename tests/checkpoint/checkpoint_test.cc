// A checkpoint gives back what was written into it, in every weight format, or says why not.
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "base/dtype.h"
#include "base/file.h"
#include "test_support/temp_folder.h"

namespace zonda::checkpoint {
namespace {

namespace fs = std::filesystem;

// A matrix with random bytes in every part; owns what its view points to.
struct RandomWeight {
  std::vector<uint8_t> data;
  std::vector<uint16_t> scales;
  std::vector<uint16_t> minima;
  std::vector<float> row_scales;
  WeightView view;
};

RandomWeight random_weight(const WeightType& type, uint32_t seed) {
  std::mt19937 random(seed);
  RandomWeight weight;
  weight.data.resize(static_cast<size_t>(weight_data_bytes(type)));
  for (uint8_t& byte : weight.data) {
    byte = static_cast<uint8_t>(random());
  }
  const auto groups = static_cast<size_t>(type.rows * type.groups());
  weight.scales.resize(groups);
  weight.minima.resize(type.has_minimum ? groups : 0);
  for (uint16_t& scale : weight.scales) {
    scale = float_to_f16(static_cast<float>(random() % 1000) / 997.0f);
  }
  for (uint16_t& minimum : weight.minima) {
    minimum = float_to_f16(-static_cast<float>(random() % 1000) / 991.0f);
  }
  if (type.format == WeightFormat::kFloat8E4M3) {
    for (int64_t row = 0; row < (type.per_tensor ? 1 : type.rows); ++row) {
      weight.row_scales.push_back(static_cast<float>(random() % 1000) / 997.0f);
    }
  }
  weight.view = {type, weight.data.data(), weight.scales.data(),
                 type.has_minimum ? weight.minima.data() : nullptr, weight.row_scales.data()};
  return weight;
}

std::vector<WeightType> all_types() {
  std::vector<WeightType> types;
  for (const WeightFormat format :
       {WeightFormat::kFloat32, WeightFormat::kFloat16, WeightFormat::kBFloat16,
        WeightFormat::kInt8, WeightFormat::kInt4, WeightFormat::kFloat8E4M3}) {
    for (const int64_t cols : {1, 31, 64, 97}) {
      if (format == WeightFormat::kFloat8E4M3) {
        types.push_back({format, 3, cols, 0, false, false});
        types.push_back({format, 3, cols, 0, false, true});
        continue;
      }
      if (!is_quantized(format)) {
        types.push_back({format, 3, cols, 0, false});
        continue;
      }
      for (const int32_t group_size : {0, 32, 64, 128}) {
        types.push_back({format, 3, cols, group_size, false});
        types.push_back({format, 3, cols, group_size, true});
      }
    }
  }
  return types;
}

TEST(Checkpoint, EveryWeightFormatIsReadBackBitExact) {
  const TempFolder temp;
  const std::string folder = temp.path() + "/c";
  const std::vector<WeightType> types = all_types();
  CheckpointWriter::Plan plan;
  for (size_t i = 0; i < types.size(); ++i) {
    plan.add_weight("layer" + std::to_string(i) + ".weight", types[i]);
  }
  plan.add_vector("norm.weight", 3);
  CheckpointWriter writer = CheckpointWriter::create(folder, plan, {}).value();
  std::vector<RandomWeight> weights;
  for (size_t i = 0; i < types.size(); ++i) {
    weights.push_back(random_weight(types[i], static_cast<uint32_t>(i)));
    ASSERT_TRUE(writer.write_weight("layer" + std::to_string(i) + ".weight", weights[i].view).ok());
  }
  const std::vector<float> norm = {1.0f, -2.0f, 0.5f};
  ASSERT_TRUE(writer.write_vector("norm.weight", norm).ok());
  ASSERT_TRUE(writer.finish({{"architecture", "X"}}).ok());

  const Checkpoint checkpoint = Checkpoint::open(folder).value();
  EXPECT_EQ(checkpoint.config()["architecture"], "X");
  for (size_t i = 0; i < types.size(); ++i) {
    const Result<WeightView> view = checkpoint.weight("layer" + std::to_string(i) + ".weight");
    ASSERT_TRUE(view.ok()) << view.error().message;
    ASSERT_EQ(view->type, types[i]);
    EXPECT_EQ(std::memcmp(view->data, weights[i].data.data(), weights[i].data.size()), 0);
    EXPECT_EQ(view->scales != nullptr, is_integer(types[i].format));
    EXPECT_EQ(view->row_scales != nullptr, types[i].format == WeightFormat::kFloat8E4M3);
    if (view->scales != nullptr) {
      EXPECT_EQ(std::memcmp(view->scales, weights[i].scales.data(), weights[i].scales.size() * 2),
                0);
    }
    EXPECT_EQ(view->minima != nullptr, types[i].has_minimum);
    if (view->minima != nullptr) {
      EXPECT_EQ(std::memcmp(view->minima, weights[i].minima.data(), weights[i].minima.size() * 2),
                0);
    }
  }
  const std::span<const float> read = checkpoint.vector("norm.weight").value();
  EXPECT_TRUE(std::equal(read.begin(), read.end(), norm.begin(), norm.end()));
}

TEST(Checkpoint, RowsWrittenInPiecesAndAnyOrderMakeTheSameFile) {
  const TempFolder temp;
  const WeightType type{WeightFormat::kInt4, 7, 65, 32, true};
  const RandomWeight weight = random_weight(type, 5);
  CheckpointWriter::Plan plan;
  plan.add_weight("a.weight", type);
  const auto write_in_order = [&](const std::string& folder, std::vector<int64_t> order) {
    CheckpointWriter writer = CheckpointWriter::create(folder, plan, {}).value();
    for (const int64_t row : order) {
      WeightView one = weight.view;
      one.type.rows = 1;
      one.data = weight.data.data() + row * ((type.cols + 1) / 2);
      one.scales = weight.scales.data() + row * type.groups();
      one.minima = weight.minima.data() + row * type.groups();
      ASSERT_TRUE(writer.write_rows("a.weight", row, one).ok());
    }
    ASSERT_TRUE(writer.finish({}).ok());
  };
  write_in_order(temp.path() + "/x", {0, 1, 2, 3, 4, 5, 6});
  write_in_order(temp.path() + "/y", {6, 2, 4, 0, 1, 3, 5});
  EXPECT_EQ(read_file(temp.path() + "/x/rank0.safetensors").value(),
            read_file(temp.path() + "/y/rank0.safetensors").value());
}

TEST(Checkpoint, AnUnfinishedWriterLeavesNothing) {
  const TempFolder temp;
  CheckpointWriter::Plan plan;
  plan.add_vector("a", 2);
  {
    CheckpointWriter writer = CheckpointWriter::create(temp.path() + "/c", plan, {}).value();
    const Result<void> finished = writer.finish({});
    ASSERT_FALSE(finished.ok());
    EXPECT_NE(finished.error().message.find("tensor a got 0 of 8 bytes"), std::string::npos);
  }
  EXPECT_TRUE(fs::is_empty(temp.path()));
}

TEST(Checkpoint, DescriptionsReadBackAndBadOnesAreRefused) {
  for (const WeightType& type : all_types()) {
    if (is_integer(type.format)) {
      EXPECT_EQ(parse_weight_description(describe_weight(type), 3).value(), type);
    }
  }
  for (const char* bad : {"", "int8", "int4,cols=4", "int4,group=32", "float32,cols=4,group=0",
                          "int4,cols=0,group=32", "int4,cols=-4,group=32", "int4,cols=4,group=16",
                          "int4,cols=4,group=32,max", "int4,cols=4x,group=32", "int9,cols=4"}) {
    EXPECT_EQ(parse_weight_description(bad, 3).error().code, ErrorCode::kCorrupt) << bad;
  }
}

// Writes a checkpoint folder of loose tensors, as a tool that is not ours could.
void write_loose(const std::string& folder, const std::vector<TensorSpec>& specs,
                 const MetadataMap& metadata, const std::string& config = "{}") {
  fs::create_directories(folder);
  ASSERT_TRUE(write_file(folder + "/config.json", config).ok());
  SafetensorsWriter writer =
      SafetensorsWriter::create(folder + "/rank0.safetensors", specs, metadata).value();
  for (const TensorSpec& spec : specs) {
    int64_t bytes = dtype_size(spec.dtype);
    for (const int64_t dim : spec.shape) {
      bytes *= dim;
    }
    const std::vector<std::byte> zeros(static_cast<size_t>(bytes));
    ASSERT_TRUE(writer.write(spec.name, 0, zeros).ok());
  }
  ASSERT_TRUE(writer.finish().ok());
}

TEST(Checkpoint, DisagreeingPartsOfAWeightAreNamed) {
  struct Case {
    std::vector<TensorSpec> specs;
    std::string description;
    std::string reason;
  };
  const TensorSpec data{"a.weight", DType::kInt8, {2, 64}};
  const TensorSpec scales{"a.weights_scaling_factor", DType::kFloat16, {2, 2}};
  const TensorSpec fp8{"a.weight", DType::kFloat8E4M3, {2, 64}};
  const std::vector<Case> cases = {
      {{data}, "", "__metadata__ does not describe its quantisation"},
      {{data}, "nonsense", "describes no quantised weight"},
      {{data}, "int8,cols=64,group=32", "has no tensor a.weights_scaling_factor"},
      {{data}, "int8,cols=64,group=0", "has no tensor a.per_channel_scale"},
      {{data, scales}, "int8,cols=64,group=64", "is F16 [2, 2], expected F16 [2, 1]"},
      {{data, scales}, "int8,cols=63,group=32", "is I8 [2, 64], expected I8 [2, 63]"},
      {{data, scales}, "int8,cols=64,group=32,min", "is I8 [2, 64], expected U8 [2, 64]"},
      {{data, {"a.weights_scaling_factor", DType::kBFloat16, {2, 2}}},
       "int8,cols=64,group=32",
       "is BF16 [2, 2], expected F16 [2, 2]"},
      {{{"a.weight", DType::kUInt8, {2, 64}}, scales},
       "int8,cols=64,group=32,min",
       "has no tensor a.weights_minimum"},
      {{{"a.weight", DType::kInt64, {2, 64}}}, "", "is I64 but"},
      {{{"a.weight", DType::kFloat32, {64}}}, "", "has shape [64], expected a matrix"},
      {{fp8}, "", "tensor a.weight is F8_E4M3 but has neither a.per_channel_scale nor"},
      {{fp8, {"a.per_channel_scale", DType::kFloat32, {3}}},
       "",
       "tensor a.per_channel_scale is F32 [3], expected F32 [2]"},
      {{fp8, {"a.per_channel_scale", DType::kFloat16, {2}}},
       "",
       "tensor a.per_channel_scale is F16 [2], expected F32 [2]"},
      {{fp8, {"a.weights_scaling_factor", DType::kFloat32, {2}}},
       "",
       "tensor a.weights_scaling_factor is F32 [2], expected F32 [1]"},
  };
  for (const Case& one : cases) {
    const TempFolder temp;
    MetadataMap metadata;
    if (!one.description.empty()) {
      metadata["a.weight"] = one.description;
    }
    write_loose(temp.path() + "/c", one.specs, metadata);
    const Checkpoint checkpoint = Checkpoint::open(temp.path() + "/c").value();
    const Result<WeightView> view = checkpoint.weight("a.weight");
    ASSERT_FALSE(view.ok()) << one.reason;
    EXPECT_NE(view.error().message.find(one.reason), std::string::npos) << view.error().message;
  }
}

TEST(Checkpoint, AFolderThatIsNoCheckpointIsRefusedWithItsReason) {
  const TempFolder temp;
  EXPECT_EQ(Checkpoint::open(temp.path()).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(write_file(temp.path() + "/config.json", "[]").ok());
  EXPECT_EQ(Checkpoint::open(temp.path()).error().code, ErrorCode::kCorrupt);
  ASSERT_TRUE(write_file(temp.path() + "/config.json", "{}").ok());
  EXPECT_NE(Checkpoint::open(temp.path()).error().message.find("no *.safetensors"),
            std::string::npos);
  write_loose(temp.path() + "/tp", {}, {}, R"({"mapping": {"world_size": 2}})");
  EXPECT_EQ(Checkpoint::open(temp.path() + "/tp").error().code, ErrorCode::kUnsupported);
  write_loose(temp.path() + "/ok", {}, {}, R"({"mapping": {"world_size": 1}})");
  const Checkpoint empty = Checkpoint::open(temp.path() + "/ok").value();
  EXPECT_EQ(empty.tensor("x").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(empty.weight("x").error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace zonda::checkpoint
