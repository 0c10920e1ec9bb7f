// A checkpoint made from a Hugging Face folder holds what the folder and the options say.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "convert/converted.h"
#include "models/config.h"

namespace zonda::convert {
namespace {

namespace fs = std::filesystem;

TEST(ConvertHf, WeightsAreRenamedStackedAndCastToTheAskedDtype) {
  struct Case {
    DType stored;
    const char* dtype;
    std::function<float(float)> expected;
  };
  const std::vector<Case> cases = {
      {DType::kFloat32, "auto", as_it_is},
      {DType::kFloat32, "bfloat16", as_bf16},
      {DType::kFloat32, "float16", as_f16},
      {DType::kBFloat16, "float32", as_bf16},
      {DType::kFloat16, "float32", as_f16},
      {DType::kFloat16, "bfloat16", [](float value) { return as_bf16(as_f16(value)); }},
  };
  for (const bool tied : {true, false}) {
    for (const Case& one : cases) {
      const TempFolder temp;
      TinyModel model = make_tiny_model({.tied = tied, .bias = !tied});
      for (auto& [name, matrix] : model.weights) {
        for (float& value : matrix.values) {
          value = matrix.cols != 0                 ? value
                  : one.stored == DType::kFloat16  ? as_f16(value)
                  : one.stored == DType::kBFloat16 ? as_bf16(value)
                                                   : value;
        }
      }
      write_hf_folder(model, temp.path(), one.stored);
      const Converted converted({.model_dir = temp.path(), .dtype = one.dtype});
      expect_values(model, converted, one.expected);
      EXPECT_EQ(converted.report.dtype, std::string(one.dtype) == "auto" ? "float32" : one.dtype);
      EXPECT_EQ(converted.report.quant_algo, "");
    }
  }
}

TEST(ConvertHf, AutoTakesTheDtypeOfConfigJson) {
  for (const char* key : {"torch_dtype", "dtype"}) {
    const TempFolder temp;
    TinyModel model = make_tiny_model();
    model.config.erase("torch_dtype");
    model.config[key] = "bfloat16";
    write_hf_folder(model, temp.path());
    expect_values(model, Converted({.model_dir = temp.path()}), as_bf16);
  }
}

TEST(ConvertHf, AutoWithoutADtypeKeepsThatOfTheTensors) {
  const TempFolder temp;
  TinyModel model = make_tiny_model();
  model.config.erase("torch_dtype");
  write_hf_folder(model, temp.path(), DType::kFloat16);
  const Converted converted({.model_dir = temp.path()});
  EXPECT_EQ(converted.report.dtype, "float16");
  EXPECT_EQ(converted.type(kQkv).format, WeightFormat::kFloat16);
}

TEST(ConvertHf, EveryGoldenModelConverts) {
  int models = 0;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(ZONDA_SOURCE_DIR "/tests/golden/tiny")) {
    const Converted converted({.model_dir = entry.path().string()});
    const Result<models::ModelConfig> config =
        models::parse_checkpoint_config(converted.checkpoint->config());
    ASSERT_TRUE(config.ok()) << config.error().message;
    if (entry.path().filename() == "eos_list_sharded") {
      EXPECT_EQ(config->eos_token_ids, (std::vector<int32_t>{2, 3}));
    }
    ++models;
  }
  EXPECT_GE(models, 10);
}

TEST(ConvertHf, StopIdsAreTheUnionOfConfigAndGenerationConfig) {
  const TempFolder temp;
  const TinyModel model = make_tiny_model();
  write_hf_folder(model, temp.path());
  const std::string generation = R"({"eos_token_id": [7, 2], "temperature": 0.5})";
  ASSERT_TRUE(write_file(temp.path() + "/generation_config.json", generation).ok());
  const Converted converted({.model_dir = temp.path()});
  EXPECT_EQ(converted.checkpoint->config()["eos_token_id"], Json::parse("[2, 7]"));
  EXPECT_EQ(parse_json(converted.file("generation_config.json"), "g").value(),
            parse_json(generation, "g").value());
}

TEST(ConvertHf, TextFilesAreCopiedByteForByteAndGenerationConfigIsAlwaysThere) {
  const TempFolder temp;
  write_hf_folder(make_tiny_model(), temp.path());
  const std::vector<std::string> names = {"tokenizer.json",
                                          "tokenizer_config.json",
                                          "special_tokens_map.json",
                                          "chat_template.jinja",
                                          "vocab.json",
                                          "merges.txt",
                                          "added_tokens.json",
                                          "tokenizer.model"};
  for (const std::string& name : names) {
    ASSERT_TRUE(write_file(temp.path() + "/" + name, "\xff content of " + name).ok());
  }
  const Converted converted({.model_dir = temp.path()});
  for (const std::string& name : names) {
    EXPECT_EQ(converted.file(name), "\xff content of " + name);
  }
  EXPECT_EQ(converted.report.files.size(), names.size() + 1);
  EXPECT_TRUE(converted.report.remarks.empty());
  EXPECT_EQ(parse_json(converted.file("generation_config.json"), "g").value()["eos_token_id"],
            Json::parse("[2]"));
}

TEST(ConvertHf, AFolderWithoutATokenizerConvertsAndSaysSo) {
  const TempFolder temp;
  write_hf_folder(make_tiny_model(), temp.path());
  const Converted converted({.model_dir = temp.path()});
  ASSERT_EQ(converted.report.remarks.size(), 1u);
  EXPECT_TRUE(converted.report.remarks[0].starts_with("no tokenizer:"));
}

TEST(ConvertHf, ATiedHeadThatIsStoredOnceMoreIsLeftOutIfItIsTheEmbedding) {
  const TempFolder temp;
  TinyModel model = make_tiny_model();
  model.weights["lm_head.weight"] = model.weights["model.embed_tokens.weight"];
  write_hf_folder(model, temp.path());
  const Converted converted({.model_dir = temp.path()});
  EXPECT_FALSE(converted.checkpoint->has("lm_head.weight"));
  model.weights["lm_head.weight"].values[5] += 1.0f;
  write_hf_folder(model, temp.path());
  const Result<ConvertReport> refused =
      convert_checkpoint({.model_dir = temp.path(), .output_dir = temp.path() + "/out"});
  EXPECT_NE(refused.error().message.find("does not use: lm_head.weight"), std::string::npos);
}

}  // namespace
}  // namespace zonda::convert
