// SPDX-License-Identifier: Apache-2.0
#include "models/decoder.h"

#include <cmath>

#include "base/error.h"
#include "graph/builder.h"
#include "models/fields.h"
#include "models/quantization_config.h"

namespace zonda::models {
namespace {

using graph::GraphBuilder;
using graph::LinearPart;
using graph::ValueId;

std::string layer_prefix(int32_t layer) { return fmt::format("transformer.layers.{}.", layer); }

LinearPart part(const std::string& module, int64_t rows, bool bias) {
  return {module + ".weight", bias ? module + ".bias" : std::string(), rows};
}

ValueId attention_block(GraphBuilder& builder, const ModelConfig& config, int32_t layer,
                        ValueId hidden) {
  const std::string prefix = layer_prefix(layer);
  const std::string name = fmt::format("layers.{}.", layer);
  const int64_t qkv_rows =
      int64_t{config.num_attention_heads + 2 * config.num_key_value_heads} * config.head_size;
  const ValueId normed = builder.rms_norm(name + "input_norm", hidden,
                                          prefix + "input_layernorm.weight", config.norm_epsilon);
  ValueId qkv = builder.linear(name + "attention.qkv", normed,
                               part(prefix + "attention.qkv", qkv_rows, config.attn_bias));
  qkv = builder.rotary(name + "attention.rotary", qkv,
                       {config.rope.rotary_dim, config.rope.interleaved});
  qkv = builder.kv_append(name + "attention.append", qkv, layer);
  graph::AttentionOp op;
  op.layer = layer;
  op.scale = 1.0f / std::sqrt(static_cast<float>(config.head_size));
  op.window = config.sliding_window;
  const ValueId attended = builder.attention(name + "attention", qkv, op);
  const ValueId dense =
      builder.linear(name + "attention.dense", attended,
                     part(prefix + "attention.dense", config.hidden_size, config.attn_dense_bias));
  return builder.add(name + "attention.residual", hidden, dense);
}

ValueId mlp_block(GraphBuilder& builder, const ModelConfig& config, int32_t layer, ValueId hidden) {
  const std::string prefix = layer_prefix(layer);
  const std::string name = fmt::format("layers.{}.", layer);
  const ValueId normed = builder.rms_norm(name + "post_norm", hidden,
                                          prefix + "post_layernorm.weight", config.norm_epsilon);
  // Upstream's names: fc is the activated branch (gate_proj), gate the other one (up_proj).
  const ValueId fc = builder.linear(
      name + "mlp.fc", normed, part(prefix + "mlp.fc", config.intermediate_size, config.mlp_bias));
  const ValueId gate =
      builder.linear(name + "mlp.gate", normed,
                     part(prefix + "mlp.gate", config.intermediate_size, config.mlp_bias));
  const auto activation =
      config.hidden_act == "silu" ? graph::Activation::kSilu : graph::Activation::kGeluTanh;
  const ValueId gated = builder.gated(name + "mlp.gated", fc, gate, activation);
  const ValueId proj = builder.linear(
      name + "mlp.proj", gated, part(prefix + "mlp.proj", config.hidden_size, config.mlp_bias));
  return builder.add(name + "mlp.residual", hidden, proj);
}

// Collects the specs of a decoder, module by module.
class SpecList {
 public:
  void linear(const std::string& module, int64_t rows, int64_t cols, bool bias,
              std::vector<WeightPart> parts) {
    specs_.push_back({module + ".weight", WeightKind::kLinear, rows, cols, parts});
    if (bias) {
      for (WeightPart& part : parts) {
        replace_ending(part.hf_name);
        replace_ending(part.gguf_name);
      }
      specs_.push_back({module + ".bias", WeightKind::kVector, rows, 0, std::move(parts)});
    }
  }
  void vector(std::string name, int64_t rows, std::string hf_name, std::string gguf_name) {
    specs_.push_back({std::move(name),
                      WeightKind::kVector,
                      rows,
                      0,
                      {{std::move(hf_name), std::move(gguf_name), rows, 0}}});
  }
  void table(std::string name, WeightKind kind, int64_t rows, int64_t cols, std::string hf_name,
             std::string gguf_name) {
    specs_.push_back(
        {std::move(name), kind, rows, cols, {{std::move(hf_name), std::move(gguf_name), rows, 0}}});
  }
  std::vector<WeightSpec> take() { return std::move(specs_); }

