// A model's configuration, parsed once, and its spelling in a checkpoint's config.json
// (TensorRT-LLM's names). SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/json.h"
#include "base/weight_format.h"
#include "models/rope.h"

namespace zonda::models {

// How the linears of a checkpoint are quantised; "quantization" of its config.json.
struct QuantizationConfig {
  // "" (none), "W8A16", "W4A16", "FP8" (a scale of the tensor), "FP8_PER_CHANNEL_PER_TOKEN" (a
  // scale of each row), or "MIXED_PRECISION" (each tensor tells its own format)
  std::string quant_algo;
  int32_t group_size = 0;    // 0: per channel; of the algorithm's linears
  bool has_minimum = false;  // printed as has_zero_point
};

struct ModelConfig {
  std::string architecture;       // Hugging Face's class name: "LlamaForCausalLM"
  DType dtype = DType::kFloat32;  // of unquantised weights
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int32_t num_hidden_layers = 0;
  int32_t num_attention_heads = 0;
  int32_t num_key_value_heads = 0;
  int32_t head_size = 0;
  std::string hidden_act = "silu";  // silu | gelu_pytorch_tanh
  float norm_epsilon = 1e-5f;
  int64_t max_position_embeddings = 0;
  RopeConfig rope;
  bool attn_bias = false;        // q, k, v
  bool attn_dense_bias = false;  // o
  bool mlp_bias = false;
  bool share_embedding_table = false;  // the LM head is the embedding table
  int32_t sliding_window = 0;          // 0: full attention
  QuantizationConfig quantization;
  // End and start of text, the union of config.json and generation_config.json; empty if the model
  // names none.
  std::vector<int32_t> eos_token_ids;
  int32_t bos_token_id = -1;
  int32_t pad_token_id = -1;
};

// Every field of the checkpoint's config.json; the upstream names and nesting.
OrderedJson to_checkpoint_json(const ModelConfig& config);
// Reads what to_checkpoint_json wrote, and upstream's own files. Errors name key, value and limit.
Result<ModelConfig> parse_checkpoint_config(const Json& json);
// Laws between fields: sizes positive and bounded, heads divisible, rotary_dim even, token ids
// below vocab_size, ...
Result<void> validate(const ModelConfig& config);

}  // namespace zonda::models
