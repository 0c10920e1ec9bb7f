// A checkpoint of a tiny random Llama, written with the project's own writer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "models/architecture.h"

namespace zonda {

inline models::ModelConfig tiny_config() {
  models::ModelConfig config;
  config.architecture = "LlamaForCausalLM";
  config.dtype = DType::kFloat32;
  config.vocab_size = 103;
  config.hidden_size = 64;
  config.intermediate_size = 96;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_size = 16;
  config.max_position_embeddings = 256;
  config.rope.rotary_dim = 16;
  config.share_embedding_table = true;
  config.eos_token_ids = {2};
  return config;
}

// Matrices and vectors of normal values; norms around one. The same seed gives the same weights.
inline void write_tiny_checkpoint(const std::string& folder, const models::ModelConfig& config,
                                  uint32_t seed) {
  const models::Architecture& architecture =
      *models::find_architecture(config.architecture).value();
  const std::vector<models::WeightSpec> specs = architecture.weights(config);
  checkpoint::CheckpointWriter::Plan plan;
  for (const models::WeightSpec& spec : specs) {
    if (spec.kind == models::WeightKind::kVector) {
      plan.add_vector(spec.name, spec.rows);
    } else {
      plan.add_weight(spec.name, {WeightFormat::kFloat32, spec.rows, spec.cols, 0, false});
    }
  }
  auto writer = checkpoint::CheckpointWriter::create(folder, plan, {}).value();
  std::mt19937 random(seed);
  for (const models::WeightSpec& spec : specs) {
    const bool is_vector = spec.kind == models::WeightKind::kVector;
    const bool is_norm = is_vector && spec.name.ends_with("weight");
    std::normal_distribution<float> normal(is_norm ? 1.0f : 0.0f, 0.2f);
    std::vector<float> values(static_cast<size_t>(spec.rows * (is_vector ? 1 : spec.cols)));
    for (float& value : values) {
      value = normal(random);
    }
    const WeightView view{
        {WeightFormat::kFloat32, spec.rows, spec.cols, 0, false}, values.data(), nullptr, nullptr};
    const Result<void> written =
        is_vector ? writer.write_vector(spec.name, values) : writer.write_weight(spec.name, view);
    CHECK(written.ok());
  }
  CHECK(writer.finish(models::to_checkpoint_json(config)).ok());
}

}  // namespace zonda
