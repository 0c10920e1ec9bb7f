// Rotary frequencies with every scaling kind, as transformers computes them
// (modeling_rope_utils.py). SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace zonda::models {

enum class RopeScaling : uint8_t { kNone, kLinear, kDynamic, kYarn, kLlama3, kLongrope };

struct RopeConfig {
  float base = 10000.0f;
  int32_t rotary_dim = 0;    // of head_size; 0 until the head size is known
  bool interleaved = false;  // rope_gptj instead of rope_gpt_neox
  RopeScaling scaling = RopeScaling::kNone;
  float factor = 1.0f;
  float low_freq_factor = 1.0f;   // llama3
  float high_freq_factor = 4.0f;  // llama3
  int64_t original_max_position_embeddings = 0;
  float attention_factor = 0.0f;  // yarn, longrope; 0: from factor
  float beta_fast = 32.0f;        // yarn
  float beta_slow = 1.0f;
  float mscale = 0.0f;
  float mscale_all_dim = 0.0f;
  bool truncate = true;             // yarn: correction bounds rounded outwards
  std::vector<float> short_factor;  // longrope, [rotary_dim / 2]
  std::vector<float> long_factor;
};

struct RopeFrequencies {
  std::vector<float> inv_freq;    // [rotary_dim / 2] radians a position
  float attention_factor = 1.0f;  // multiplies cos and sin
};

// Whether the frequencies depend on the length of the prompt (dynamic, longrope).
bool depends_on_length(const RopeConfig& rope);
// For prompts of prompt_length positions, which matters for longrope alone. kDynamic: those of
// prompts up to original_max_position_embeddings; the engine derives longer ones when a request is
// admitted.
RopeFrequencies rope_frequencies(const RopeConfig& rope, int64_t max_position_embeddings,
                                 int64_t prompt_length);

// Reads Hugging Face's "rope_scaling" (or the newer "rope_parameters") object into `rope`. An
// unknown type or key and a missing or out-of-range value are errors that name the key.
// max_position is max_position_embeddings.
Result<void> parse_rope_scaling(const Json& scaling, int64_t max_position, RopeConfig& rope);
// The same object as written to a checkpoint; null for kNone.
OrderedJson rope_scaling_json(const RopeConfig& rope);

}  // namespace zonda::models
