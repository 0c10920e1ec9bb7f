// A checkpoint made from a GGUF file holds exactly the values of its blocks.
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "convert/converted.h"

namespace zonda::convert {
namespace {

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

}  // namespace
}  // namespace zonda::convert
