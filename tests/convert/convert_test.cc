// A checkpoint holds exactly the values that the source and the options say.
// SPDX-License-Identifier: Apache-2.0
#include "zonda/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "convert/tiny_model.h"
#include "models/config.h"
#include "test_support/temp_folder.h"

namespace zonda::convert {
namespace {

namespace fs = std::filesystem;
using checkpoint::Checkpoint;
using checkpoint::GgmlType;

const std::string kQkv = "transformer.layers.0.attention.qkv.weight";
const std::string kTable = "transformer.vocab_embedding.weight";

// Converts into temp/out and opens the result.
class Converted {
 public:
  explicit Converted(const ConvertOptions& options) {
    ConvertOptions own = options;
    own.output_dir = temp_.path() + "/out";
    const Result<ConvertReport> done = convert_checkpoint(own);
    EXPECT_TRUE(done.ok()) << done.error().message;
    report = *done;
    checkpoint.emplace(Checkpoint::open(own.output_dir).value());
  }
  std::string file(const std::string& name) const {
    return read_file(temp_.path() + "/out/" + name).value();
  }
  std::vector<float> matrix(const std::string& name) const {
    const WeightView view = checkpoint->weight(name).value();
    std::vector<float> values(static_cast<size_t>(view.type.rows * view.type.cols));
    for (int64_t row = 0; row < view.type.rows; ++row) {
      dequantize_row(view, row, values.data() + row * view.type.cols);
    }
    return values;
  }
  WeightType type(const std::string& name) const { return checkpoint->weight(name).value().type; }

  ConvertReport report;
  std::optional<Checkpoint> checkpoint;

