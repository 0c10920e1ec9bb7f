// fp8 weights: made from float ones, and kept as a Hugging Face folder has them.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "convert/converted.h"
#include "convert/fp8_folder.h"

namespace zonda::convert {
namespace {

const std::string kProj = "transformer.layers.0.mlp.proj.weight";

// What `scale` makes of a value.
float rounded(float value, float scale) {
  return scale * f8e4m3_to_float(float_to_f8e4m3(value / scale));
}

TEST(ConvertFp8, QformatQuantisesLinearsAndLeavesTheRest) {
  const TempFolder temp;
  write_hf_folder(make_tiny_model({.tied = false}), temp.path());
  for (const bool per_tensor : {true, false}) {
    const Converted fp8({.model_dir = temp.path(),
                         .dtype = "bfloat16",
                         .qformat = per_tensor ? "fp8" : "fp8_pc_pt"});
    EXPECT_EQ(fp8.type(kQkv),
              (WeightType{WeightFormat::kFloat8E4M3, 128, 64, 0, false, per_tensor}));
    EXPECT_EQ(fp8.type(kTable).format, WeightFormat::kBFloat16);
    EXPECT_EQ(fp8.type("lm_head.weight").format, WeightFormat::kBFloat16);
    EXPECT_EQ(fp8.report.quant_algo, per_tensor ? "FP8" : "FP8_PER_CHANNEL_PER_TOKEN");
    EXPECT_EQ(fp8.checkpoint->config()["quantization"]["quant_algo"], fp8.report.quant_algo);
    EXPECT_TRUE(fp8.checkpoint->has(per_tensor
                                        ? "transformer.layers.0.mlp.proj.weights_scaling_factor"
                                        : "transformer.layers.0.mlp.proj.per_channel_scale"));
  }
  const Converted mixed(
      {.model_dir = temp.path(), .qformat = "fp8", .exclude_modules = {"transformer.layers.1.*"}});
  EXPECT_EQ(mixed.report.quant_algo, "MIXED_PRECISION");
  EXPECT_EQ(mixed.type("transformer.layers.1.attention.qkv.weight").format, WeightFormat::kFloat32);
}

TEST(ConvertFp8, TheLargestValueBecomes448AndTheOthersTheNearestCode) {
  const TempFolder temp;
  TinyModel model = make_tiny_model();
  std::vector<float>& values = model.weights.at("model.layers.0.mlp.down_proj.weight").values;
  std::fill(values.begin() + 96, values.begin() + 2 * 96, 0.0f);  // a row of zeros
  write_hf_folder(model, temp.path());
  const Converted by_tensor({.model_dir = temp.path(), .qformat = "fp8", .workers = 3});
  const Converted by_row({.model_dir = temp.path(), .qformat = "fp8_pc_pt"});
  const auto largest = [&](size_t first, size_t count) {
    float most = 0.0f;
    for (size_t i = first; i < first + count; ++i) {
      most = std::max(most, std::abs(values[i]));
    }
    return most;
  };
  const float tensor_scale = largest(0, values.size()) / 448.0f;
  EXPECT_EQ(by_tensor.checkpoint->weight(kProj)->row_scales[0], tensor_scale);
  const std::vector<float> of_tensor = by_tensor.matrix(kProj);
  const std::vector<float> of_row = by_row.matrix(kProj);
  for (size_t i = 0; i < values.size(); ++i) {
    const float scale = by_row.checkpoint->weight(kProj)->row_scales[i / 96];
    EXPECT_GT(scale, 0.0f);
    if (i / 96 != 1) {
      EXPECT_EQ(scale, largest(i / 96 * 96, 96) / 448.0f);
    }
    EXPECT_EQ(of_tensor[i], rounded(values[i], tensor_scale));
    EXPECT_EQ(of_row[i], rounded(values[i], scale));
  }
}

// q, k and v stand in one matrix: its scale is that of the largest of the three.
TEST(ConvertFp8, OneScaleOfATensorCoversAllItsParts) {
  const TempFolder temp;
  TinyModel model = make_tiny_model();
  model.weights.at("model.layers.0.self_attn.v_proj.weight").values[5] = -3.5f;
  write_hf_folder(model, temp.path());
  const Converted converted({.model_dir = temp.path(), .qformat = "fp8"});
  EXPECT_EQ(converted.checkpoint->weight(kQkv)->row_scales[0], 3.5f / 448.0f);
}

TEST(ConvertFp8, CodesOfAFolderAreKept) {
  for (const bool per_channel : {true, false}) {
    for (const DType scale_dtype : {DType::kFloat32, DType::kBFloat16}) {
      const TempFolder temp;
      TinyModel model = make_tiny_model();
      Fp8Folder(model, {per_channel, scale_dtype, !per_channel}).write(temp.path());
      for (const std::string qformat : {"none", "fp8", "fp8_pc_pt"}) {
        const Converted converted({.model_dir = temp.path(), .qformat = qformat});
        expect_values(model, converted, as_it_is);
        // Scales of q, k and v differ: their rows have their own.
        EXPECT_EQ(converted.report.quant_algo, "FP8_PER_CHANNEL_PER_TOKEN");
        // No tokenizer, calibrated scales, and scales that are not those asked for.
        const bool others = qformat == "fp8" || (qformat == "fp8_pc_pt" && !per_channel);
        EXPECT_EQ(converted.report.remarks.size(), 1u + (per_channel ? 0u : 1u) + others);
      }
    }
  }
}

TEST(ConvertFp8, EqualScalesOfAFolderStayOne) {
  const TempFolder temp;
  TinyModel model = make_tiny_model();
  Fp8Folder(model, {.per_channel = false, .same_scale = 0.001f}).write(temp.path());
  const Converted converted({.model_dir = temp.path()});
  expect_values(model, converted, as_it_is);
  EXPECT_EQ(converted.report.quant_algo, "FP8");
  EXPECT_TRUE(converted.type(kQkv).per_tensor);
}

TEST(ConvertFp8, AnotherDtypeOrFormatDequantises) {
  const TempFolder temp;
  TinyModel model = make_tiny_model();
  Fp8Folder(model, {}).write(temp.path());
  expect_values(model, Converted({.model_dir = temp.path(), .dtype = "bfloat16"}), as_bf16);
  const Converted int8({.model_dir = temp.path(), .qformat = "int8_wo"});
  EXPECT_EQ(int8.type(kQkv).format, WeightFormat::kInt8);
}

TEST(ConvertFp8, BadFoldersAreRefusedByName) {
  const std::string up = "model.layers.0.mlp.up_proj.weight";
  struct Case {
    std::function<void(Fp8Folder&)> spoil;
    std::string reason;
  };
  const std::vector<Case> cases = {
      {[&](Fp8Folder& f) { f.erase(up + "_scale"); },
       "tensor " + up + " is F8_E4M3 but there is no " + up + "_scale"},
      {[&](Fp8Folder& f) {
         f.specs[f.find(up + "_scale")].shape = {48, 2};
       },
       "tensor " + up + "_scale has shape [48, 2], expected [], [1], [96] or [96, 1]"},
      {[&](Fp8Folder& f) {
         f.add(up + "_scale_inv", DType::kFloat32, {1, 1}, std::string(4, '\0'));
       },
       up + "_scale_inv holds scales of two-dimensional blocks"},
      {[&](Fp8Folder& f) { f.bytes[f.find(up)][64 * 3 + 5] = '\x7f'; },
       "tensor " + up + " holds nan at row 3, column 5"},
      {[&](Fp8Folder& f) { f.bytes[f.find(up)][64 * 95 + 63] = '\xff'; }, "at row 95, column 63"},
      {[&](Fp8Folder& f) { f.bytes[f.find(up + "_scale")].replace(8, 4, "\0\0\x80\x7f", 4); },
       "tensor " + up + "_scale holds inf, expected finite scales"},
      {[&](Fp8Folder& f) { f.bytes[f.find(up + "_scale")].replace(8, 4, "\0\0\x80\xbf", 4); },
       "_scale holds -1, expected finite scales"},
      {[&](Fp8Folder& f) { f.specs[f.find(up + "_scale")].dtype = DType::kInt32; },
       "_scale has dtype I32, expected F32, F16 or BF16"},
      // A scale beside a weight that is not fp8 would change its values.
      {[](Fp8Folder& f) {
         f.add("model.norm.weight_scale", DType::kFloat32, {1}, std::string(4, '\0'));
       },
       "model.norm.weight_scale"},
  };
  for (const Case& one : cases) {
    for (const char* qformat : {"none", "fp8"}) {
      const TempFolder temp;
      TinyModel model = make_tiny_model();
      Fp8Folder folder(model, {});
      one.spoil(folder);
      folder.write(temp.path() + "/in");
      const Result<ConvertReport> done = convert_checkpoint({.model_dir = temp.path() + "/in",
                                                             .output_dir = temp.path() + "/out",
                                                             .qformat = qformat});
      ASSERT_FALSE(done.ok()) << one.reason;
      EXPECT_NE(done.error().message.find(one.reason), std::string::npos) << done.error().message;
    }
  }
}

TEST(ConvertFp8, AMinimumIsRefused) {
  const TempFolder temp;
  write_hf_folder(make_tiny_model(), temp.path());
  const Result<ConvertReport> done = convert_checkpoint({.model_dir = temp.path(),
                                                         .output_dir = temp.path() + "/out",
                                                         .qformat = "fp8",
                                                         .asymmetric = true});
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace zonda::convert
