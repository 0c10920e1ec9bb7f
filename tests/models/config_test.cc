// SPDX-License-Identifier: Apache-2.0
#include "models/config.h"

#include <gtest/gtest.h>

#include <set>

#include "graph/verify.h"
#include "models/architecture.h"

namespace zonda::models {
namespace {

Json hf_config() {
  return Json::parse(
      R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 100, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
      "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": true,
      "eos_token_id": [2, 3], "bos_token_id": 1, "torch_dtype": "bfloat16"})");
}

const Architecture& llama() { return *find_architecture("LlamaForCausalLM").value(); }

std::string refusal(const Json& json) {
  const Result<ModelConfig> config = llama().parse_hf_config(json);
  return config.ok() ? "accepted" : config.error().message;
}

TEST(Config, CheckpointJsonRoundTrips) {
  Json json = hf_config();
  json["rope_scaling"] = {{"rope_type", "llama3"},
                          {"factor", 8.0},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 64}};
  const ModelConfig config = llama().parse_hf_config(json).value();
  const std::string text = dump_json(to_checkpoint_json(config));
  const ModelConfig again = parse_checkpoint_config(parse_json(text, "t").value()).value();
  EXPECT_EQ(dump_json(to_checkpoint_json(again)), text);
  EXPECT_EQ(again.rope.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(again.eos_token_ids, (std::vector<int32_t>{2, 3}));
  EXPECT_TRUE(again.share_embedding_table);
  EXPECT_EQ(again.dtype, DType::kBFloat16);
}

TEST(Config, ReadsUpstreamsExampleOfLlama31) {
  const Json json = Json::parse(R"({"architecture": "LlamaForCausalLM", "dtype": "bfloat16",
      "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 8, "head_size": 128, "hidden_act": "silu",
      "norm_epsilon": 1e-05, "qk_layernorm": false, "position_embedding_type": "rope_gpt_neox",
      "max_position_embeddings": 131072, "rotary_base": 500000.0,
      "rotary_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 8192},
      "mapping": {"world_size": 1, "tp_size": 1, "pp_size": 1},
      "quantization": {"quant_algo": null, "kv_cache_quant_algo": null, "group_size": 128}})");
  const ModelConfig config = parse_checkpoint_config(json).value();
  EXPECT_EQ(config.head_size, 128);
  EXPECT_EQ(config.rope.rotary_dim, 128);
}

TEST(Config, NewerRopeParametersMeanTheSameAsTheOlderKeys) {
  Json older = hf_config();
  older["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  Json newer = hf_config();
  newer.erase("rope_theta");
  newer["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 500000.0}};
  EXPECT_EQ(dump_json(to_checkpoint_json(llama().parse_hf_config(older).value())),
            dump_json(to_checkpoint_json(llama().parse_hf_config(newer).value())));
}

TEST(Config, RefusalsNameKeyValueAndLimit) {
  Json json = hf_config();
  json["num_key_value_heads"] = 3;
  EXPECT_NE(refusal(json).find("num_attention_heads 4 is not a multiple of num_key_value_heads 3"),
            std::string::npos);
  json = hf_config();
  json["hidden_size"] = -1;
  EXPECT_NE(refusal(json).find("\"hidden_size\" is -1"), std::string::npos);
  json = hf_config();
  json.erase("vocab_size");
  EXPECT_NE(refusal(json).find("\"vocab_size\" is missing"), std::string::npos);
  json = hf_config();
  json["eos_token_id"] = 100;
  EXPECT_NE(refusal(json).find("eos_token_id 100 is not below vocab_size 100"), std::string::npos);
  json = hf_config();
  json["hidden_act"] = "relu";
  EXPECT_NE(refusal(json).find("hidden_act \"relu\""), std::string::npos);
  json = hf_config();
  json["num_hidden_layers"] = 1e30;
  EXPECT_NE(refusal(json).find("num_hidden_layers"), std::string::npos);
  EXPECT_EQ(find_architecture("FooForCausalLM").error().code, ErrorCode::kUnsupported);
}

TEST(Config, UnknownRopeTypeAndKeysAreErrorsThatNameThem) {
  Json json = hf_config();
  json["rope_scaling"] = {{"rope_type", "spiral"}, {"factor", 2.0}};
  EXPECT_NE(refusal(json).find("\"spiral\""), std::string::npos);
  json["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.0}, {"twist", 1}};
  EXPECT_NE(refusal(json).find("\"twist\""), std::string::npos);
  json["rope_scaling"] = {{"rope_type", "linear"}};
  EXPECT_NE(refusal(json).find("factor is missing"), std::string::npos);
  json["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 0.5}};
  EXPECT_NE(refusal(json).find("factor is 0.5"), std::string::npos);
}

TEST(Llama, WeightsCoverExactlyTheNamesThatTheGraphReads) {
  for (const bool tied : {true, false}) {
    Json json = hf_config();
    json["tie_word_embeddings"] = tied;
    json["attention_bias"] = true;
    json["mlp_bias"] = true;
    const ModelConfig config = llama().parse_hf_config(json).value();
    const graph::Graph graph = llama().build_graph(config);
    ASSERT_TRUE(graph::verify(graph).ok());
    std::set<std::string> read;
    for (const graph::Node& node : graph.nodes) {
      if (const auto* op = std::get_if<graph::LinearOp>(&node.op)) {
        read.insert(op->parts[0].weight);
        if (!op->parts[0].bias.empty()) {
          read.insert(op->parts[0].bias);
        }
      } else if (const auto* norm = std::get_if<graph::RmsNormOp>(&node.op)) {
        read.insert(norm->weight);
      } else if (const auto* table = std::get_if<graph::EmbeddingOp>(&node.op)) {
        read.insert(table->table);
      }
    }
    std::set<std::string> declared;
    for (const WeightSpec& spec : llama().weights(config)) {
      declared.insert(spec.name);
      int64_t rows = 0;
      for (const WeightPart& part : spec.parts) {
        rows += part.rows;
      }
      EXPECT_EQ(rows, spec.rows) << spec.name;
    }
    EXPECT_EQ(read, declared);
  }
}

}  // namespace
}  // namespace zonda::models