 private:
  TempFolder temp_;
};

// Our name of each weight, with the sources whose rows it holds.
std::vector<std::pair<std::string, std::vector<std::string>>> name_table(const TinyModel& model) {
  std::vector<std::pair<std::string, std::vector<std::string>>> table = {
      {kTable, {"model.embed_tokens.weight"}}, {"transformer.ln_f.weight", {"model.norm.weight"}}};
  for (const std::string i : {"0", "1"}) {
    const std::string ours = "transformer.layers." + i + ".";
    const std::string hf = "model.layers." + i + ".";
    const auto add = [&](const std::string& to, std::vector<std::string> from) {
      for (std::string& name : from) {
        name = hf + name;
      }
      table.emplace_back(ours + to, std::move(from));
    };
    add("input_layernorm.weight", {"input_layernorm.weight"});
    add("post_layernorm.weight", {"post_attention_layernorm.weight"});
    for (const std::string end : {".weight", ".bias"}) {
      if (model.weights.contains(hf + "self_attn.q_proj" + end)) {
        add("attention.qkv" + end,
            {"self_attn.q_proj" + end, "self_attn.k_proj" + end, "self_attn.v_proj" + end});
        add("attention.dense" + end, {"self_attn.o_proj" + end});
      }
    }
    add("mlp.fc.weight", {"mlp.gate_proj.weight"});
    add("mlp.gate.weight", {"mlp.up_proj.weight"});
    add("mlp.proj.weight", {"mlp.down_proj.weight"});
  }
  if (model.weights.contains("lm_head.weight")) {
    table.emplace_back("lm_head.weight", std::vector<std::string>{"lm_head.weight"});
  }
  return table;
}

// Every weight of the checkpoint equals `expected` of the source's values.
void expect_values(const TinyModel& model, const Converted& converted,
                   const std::function<float(float)>& expected) {
  std::set<std::string> names;
  for (const auto& [ours, sources] : name_table(model)) {
    std::vector<float> values;
    bool vector = false;
    for (const std::string& source : sources) {
      const Matrix& matrix = model.weights.at(source);
      vector = matrix.cols == 0;
      values.insert(values.end(), matrix.values.begin(), matrix.values.end());
    }
    if (vector) {
      const std::span<const float> found = converted.checkpoint->vector(ours).value();
      EXPECT_EQ(std::vector<float>(found.begin(), found.end()), values) << ours;
    } else {
      for (float& value : values) {
        value = expected(value);
      }
      EXPECT_EQ(converted.matrix(ours), values) << ours;
    }
    names.insert(ours);
  }
  EXPECT_EQ(converted.report.weights, static_cast<int64_t>(names.size()));
}

float as_bf16(float value) { return bf16_to_float(float_to_bf16(value)); }
float as_f16(float value) { return f16_to_float(float_to_f16(value)); }
float as_it_is(float value) { return value; }

std::string write_gguf(const TempFolder& temp, const checkpoint::GgufBuilder& builder) {
  const std::string path = temp.path() + "/model.gguf";
  EXPECT_TRUE(write_file(path, builder.build()).ok());
  return path;
}

GgmlType f32(const std::string&) { return GgmlType::kF32; }

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

TEST(ConvertGguf, TheSameWeightsGiveTheSameCheckpointAsTheHfFolder) {
  for (const bool tied : {true, false}) {
    const TempFolder hf;
    const TempFolder gguf;
    TinyModel model = make_tiny_model({.tied = tied, .bias = true});
    const std::string path = write_gguf(gguf, make_gguf(model, f32));
    write_hf_folder(model, hf.path());
    const Converted from_hf({.model_dir = hf.path()});
    const Converted from_file({.model_dir = path});
    const Converted from_folder({.model_dir = gguf.path()});
    EXPECT_EQ(from_hf.file("rank0.safetensors"), from_file.file("rank0.safetensors"));
    EXPECT_EQ(from_hf.file("rank0.safetensors"), from_folder.file("rank0.safetensors"));
    EXPECT_EQ(from_hf.checkpoint->config(), from_file.checkpoint->config());
  }
}

// What a weight becomes under auto if all of its parts have these types.
TEST(ConvertGguf, ExactFormatsStayQuantisedWithEveryValueUnchanged) {
  struct Case {
    GgmlType type;
    WeightFormat format;
    bool minimum;
    const char* algo;
  };
  for (const Case& one : {Case{GgmlType::kQ4_0, WeightFormat::kInt4, false, "W4A16"},
                          Case{GgmlType::kQ4_1, WeightFormat::kInt4, true, "W4A16"},
                          Case{GgmlType::kQ5_0, WeightFormat::kInt8, false, "W8A16"},
                          Case{GgmlType::kQ5_1, WeightFormat::kInt8, true, "W8A16"},
                          Case{GgmlType::kQ8_0, WeightFormat::kInt8, false, "W8A16"}}) {
    const TempFolder temp;
    TinyModel model = make_tiny_model({.tied = false});
    const std::string path =
        write_gguf(temp, make_gguf(model, [&](const std::string&) { return one.type; }));
    const Converted converted({.model_dir = path});
    expect_values(model, converted, as_it_is);
    EXPECT_EQ(converted.type(kQkv), (WeightType{one.format, 128, 64, 32, one.minimum}));
    EXPECT_EQ(converted.type("lm_head.weight").format, one.format);
    EXPECT_EQ(converted.report.quant_algo, one.algo);
    EXPECT_EQ(converted.checkpoint->config()["quantization"]["group_size"], 32);
    EXPECT_EQ(converted.checkpoint->config()["quantization"]["has_zero_point"], one.minimum);
  }
}

TEST(ConvertGguf, PartsOfDifferentExactFormatsMeetInOneThatHoldsBoth) {
  constexpr std::array kExact = {GgmlType::kQ4_0, GgmlType::kQ4_1, GgmlType::kQ5_0, GgmlType::kQ5_1,
                                 GgmlType::kQ8_0};
  for (const GgmlType q : kExact) {
    for (const GgmlType v : kExact) {
      const TempFolder temp;
      TinyModel model = make_tiny_model();
      const auto type_of = [&](const std::string& name) {
        return name.find("v_proj") != std::string::npos ? v : q;
      };
      const Converted converted({.model_dir = write_gguf(temp, make_gguf(model, type_of))});
      expect_values(model, converted, as_it_is);
      EXPECT_TRUE(is_quantized(converted.type(kQkv).format));
    }
  }
}

TEST(ConvertGguf, AScaleWhoseMinimumOverflowsMakesTheMixBfloat16) {
  const TempFolder temp;
  TinyModel model = make_tiny_model();
  const auto type_of = [](const std::string& name) {
    return name.find("v_proj") != std::string::npos ? GgmlType::kQ4_0 : GgmlType::kQ4_1;
  };
  checkpoint::GgufBuilder builder = make_gguf(model, type_of);
  for (checkpoint::GgufBuilder::Tensor& tensor : builder.tensors) {
    if (tensor.name == "blk.0.attn_v.weight") {
      const uint16_t large = float_to_f16(20000.0f);
      tensor.bytes.replace(0, 2, reinterpret_cast<const char*>(&large), 2);
    }
  }
  const Converted converted({.model_dir = write_gguf(temp, builder)});
  EXPECT_EQ(converted.type(kQkv).format, WeightFormat::kBFloat16);
  EXPECT_EQ(converted.type("transformer.layers.1.attention.qkv.weight").format,
            WeightFormat::kInt4);
  EXPECT_EQ(converted.report.quant_algo, "MIXED_PRECISION");
}

TEST(ConvertGguf, KQuantsAndMixesOfKindsBecomeBfloat16AndPlainFloatsStay) {
  for (const GgmlType type : {GgmlType::kQ4_K, GgmlType::kQ5_K, GgmlType::kQ6_K}) {
    const TempFolder temp;
    TinyModel model = make_tiny_model({.hidden = 256, .ffn = 256});
    const auto type_of = [&](const std::string& name) {
      return name.find("o_proj") != std::string::npos ? GgmlType::kQ8_0 : type;
    };
    const Converted converted({.model_dir = write_gguf(temp, make_gguf(model, type_of))});
    EXPECT_EQ(converted.type(kQkv).format, WeightFormat::kBFloat16);
    EXPECT_EQ(converted.type("transformer.layers.0.attention.dense.weight").format,
              WeightFormat::kInt8);
    EXPECT_EQ(converted.report.dtype, "bfloat16");
    EXPECT_EQ(converted.report.quant_algo, "MIXED_PRECISION");
    std::vector<float> expected = model.weights["model.layers.0.mlp.up_proj.weight"].values;
    for (float& value : expected) {
      value = as_bf16(value);
    }
    EXPECT_EQ(converted.matrix("transformer.layers.0.mlp.gate.weight"), expected);
  }
  for (const auto& [type, format] : {std::pair(GgmlType::kF32, WeightFormat::kFloat32),
                                     std::pair(GgmlType::kF16, WeightFormat::kFloat16),
                                     std::pair(GgmlType::kBF16, WeightFormat::kBFloat16)}) {
    const TempFolder temp;
    TinyModel model = make_tiny_model();
    const auto type_of = [&](const std::string&) { return type; };
    const Converted converted({.model_dir = write_gguf(temp, make_gguf(model, type_of))});
    EXPECT_EQ(converted.type(kQkv).format, format);
    EXPECT_EQ(converted.report.dtype, weight_format_name(format));
  }
}

TEST(ConvertGguf, AnAskedDtypeUndoesTheQuantisation) {
  const TempFolder temp;
  TinyModel model = make_tiny_model();
  const std::string path =
      write_gguf(temp, make_gguf(model, [](const std::string&) { return GgmlType::kQ4_1; }));
  expect_values(model, Converted({.model_dir = path, .dtype = "float32"}), as_it_is);
  expect_values(model, Converted({.model_dir = path, .dtype = "bfloat16"}), as_bf16);
}

TEST(ConvertGguf, RopeDivisorsBecomeLongropeOfOneList) {
  const TempFolder temp;
  TinyModel model = make_tiny_model();
  checkpoint::GgufBuilder builder = make_gguf(model, f32);
  std::string factors;
  for (const float factor : {1.0f, 1.0f, 1.0f, 2.0f, 4.0f, 8.0f, 8.0f, 8.0f}) {
    checkpoint::append_value<float>(factors, factor);
  }
  builder.tensor("rope_freqs.weight", {8}, GgmlType::kF32, factors);
  const Converted converted({.model_dir = write_gguf(temp, builder)});
  const Json& scaling = converted.checkpoint->config()["rotary_scaling"];
  EXPECT_EQ(scaling["rope_type"], "longrope");
  EXPECT_EQ(scaling["long_factor"], scaling["short_factor"]);
  EXPECT_EQ(scaling["long_factor"][4], 4.0);
  EXPECT_EQ(scaling["attention_factor"], 1.0);
}

TEST(ConvertGguf, RopeScalingOfTheMetadataIsCarriedOver) {
  const TempFolder temp;
  TinyModel model = make_tiny_model();
  checkpoint::GgufBuilder builder = make_gguf(model, f32);
  builder.string("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.factor", 4.0f);
  builder.u32("llama.rope.scaling.original_context_length", 64);
  const Converted converted({.model_dir = write_gguf(temp, builder)});
  const Json& scaling = converted.checkpoint->config()["rotary_scaling"];
  EXPECT_EQ(scaling["rope_type"], "yarn");
  EXPECT_EQ(scaling["factor"], 4.0);
  EXPECT_EQ(scaling["original_max_position_embeddings"], 64);
}

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
