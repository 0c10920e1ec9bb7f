// SPDX-License-Identifier: Apache-2.0
#include "convert/tiny_model.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "base/file.h"
#include "checkpoint/safetensors.h"

namespace zonda::convert {
namespace {

using checkpoint::GgmlType;
using checkpoint::GgufBuilder;

std::string as_type(const std::vector<float>& values, DType dtype) {
  std::string bytes;
  for (const float value : values) {
    if (dtype == DType::kFloat32) {
      checkpoint::append_value<float>(bytes, value);
    } else {
      checkpoint::append_value<uint16_t>(
          bytes, dtype == DType::kFloat16 ? float_to_f16(value) : float_to_bf16(value));
    }
  }
  return bytes;
}

std::optional<DType> plain_type(GgmlType type) {
  switch (type) {
    case GgmlType::kF32:
      return DType::kFloat32;
    case GgmlType::kF16:
      return DType::kFloat16;
    case GgmlType::kBF16:
      return DType::kBFloat16;
    default:
      return std::nullopt;
  }
}

// Stored order of GGUF's q and k: of each head the first row, the row half a head later, and so on.
std::vector<int64_t> interleaved_rows(int64_t rows, int32_t heads) {
  std::vector<int64_t> order;
  const int64_t half = rows / heads / 2;
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t i = 0; i < half; ++i) {
      order.push_back(head * 2 * half + i);
      order.push_back(head * 2 * half + half + i);
    }
  }
  return order;
}

class Maker {
 public:
  explicit Maker(const TinyOptions& options) : options_(options), random_(options.seed) {
    model_.config = {{"architectures", {"LlamaForCausalLM"}},
                     {"torch_dtype", "float32"},
                     {"vocab_size", 50},
                     {"hidden_size", options.hidden},
                     {"intermediate_size", options.ffn},
                     {"num_hidden_layers", 2},
                     {"num_attention_heads", 4},
                     {"num_key_value_heads", 2},
                     {"head_dim", 16},
                     {"rms_norm_eps", 1e-5},
                     {"rope_theta", 10000.0},
                     {"max_position_embeddings", 256},
                     {"attention_bias", options.bias},
                     {"tie_word_embeddings", options.tied},
                     {"bos_token_id", 1},
                     {"eos_token_id", 2}};
  }

  TinyModel make() {
    add("model.embed_tokens.weight", "token_embd.weight", 50, options_.hidden);
    for (int layer = 0; layer < 2; ++layer) {
      add_layer("model.layers." + std::to_string(layer) + ".",
                "blk." + std::to_string(layer) + ".");
    }
    add("model.norm.weight", "output_norm.weight", options_.hidden, 0);
    if (!options_.tied) {
      add("lm_head.weight", "output.weight", 50, options_.hidden);
    }
    return std::move(model_);
  }

 private:
  void add(const std::string& name, const std::string& gguf, int64_t rows, int64_t cols,
           int32_t heads = 0) {
    Matrix matrix{rows, cols, {}};
    for (int64_t i = 0; i < rows * std::max<int64_t>(cols, 1); ++i) {
      matrix.values.push_back(options_.scale * distribution_(random_));
    }
    model_.weights[name] = std::move(matrix);
    model_.gguf_names[name] = gguf;
    if (heads != 0) {
      model_.permuted_heads[name] = heads;
    }
  }
  void add_linear(const std::string& name, const std::string& gguf, int64_t rows, int64_t cols,
                  int32_t heads = 0) {
    add(name + ".weight", gguf + ".weight", rows, cols, heads);
    if (options_.bias && name.find("self_attn") != std::string::npos) {
      add(name + ".bias", gguf + ".bias", rows, 0, heads);
    }
  }
  void add_layer(const std::string& hf, const std::string& gguf) {
    const int64_t hidden = options_.hidden;
    add(hf + "input_layernorm.weight", gguf + "attn_norm.weight", hidden, 0);
    add_linear(hf + "self_attn.q_proj", gguf + "attn_q", 64, hidden, 4);
    add_linear(hf + "self_attn.k_proj", gguf + "attn_k", 32, hidden, 2);
    add_linear(hf + "self_attn.v_proj", gguf + "attn_v", 32, hidden);
    add_linear(hf + "self_attn.o_proj", gguf + "attn_output", hidden, 64);
    add(hf + "post_attention_layernorm.weight", gguf + "ffn_norm.weight", hidden, 0);
    add_linear(hf + "mlp.gate_proj", gguf + "ffn_gate", options_.ffn, hidden);
    add_linear(hf + "mlp.up_proj", gguf + "ffn_up", options_.ffn, hidden);
    add_linear(hf + "mlp.down_proj", gguf + "ffn_down", hidden, options_.ffn);
  }

  TinyOptions options_;
  std::mt19937 random_;
  std::normal_distribution<float> distribution_;
  TinyModel model_;
};

