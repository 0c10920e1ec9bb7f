// Quantisation, workers, progress and replacement are as the options say.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "convert/converted.h"

namespace zonda::convert {
namespace {

TEST(ConvertQuantize, EachModuleGetsTheFormatThatTheHelpPromises) {
  const TempFolder temp;
  write_hf_folder(make_tiny_model({.tied = false}), temp.path());
  for (const bool asymmetric : {false, true}) {
    for (const int32_t group_size : {0, 32, 64, 128}) {
      const Converted int4({.model_dir = temp.path(),
                            .qformat = "int4_wo",
                            .group_size = group_size,
                            .asymmetric = asymmetric,
                            .exclude_modules = {"transformer.layers.1.*", "lm_head"}});
      EXPECT_EQ(int4.type(kQkv),
                (WeightType{WeightFormat::kInt4, 128, 64, group_size, asymmetric}));
      EXPECT_EQ(int4.type(kTable),
                (WeightType{WeightFormat::kInt8, 50, 64, group_size, asymmetric}));
      EXPECT_EQ(int4.type("transformer.layers.1.attention.qkv.weight").format,
                WeightFormat::kFloat32);
      EXPECT_EQ(int4.type("lm_head.weight").format, WeightFormat::kFloat32);
      EXPECT_EQ(int4.report.quant_algo, "MIXED_PRECISION");
      const Converted int8({.model_dir = temp.path(),
                            .dtype = "bfloat16",
                            .qformat = "int8_wo",
                            .group_size = group_size,
                            .asymmetric = asymmetric});
      EXPECT_EQ(int8.type(kQkv),
                (WeightType{WeightFormat::kInt8, 128, 64, group_size, asymmetric}));
      EXPECT_EQ(int8.type("lm_head.weight").format, WeightFormat::kInt8);
      EXPECT_EQ(int8.report.quant_algo, "W8A16");
      EXPECT_EQ(int8.report.dtype, "bfloat16");
      EXPECT_EQ(int8.checkpoint->config()["quantization"]["group_size"], group_size);
    }
  }
}

TEST(ConvertQuantize, QuantisedValuesAreCloseToTheSource) {
  const TempFolder temp;
  const TinyModel model = make_tiny_model();
  write_hf_folder(model, temp.path());
  const auto distance = [&](const char* qformat) {
    const Converted converted({.model_dir = temp.path(), .qformat = qformat, .group_size = 32});
    const std::vector<float> found = converted.matrix("transformer.layers.0.mlp.proj.weight");
    const std::vector<float>& expected =
        model.weights.at("model.layers.0.mlp.down_proj.weight").values;
    double error = 0.0;
    double total = 0.0;
    for (size_t i = 0; i < found.size(); ++i) {
      error += std::pow(found[i] - expected[i], 2.0);
      total += std::pow(expected[i], 2.0);
    }
    return std::sqrt(error / total);
  };
  EXPECT_LT(distance("int8_wo"), 0.006);
  EXPECT_LT(distance("int4_wo"), 0.09);
}

TEST(ConvertQuantize, WhatAlreadyHasTheAskedFormatIsNotRoundedAgain) {
  const TempFolder temp;
  TinyModel model = make_tiny_model();
  const auto type_of = [](const std::string& name) {
    return name.find("embed") != std::string::npos ? GgmlType::kQ8_0 : GgmlType::kQ4_0;
  };
  const std::string path = write_gguf(temp, make_gguf(model, type_of));
  expect_values(model, Converted({.model_dir = path, .qformat = "int4_wo", .group_size = 32}),
                as_it_is);
}

TEST(Convert, TheResultDoesNotDependOnTheNumberOfWorkers) {
  const TempFolder temp;
  write_hf_folder(make_tiny_model({.hidden = 256, .ffn = 9000}), temp.path());
  std::string first;
  for (const int32_t workers : {1, 2, 7}) {
    const Converted converted({.model_dir = temp.path(), .qformat = "int4_wo", .workers = workers});
    const std::string bytes = converted.file("rank0.safetensors");
    first = first.empty() ? bytes : first;
    EXPECT_EQ(bytes, first);
  }
}

TEST(Convert, ProgressCountsEveryWeightOnceUpToTheTotal) {
  const TempFolder temp;
  write_hf_folder(make_tiny_model(), temp.path());
  std::vector<ConvertProgress> seen;
  std::set<std::string> names;
  const Converted converted(
      {.model_dir = temp.path(), .workers = 3, .progress = [&](const ConvertProgress& progress) {
         seen.push_back(progress);
         names.emplace(progress.weight);
       }});
  ASSERT_EQ(static_cast<int64_t>(seen.size()), converted.report.weights);
  EXPECT_EQ(names.size(), seen.size());
  EXPECT_EQ(seen.back().bytes_done, seen.back().bytes_total);
  EXPECT_EQ(seen.back().weights_done, seen.back().weights_total);
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].weights_done, static_cast<int64_t>(i + 1));
  }
}

TEST(Convert, AnExistingFolderIsReplacedOnlyIfAsked) {
  const TempFolder temp;
  write_hf_folder(make_tiny_model(), temp.path() + "/in");
  ConvertOptions options{.model_dir = temp.path() + "/in", .output_dir = temp.path() + "/out"};
  ASSERT_TRUE(convert_checkpoint(options).ok());
  EXPECT_EQ(convert_checkpoint(options).error().code, ErrorCode::kInvalidArgument);
  options.replace = true;
  EXPECT_TRUE(convert_checkpoint(options).ok());
}

}  // namespace
}  // namespace zonda::convert