 private:
  static void replace_ending(std::string& name) {
    name.replace(name.size() - std::string_view("weight").size(), std::string::npos, "bias");
  }
  std::vector<WeightSpec> specs_;
};

void layer_weights(SpecList& list, const ModelConfig& config, int32_t layer) {
  const std::string ours = layer_prefix(layer);
  const std::string hf = fmt::format("model.layers.{}.", layer);
  const std::string gguf = fmt::format("blk.{}.", layer);
  const int64_t q_rows = int64_t{config.num_attention_heads} * config.head_size;
  const int64_t kv_rows = int64_t{config.num_key_value_heads} * config.head_size;
  const int64_t hidden = config.hidden_size;
  list.vector(ours + "input_layernorm.weight", hidden, hf + "input_layernorm.weight",
              gguf + "attn_norm.weight");
  list.linear(
      ours + "attention.qkv", q_rows + 2 * kv_rows, hidden, config.attn_bias,
      {{hf + "self_attn.q_proj.weight", gguf + "attn_q.weight", q_rows, config.num_attention_heads},
       {hf + "self_attn.k_proj.weight", gguf + "attn_k.weight", kv_rows,
        config.num_key_value_heads},
       {hf + "self_attn.v_proj.weight", gguf + "attn_v.weight", kv_rows, 0}});
  list.linear(ours + "attention.dense", hidden, q_rows, config.attn_dense_bias,
              {{hf + "self_attn.o_proj.weight", gguf + "attn_output.weight", hidden, 0}});
  list.vector(ours + "post_layernorm.weight", hidden, hf + "post_attention_layernorm.weight",
              gguf + "ffn_norm.weight");
  list.linear(
      ours + "mlp.fc", config.intermediate_size, hidden, config.mlp_bias,
      {{hf + "mlp.gate_proj.weight", gguf + "ffn_gate.weight", config.intermediate_size, 0}});
  list.linear(ours + "mlp.gate", config.intermediate_size, hidden, config.mlp_bias,
              {{hf + "mlp.up_proj.weight", gguf + "ffn_up.weight", config.intermediate_size, 0}});
  list.linear(ours + "mlp.proj", hidden, config.intermediate_size, config.mlp_bias,
              {{hf + "mlp.down_proj.weight", gguf + "ffn_down.weight", hidden, 0}});
}

// rope_theta, head size and rope_scaling or the newer rope_parameters, which may hold rope_theta
// too.
Result<void> read_rope(const FieldReader& reader, ModelConfig& config) {
  config.rope.rotary_dim = config.head_size;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!reader.has(key)) {
      continue;
    }
    const Result<void> parsed =
        parse_rope_scaling(reader.at(key), config.max_position_embeddings, config.rope);
    if (!parsed.ok()) {
      return parsed.error();
    }
  }
  return {};
}

}  // namespace

graph::Graph build_decoder_graph(const ModelConfig& config) {
  GraphBuilder builder({config.num_attention_heads, config.num_key_value_heads, config.head_size},
                       config.num_hidden_layers, config.vocab_size);
  const std::string table = "transformer.vocab_embedding.weight";
  ValueId hidden = builder.embedding("embedding", table, config.hidden_size);
  for (int32_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    hidden = attention_block(builder, config, layer, hidden);
    hidden = mlp_block(builder, config, layer, hidden);
  }
  const ValueId normed =
      builder.rms_norm("final_norm", hidden, "transformer.ln_f.weight", config.norm_epsilon);
  const ValueId selected = builder.select("select", normed);
  const ValueId logits =
      builder.linear("lm_head", selected,
                     {config.share_embedding_table ? table : std::string("lm_head.weight"),
                      {},
                      config.vocab_size});
  return std::move(builder).finish(logits);
}

std::vector<WeightSpec> decoder_weights(const ModelConfig& config) {
  SpecList list;
  list.table("transformer.vocab_embedding.weight", WeightKind::kEmbedding, config.vocab_size,
             config.hidden_size, "model.embed_tokens.weight", "token_embd.weight");
  for (int32_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    layer_weights(list, config, layer);
  }
  list.vector("transformer.ln_f.weight", config.hidden_size, "model.norm.weight",
              "output_norm.weight");
  if (!config.share_embedding_table) {
    list.table("lm_head.weight", WeightKind::kHead, config.vocab_size, config.hidden_size,
               "lm_head.weight", "output.weight");
  }
  return list.take();
}

Result<ModelConfig> parse_decoder_config(const Json& json) {
  FieldReader reader(json, "config.json");
  ModelConfig config;
  constexpr int64_t kWidth = int64_t{1} << 20;
  reader.integer("vocab_size", config.vocab_size, 1, int64_t{1} << 24, true);
  reader.integer("hidden_size", config.hidden_size, 1, kWidth, true);
  reader.integer("intermediate_size", config.intermediate_size, 1, kWidth, true);
  reader.integer("num_hidden_layers", config.num_hidden_layers, 1, 4096, true);
  reader.integer("num_attention_heads", config.num_attention_heads, 1, 4096, true);
  config.num_key_value_heads = config.num_attention_heads;
  reader.integer("num_key_value_heads", config.num_key_value_heads, 1, 4096);
  if (config.num_attention_heads > 0) {
    config.head_size = static_cast<int32_t>(config.hidden_size / config.num_attention_heads);
  }
  reader.integer("head_dim", config.head_size, 1, 4096);
  config.max_position_embeddings = 2048;
  reader.integer("max_position_embeddings", config.max_position_embeddings, 1, int64_t{1} << 30);
  reader.string("hidden_act", config.hidden_act);
  config.norm_epsilon = 1e-6f;
  reader.number("rms_norm_eps", config.norm_epsilon, 0.0, 1.0);
  reader.number("rope_theta", config.rope.base, 1.0, 1e12);
  reader.boolean("tie_word_embeddings", config.share_embedding_table);
  reader.token_ids("eos_token_id", config.eos_token_ids);
  reader.integer("bos_token_id", config.bos_token_id, 0, INT32_MAX);
  reader.integer("pad_token_id", config.pad_token_id, -1, INT32_MAX);
  std::string dtype = "float32";
  reader.string("torch_dtype", dtype);
  reader.string("dtype", dtype);
  if (reader.has("quantization_config")) {
    Result<QuantizationConfig> quantization = parse_hf_quantization(json["quantization_config"]);
    if (!quantization.ok()) {
      return quantization.error();
    }
    config.quantization = std::move(*quantization);
  }
  if (const Result<void> read = reader.result(); !read.ok()) {
    return read.error();
  }
  const Result<DType> parsed = parse_dtype(dtype);
  if (!parsed.ok()) {
    return parsed.error();
  }
  config.dtype = *parsed;
  if (const Result<void> rope = read_rope(reader, config); !rope.ok()) {
    return rope.error();
  }
  return config;
}

}  // namespace zonda::models