GgufBuilder gguf_metadata(const TinyModel& model) {
  GgufBuilder builder;
  const auto integer = [&](const char* key) { return model.config[key].get<uint32_t>(); };
  builder.string("general.architecture", "llama");
  builder.u32("llama.block_count", integer("num_hidden_layers"));
  builder.u32("llama.context_length", integer("max_position_embeddings"));
  builder.u32("llama.embedding_length", integer("hidden_size"));
  builder.u32("llama.feed_forward_length", integer("intermediate_size"));
  builder.u32("llama.attention.head_count", integer("num_attention_heads"));
  builder.u32("llama.attention.head_count_kv", integer("num_key_value_heads"));
  builder.u32("llama.attention.key_length", integer("head_dim"));
  builder.u32("llama.rope.dimension_count", integer("head_dim"));
  builder.f32("llama.rope.freq_base", 10000.0f);
  builder.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  builder.u32("tokenizer.ggml.bos_token_id", 1);
  builder.u32("tokenizer.ggml.eos_token_id", 2);
  return builder;
}

// Rows in GGUF's order.
std::string stored_bytes(Matrix& matrix, int32_t heads, GgmlType type, uint32_t seed) {
  const int64_t cols = std::max<int64_t>(matrix.cols, 1);
  std::vector<int64_t> order(static_cast<size_t>(matrix.rows));
  for (int64_t i = 0; i < matrix.rows; ++i) {
    order[static_cast<size_t>(i)] = i;
  }
  if (heads != 0) {
    order = interleaved_rows(matrix.rows, heads);
  }
  std::string bytes;
  for (const int64_t row : order) {
    float* values = matrix.values.data() + row * cols;
    if (const std::optional<DType> plain = plain_type(type)) {
      bytes += as_type({values, values + cols}, *plain);
      continue;
    }
    const std::string blocks = random_blocks(type, cols, seed++);
    checkpoint::dequantize_blocks(type, reinterpret_cast<const std::byte*>(blocks.data()), cols,
                                  values);
    bytes += blocks;
  }
  return bytes;
}

}  // namespace

TinyModel make_tiny_model(const TinyOptions& options) { return Maker(options).make(); }

std::string random_blocks(GgmlType type, int64_t cols, uint32_t seed) {
  const checkpoint::GgmlTypeInfo& info = checkpoint::ggml_type_info(type);
  std::mt19937 random(seed);
  const auto put_half = [&](std::string& block, size_t at) {
    const uint16_t half =
        float_to_f16(static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 12345.0f);
    std::memcpy(block.data() + at, &half, 2);
  };
  std::string bytes;
  for (int64_t done = 0; done < cols; done += info.block_values) {
    std::string block(static_cast<size_t>(info.block_bytes), '\0');
    for (char& byte : block) {
      byte = static_cast<char>(random());
    }
    const bool at_end = type == GgmlType::kQ6_K;
    put_half(block, at_end ? 208 : 0);
    if (type == GgmlType::kQ4_1 || type == GgmlType::kQ5_1 || type == GgmlType::kQ4_K ||
        type == GgmlType::kQ5_K) {
      put_half(block, 2);
    }
    bytes += block;
  }
  return bytes;
}

void write_hf_folder(const TinyModel& model, const std::string& folder, DType dtype) {
  std::filesystem::create_directories(folder);
  ASSERT_TRUE(write_file(folder + "/config.json", dump_json(model.config, 2)).ok());
  std::vector<checkpoint::TensorSpec> specs;
  for (const auto& [name, matrix] : model.weights) {
    specs.push_back({name, dtype, matrix.shape()});
  }
  checkpoint::SafetensorsWriter writer =
      checkpoint::SafetensorsWriter::create(folder + "/model.safetensors", specs, {}).value();
  for (const auto& [name, matrix] : model.weights) {
    const std::string bytes = as_type(matrix.values, dtype);
    ASSERT_TRUE(writer.write(name, 0, std::as_bytes(std::span(bytes))).ok());
  }
  ASSERT_TRUE(writer.finish().ok());
}

GgufBuilder make_gguf(TinyModel& model,
                      const std::function<GgmlType(const std::string&)>& type_of) {
  GgufBuilder builder = gguf_metadata(model);
  uint32_t seed = 1000;
  for (auto& [name, matrix] : model.weights) {
    const GgmlType type = matrix.cols == 0 ? GgmlType::kF32 : type_of(name);
    const auto heads = model.permuted_heads.find(name);
    std::string bytes =
        stored_bytes(matrix, heads == model.permuted_heads.end() ? 0 : heads->second, type, seed);
    seed += 1000;
    std::vector<uint64_t> dims = {static_cast<uint64_t>(matrix.rows)};
    if (matrix.cols != 0) {
      dims.insert(dims.begin(), static_cast<uint64_t>(matrix.cols));
    }
    builder.tensor(model.gguf_names[name], std::move(dims), type, std::move(bytes));
  }
  return builder;
}

}  // namespace zonda::convert
