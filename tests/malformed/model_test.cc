// Models that must not be converted: each is refused with its own reason, and a refused conversion
// leaves no folder. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <limits>

#include "base/file.h"
#include "checkpoint/safetensors.h"
#include "convert/tiny_model.h"
#include "test_support/temp_folder.h"
#include "zonda/convert.h"

namespace zonda::convert {
namespace {

namespace fs = std::filesystem;
using checkpoint::GgmlType;
using checkpoint::GgufBuilder;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
const std::string kUp = "model.layers.0.mlp.up_proj.weight";

// Converts and expects this refusal, and that nothing is left beside the input.
void expect_refused(const char* name, ConvertOptions options, const std::string& reason,
                    std::optional<ErrorCode> code = std::nullopt) {
  const TempFolder out;
  options.output_dir = out.path() + "/checkpoint";
  const Result<ConvertReport> done = convert_checkpoint(options);
  ASSERT_FALSE(done.ok()) << name;
  EXPECT_NE(done.error().message.find(reason), std::string::npos)
      << name << ": " << done.error().message;
  if (code) {
    EXPECT_EQ(done.error().code, *code) << name << ": " << done.error().message;
  }
  EXPECT_TRUE(fs::is_empty(out.path())) << name;
}

struct BadModel {
  const char* name;
  std::function<void(TinyModel&)> spoil;
  std::string reason;
  ErrorCode code;
};

constexpr ErrorCode kInvalid = ErrorCode::kInvalidArgument;
constexpr ErrorCode kCorrupt = ErrorCode::kCorrupt;
constexpr ErrorCode kNotFound = ErrorCode::kNotFound;
constexpr ErrorCode kUnsupported = ErrorCode::kUnsupported;

// A config.json with one field set to this value.
std::function<void(TinyModel&)> set(const char* key, Json value) {
  return [key, value](TinyModel& model) { model.config[key] = value; };
}
std::function<void(TinyModel&)> drop(const char* key) {
  return [key](TinyModel& model) { model.config.erase(key); };
}

std::vector<BadModel> bad_configs() {
  return {
      {"no architectures", drop("architectures"), "\"architectures\" is missing", kInvalid},
      {"two architectures", set("architectures", Json::array({"A", "B"})),
       "expected a list of one class name", kInvalid},
      {"architectures is text", set("architectures", "LlamaForCausalLM"),
       "expected a list of one class name", kInvalid},
      {"unknown architecture", set("architectures", Json::array({"BertModel"})),
       "\"BertModel\" is not supported; this version knows LlamaForCausalLM", kUnsupported},
      {"no hidden_size", drop("hidden_size"), "\"hidden_size\" is missing", kInvalid},
      {"hidden_size is text", set("hidden_size", "64"), "\"hidden_size\" is \"64\"", kInvalid},
      {"hidden_size 0", set("hidden_size", 0), "\"hidden_size\" is 0", kInvalid},
      {"hidden_size negative", set("hidden_size", -64), "\"hidden_size\" is -64", kInvalid},
      {"hidden_size enormous", set("hidden_size", 1ll << 40), "\"hidden_size\" is 1099511627776",
       kInvalid},
      {"layers beyond the limit", set("num_hidden_layers", 1000000000),
       "\"num_hidden_layers\" is 1000000000", kInvalid},
      {"vocab_size fractional", set("vocab_size", 50.5), "\"vocab_size\" is 50.5", kInvalid},
      {"heads not divisible", set("num_key_value_heads", 3),
       "num_attention_heads 4 is not a multiple of num_key_value_heads 3", kInvalid},
      {"head_dim odd", set("head_dim", 15), "rotary_dim 15 is odd", kInvalid},
      {"hidden_act unknown", set("hidden_act", "mish"), "hidden_act \"mish\"", kInvalid},
      {"dtype unknown", set("torch_dtype", "float13"), "\"float13\"", kInvalid},
      {"dtype integer", set("torch_dtype", "int8"), "dtype int8", kInvalid},
      {"eos beyond the vocabulary", set("eos_token_id", 50), "eos_token_id 50 is not below",
       kInvalid},
      {"eos negative", set("eos_token_id", -5), "\"eos_token_id\" is -5", kInvalid},
      {"eos is text", set("eos_token_id", "</s>"), "\"eos_token_id\" is \"</s>\"", kInvalid},
      {"unknown rope type", set("rope_scaling", {{"rope_type", "spiral"}, {"factor", 2.0}}),
       "rope_type \"spiral\" is none of", kUnsupported},
      {"unknown rope key",
       set("rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}, {"twist", 1}}),
       "key \"twist\" of rope_scaling is unknown", kUnsupported},
      {"rope without factor", set("rope_scaling", {{"rope_type", "linear"}}), "factor is missing",
       kInvalid},
      {"rope factor 0", set("rope_scaling", {{"rope_type", "linear"}, {"factor", 0}}),
       "factor is 0", kInvalid},
      {"quantised by another tool", set("quantization_config", {{"bits", 4}}),
       "quantised folders are read only if their weights are fp8", kUnsupported},
      {"fp8 in blocks",
       set("quantization_config",
           {{"quant_method", "fp8"}, {"weight_block_size", Json::array({128, 128})}}),
       "\"weight_block_size\" is [128,128]; scales of two-dimensional blocks", kUnsupported},
      {"integers of compressed-tensors",
       set("quantization_config", Json::parse(R"({"quant_method": "compressed-tensors",
         "config_groups": {"a": {"weights": {"num_bits": 4, "type": "int"}}}})")),
       "only 8-bit float weights are read", kUnsupported},
      {"more layers than tensors", set("num_hidden_layers", 3),
       "lacks 9 tensors of LlamaForCausalLM: model.layers.2.input_layernorm.weight", kNotFound},
      {"fewer layers than tensors", set("num_hidden_layers", 1),
       "has 9 tensors that LlamaForCausalLM does not use: model.layers.1.", kCorrupt},
      {"untied without a head", set("tie_word_embeddings", false),
       "lacks 1 tensors of LlamaForCausalLM: lm_head.weight", kNotFound},
      {"biases that are not there", set("attention_bias", true), "lacks 8 tensors", kNotFound},
      {"vocabulary of another size", set("vocab_size", 51),
       "tensor model.embed_tokens.weight has shape [50, 64], expected [51, 64]", kCorrupt},
      {"intermediate_size of another model", set("intermediate_size", 97),
       "has shape [96, 64], expected [97, 64]", kCorrupt},
  };
}

std::vector<BadModel> bad_weights() {
  const auto value = [](const std::string& name, size_t index, float number) {
    return [=](TinyModel& model) { model.weights[name].values[index] = number; };
  };
  return {
      {"NaN in a matrix", value(kUp, 64 * 3 + 5, kNan),
       "tensor " + kUp + " holds nan at row 3, column 5", kCorrupt},
      {"infinity in a matrix", value(kUp, 64 * 95 + 63, -kInf),
       "tensor " + kUp + " holds -inf at row 95, column 63", kCorrupt},
      {"NaN in a norm", value("model.norm.weight", 7, kNan),
       "tensor model.norm.weight holds nan at row 0, column 7", kCorrupt},
      {"NaN in the last part of a stack", value("model.layers.1.self_attn.v_proj.weight", 64, kNan),
       "tensor model.layers.1.self_attn.v_proj.weight holds nan at row 1, column 0", kCorrupt},
      {"tensor missing", [](TinyModel& model) { model.weights.erase(kUp); },
       "lacks 1 tensors of LlamaForCausalLM: " + kUp, kNotFound},
      {"tensor extra",
       [](TinyModel& model) {
         model.weights["x.weight"] = {1, 1, {0.0f}};
       },
       "has 1 tensors that LlamaForCausalLM does not use: x.weight", kCorrupt},
      {"matrix transposed",
       [](TinyModel& model) { std::swap(model.weights[kUp].rows, model.weights[kUp].cols); },
       "tensor " + kUp + " has shape [64, 96], expected [96, 64]", kCorrupt},
      {"vector as a matrix", [](TinyModel& model) { model.weights["model.norm.weight"].cols = 1; },
       "tensor model.norm.weight has shape [64, 1], expected [64]", kCorrupt},
  };
}

TEST(MalformedModel, BadHuggingFaceFoldersAreRefusedAndLeaveNothing) {
  for (const std::vector<BadModel>& models : {bad_configs(), bad_weights()}) {
    for (const BadModel& bad : models) {
      const TempFolder temp;
      TinyModel model = make_tiny_model();
      bad.spoil(model);
      write_hf_folder(model, temp.path());
      expect_refused(bad.name, {.model_dir = temp.path()}, bad.reason, bad.code);
    }
  }
}

TEST(MalformedModel, FoldersThatAreNoModelAreRefused) {
  const TempFolder temp;
  expect_refused("nothing there", {.model_dir = temp.path() + "/none"}, "does not exist",
                 kNotFound);
  expect_refused("empty folder", {.model_dir = temp.path()},
                 "has neither config.json nor a .gguf file", kNotFound);
  ASSERT_TRUE(write_file(temp.path() + "/a.gguf", "GGUF").ok());
  ASSERT_TRUE(write_file(temp.path() + "/b.gguf", "GGUF").ok());
  expect_refused("two GGUF files", {.model_dir = temp.path()}, "has 2 .gguf files", kInvalid);
  expect_refused("a cut GGUF file", {.model_dir = temp.path() + "/a.gguf"}, "inside the version",
                 kCorrupt);
  ASSERT_TRUE(write_file(temp.path() + "/config.json", "{\"a\":").ok());
  expect_refused("config.json cut", {.model_dir = temp.path()}, "config.json", kCorrupt);
  ASSERT_TRUE(write_file(temp.path() + "/config.json", "[1]").ok());
  expect_refused("config.json a list", {.model_dir = temp.path()}, "is not a JSON object",
                 kInvalid);
  ASSERT_TRUE(write_file(temp.path() + "/config.json", R"({"a":1,"a":2})").ok());
  expect_refused("a key twice", {.model_dir = temp.path()}, "key \"a\" appears twice", kCorrupt);
}

TEST(MalformedModel, BadCompanionFilesAndTensorTypesAreRefused) {
  const TempFolder temp;
  const TinyModel model = make_tiny_model();
  write_hf_folder(model, temp.path());
  for (const auto& [content, reason] : std::vector<std::pair<std::string, std::string>>{
           {"[]", "is not a JSON object"},
           {"{", "generation_config.json"},
           {R"({"eos_token_id": "x"})", "eos_token_id is \"x\""},
           {R"({"eos_token_id": [1, -1]})", "eos_token_id is [1,-1]"},
           {R"({"eos_token_id": 77})", "eos_token_id 77 is not below vocab_size 50"}}) {
    ASSERT_TRUE(write_file(temp.path() + "/generation_config.json", content).ok());
    expect_refused(content.c_str(), {.model_dir = temp.path()}, reason);
  }
  fs::remove(temp.path() + "/generation_config.json");
  fs::remove(temp.path() + "/model.safetensors");
  expect_refused("no weights", {.model_dir = temp.path()}, "has no *.safetensors file", kNotFound);

  std::vector<checkpoint::TensorSpec> specs;
  for (const auto& [name, matrix] : model.weights) {
    specs.push_back({name, DType::kInt8, matrix.shape()});
  }
  auto writer =
      checkpoint::SafetensorsWriter::create(temp.path() + "/model.safetensors", specs, {});
  ASSERT_TRUE(writer.ok());
  for (const auto& [name, matrix] : model.weights) {
    ASSERT_TRUE(writer->write(name, 0, std::vector<std::byte>(matrix.values.size())).ok());
  }
  ASSERT_TRUE(writer->finish().ok());
  expect_refused("integer weights", {.model_dir = temp.path()},
                 "has dtype I8, expected F32, F16, BF16 or F8_E4M3", kUnsupported);
}

TEST(MalformedModel, ValuesThatTheAskedTypeCannotHoldAreRefused) {
  const TempFolder temp;
  TinyModel model = make_tiny_model();
  model.weights[kUp].values[70] = 1e6f;
  model.weights["model.layers.0.mlp.down_proj.weight"].values[1] = 3.4e38f;
  write_hf_folder(model, temp.path());
  expect_refused("too large for float16", {.model_dir = temp.path(), .dtype = "float16"},
                 "tensor " + kUp + " holds 1000000 at row 1, column 6, which float16 cannot hold",
                 kUnsupported);
  expect_refused("too large for bfloat16", {.model_dir = temp.path(), .dtype = "bfloat16"},
                 "which bfloat16 cannot hold", kUnsupported);
  expect_refused("scale too large",
                 {.model_dir = temp.path(), .qformat = "int8_wo", .group_size = 32},
                 "whose int8 scale overflows float16", kUnsupported);
}

TEST(MalformedModel, BadOptionsAreRefused) {
  const TempFolder temp;
  write_hf_folder(make_tiny_model(), temp.path());
  expect_refused("dtype", {.model_dir = temp.path(), .dtype = "fp8"},
                 "dtype \"fp8\" is none of auto, float32, float16, bfloat16", kInvalid);
  expect_refused("qformat", {.model_dir = temp.path(), .qformat = "int3_wo"},
                 "qformat \"int3_wo\" is none of none, fp8, fp8_pc_pt, int8_wo, int4_wo", kInvalid);
  expect_refused("group_size", {.model_dir = temp.path(), .qformat = "int8_wo", .group_size = 48},
                 "group_size 48 is none of 0 (per channel), 32, 64, 128", kInvalid);
  expect_refused("exclude_modules",
                 {.model_dir = temp.path(), .qformat = "int8_wo", .exclude_modules = {"lm_haed"}},
                 "exclude_modules \"lm_haed\" fits no module", kInvalid);
}

TEST(MalformedModel, NoFolderIsReplacedThatIsTheSourceOrNoCheckpoint) {
  const TempFolder temp;
  const std::string in = temp.path() + "/in";
  write_hf_folder(make_tiny_model(), in);
  for (const std::string& out : {in, in + "/", in + "/../in", temp.path()}) {
    const Result<ConvertReport> done =
        convert_checkpoint({.model_dir = in, .output_dir = out, .replace = true});
    ASSERT_FALSE(done.ok()) << out;
    EXPECT_NE(done.error().message.find("holds the source"), std::string::npos) << out;
  }
  fs::create_directories(temp.path() + "/precious");
  ASSERT_TRUE(write_file(temp.path() + "/precious/thesis.txt", "x").ok());
  const Result<ConvertReport> done = convert_checkpoint(
      {.model_dir = in, .output_dir = temp.path() + "/precious", .replace = true});
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().message.find("is not a checkpoint"), std::string::npos);
  EXPECT_TRUE(fs::exists(temp.path() + "/precious/thesis.txt"));
  EXPECT_TRUE(fs::exists(in + "/config.json"));
}

TEST(MalformedModel, ACheckpointIsNotConvertedAgain) {
  const TempFolder temp;
  write_hf_folder(make_tiny_model(), temp.path() + "/in");
  const std::string out = temp.path() + "/out";
  ASSERT_TRUE(convert_checkpoint({.model_dir = temp.path() + "/in", .output_dir = out}).ok());
  expect_refused("checkpoint", {.model_dir = out}, "is that of a checkpoint", kInvalid);
}

struct BadGguf {
  const char* name;
  std::function<void(GgufBuilder&)> spoil;
  std::string reason;
  ErrorCode code;
};

void replace_u32(GgufBuilder& builder, const char* key, uint32_t value) {
  builder.remove(key);
  builder.u32(key, value);
}

std::vector<BadGguf> bad_ggufs() {
  return {
      {"no architecture", [](GgufBuilder& b) { b.remove("general.architecture"); },
       "has no metadata general.architecture", kNotFound},
      {"unknown architecture",
       [](GgufBuilder& b) {
         b.remove("general.architecture");
         b.string("general.architecture", "mamba");
       },
       "general.architecture \"mamba\" is not supported; this version knows llama", kUnsupported},
      {"architecture is a number",
       [](GgufBuilder& b) { replace_u32(b, "general.architecture", 1); },
       "metadata general.architecture is not a string", kCorrupt},
      {"no block_count", [](GgufBuilder& b) { b.remove("llama.block_count"); },
       "has no metadata llama.block_count", kNotFound},
      {"block_count is text",
       [](GgufBuilder& b) {
         b.remove("llama.block_count");
         b.string("llama.block_count", "2");
       },
       "metadata llama.block_count is not an integer", kCorrupt},
      {"no heads", [](GgufBuilder& b) { replace_u32(b, "llama.attention.head_count", 0); },
       "\"num_attention_heads\" is 0", kInvalid},
      {"no norm epsilon",
       [](GgufBuilder& b) { b.remove("llama.attention.layer_norm_rms_epsilon"); },
       "has no metadata llama.attention.layer_norm_rms_epsilon", kNotFound},
      {"experts", [](GgufBuilder& b) { b.u32("llama.expert_count", 8); },
       "metadata llama.expert_count is not known to this version", kUnsupported},
      {"a key nobody knows", [](GgufBuilder& b) { b.f32("llama.logit_scale", 0.5f); },
       "metadata llama.logit_scale is not known", kUnsupported},
      {"layers that differ",
       [](GgufBuilder& b) {
         b.remove("llama.feed_forward_length");
         b.integers("llama.feed_forward_length", {96, 128});
       },
       "llama.feed_forward_length differs between layers", kUnsupported},
      {"value length of its own", [](GgufBuilder& b) { b.u32("llama.attention.value_length", 8); },
       "llama.attention.value_length 8 differs", kUnsupported},
      {"partial rotary", [](GgufBuilder& b) { replace_u32(b, "llama.rope.dimension_count", 8); },
       "llama.rope.dimension_count 8 differs from the head size 16", kUnsupported},
      {"unknown rope scaling",
       [](GgufBuilder& b) { b.string("llama.rope.scaling.type", "spiral"); },
       "llama.rope.scaling.type \"spiral\"", kUnsupported},
      {"linear scaling without factor",
       [](GgufBuilder& b) { b.string("llama.rope.scaling.type", "linear"); },
       "has no metadata llama.rope.scaling.factor", kNotFound},
      {"rope factors of another length",
       [](GgufBuilder& b) {
         b.tensor("rope_freqs.weight", {4}, GgmlType::kF32, std::string(16, '\0'));
       },
       "tensor rope_freqs.weight is not F32 [8]", kCorrupt},
      {"rope factors of 0",
       [](GgufBuilder& b) {
         b.tensor("rope_freqs.weight", {8}, GgmlType::kF32, std::string(32, '\0'));
       },
       "tensor rope_freqs.weight holds 0, expected values > 0", kCorrupt},
      {"one file of several", [](GgufBuilder& b) { b.u32("split.count", 3); },
       "is one of 3 files (split.count)", kUnsupported},
      {"more layers than tensors", [](GgufBuilder& b) { replace_u32(b, "llama.block_count", 3); },
       "lacks 9 tensors of LlamaForCausalLM: blk.2.attn_norm.weight", kNotFound},
      {"fewer layers than tensors", [](GgufBuilder& b) { replace_u32(b, "llama.block_count", 1); },
       "has 9 tensors that LlamaForCausalLM does not use: blk.1.", kCorrupt},
      {"another width", [](GgufBuilder& b) { replace_u32(b, "llama.feed_forward_length", 64); },
       "has shape [96, 64], expected [64, 64]", kCorrupt},
      {"no embedding",
       [](GgufBuilder& b) {
         std::erase_if(b.tensors, [](auto& t) { return t.name == "token_embd.weight"; });
       },
       "has no tensor token_embd.weight", kNotFound},
      {"eos beyond the vocabulary",
       [](GgufBuilder& b) { replace_u32(b, "tokenizer.ggml.eos_token_id", 50); },
       "eos_token_id 50 is not below vocab_size 50", kInvalid},
      {"NaN scale",
       [](GgufBuilder& b) {
         for (GgufBuilder::Tensor& tensor : b.tensors) {
           if (tensor.name == "blk.1.ffn_up.weight") {
             tensor.bytes.replace(36, 2, "\xff\x7f");
           }
         }
       },
       "tensor blk.1.ffn_up.weight has a non-finite scale at row 1, column 0", kCorrupt},
  };
}

TEST(MalformedModel, BadGgufFilesAreRefusedAndLeaveNothing) {
  for (const BadGguf& bad : bad_ggufs()) {
    const TempFolder temp;
    TinyModel model = make_tiny_model();
    GgufBuilder builder = make_gguf(model, [](const std::string& name) {
      return name.find("embed") != std::string::npos ? GgmlType::kF16 : GgmlType::kQ4_0;
    });
    bad.spoil(builder);
    const std::string path = temp.path() + "/model.gguf";
    ASSERT_TRUE(write_file(path, builder.build()).ok());
    expect_refused(bad.name, {.model_dir = path}, bad.reason, bad.code);
  }
}

// A tokenizer that the metadata describes wrongly.
TEST(MalformedModel, BadGgufTokenizersAreRefused) {
  struct Case {
    std::function<void(GgufBuilder&)> spoil;
    std::string reason;
  };
  const std::vector<std::string> merges = {"a b"};
  const std::vector<Case> cases = {
      {[&](GgufBuilder& b) { b.strings("tokenizer.ggml.merges", merges); },
       "has no metadata tokenizer.ggml.tokens"},
      {[](GgufBuilder& b) {
         b.strings("tokenizer.ggml.tokens", {"a", "b", "c"});
       },
       "has no metadata tokenizer.ggml.merges"},
      {[&](GgufBuilder& b) {
         b.strings("tokenizer.ggml.tokens", {"a", "b", "a"})
             .strings("tokenizer.ggml.merges", merges);
       },
       "token 2 repeats the text of an earlier one"},
      {[&](GgufBuilder& b) {
         b.strings("tokenizer.ggml.tokens", {"a", "b", "\xff"});
         b.strings("tokenizer.ggml.merges", merges);
       },
       "token 2 is not valid UTF-8"},
      {[&](GgufBuilder& b) {
         b.strings("tokenizer.ggml.tokens", {"a", "b", "c"});
         b.strings("tokenizer.ggml.merges", {"ab"});
       },
       "merge 0 is not two tokens"},
      {[&](GgufBuilder& b) {
         b.strings("tokenizer.ggml.tokens", {"a", "b", "c"});
         b.strings("tokenizer.ggml.merges", merges).integers("tokenizer.ggml.token_type", {1, 1});
       },
       "tokenizer.ggml.token_type has 2 entries, expected 3"},
      {[&](GgufBuilder& b) {
         b.strings("tokenizer.ggml.tokens", {"a", "b"}).strings("tokenizer.ggml.merges", merges);
       },
       "tokenizer.ggml.eos_token_id is 2, expected 0 to 1"},
  };
  for (const Case& bad : cases) {
    const TempFolder temp;
    TinyModel model = make_tiny_model();
    GgufBuilder builder = make_gguf(model, [](const std::string&) { return GgmlType::kF32; });
    builder.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "smollm");
    bad.spoil(builder);
    const std::string path = temp.path() + "/model.gguf";
    ASSERT_TRUE(write_file(path, builder.build()).ok());
    expect_refused(bad.reason.c_str(), {.model_dir = path}, bad.reason);
  }
}

}  // namespace
}  // namespace zonda::convert
