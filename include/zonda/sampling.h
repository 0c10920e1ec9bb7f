// How the tokens of one request are chosen, when generation ends and what is reported beside them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "zonda/error.h"

namespace zonda {

struct LogitBias {
  int32_t token = 0;
  float bias = 0.0f;  // added to the token's logit; -infinity bans it
  friend bool operator==(const LogitBias&, const LogitBias&) = default;
};

// Names and meaning follow TensorRT-LLM's sampling parameters. An unset field means what its
// comment says; logit changes apply in the order: bias, repetition, presence and frequency
// penalties, bans, temperature, min_p, top_k, top_p.
struct SamplingParams {
  // Greedy if temperature is 0, or top_k is 1, or no temperature is given and top_k, top_p and
  // min_p are all off. Otherwise the token is drawn, at temperature 1 unless given.
  std::optional<float> temperature;  // [0, 100]
  std::optional<int32_t> top_k;      // >= 0; 0 is off
  std::optional<float> top_p;        // [0, 1]; 0 and 1 are off
  std::optional<float> min_p;        // [0, 1]; 0 is off
  // Draws repeat for the same seed whatever else runs; sequence i of n draws from its own stream of
  // it. Unset: a fresh random seed.
  std::optional<uint64_t> seed;

  float repetition_penalty = 1.0f;   // (0, 100]; counts prompt and output; 1 is off
  float presence_penalty = 0.0f;     // [-100, 100]; counts the output only
  float frequency_penalty = 0.0f;    // [-100, 100]; counts the output only
  int32_t no_repeat_ngram_size = 0;  // >= 0; n-grams of prompt and output; 0 is off
  std::vector<LogitBias> logit_bias;
  // Token sequences that the output never completes, even where they begin in the prompt.
  std::vector<std::vector<int32_t>> bad_words;

  // Output tokens. Unset: up to the sequence limit. 0 computes the prompt only.
  std::optional<int32_t> max_tokens;
  // Before so many output tokens, end ids and one-token stop words cannot be chosen, and longer
  // stop words have no effect.
  int32_t min_tokens = 0;
  bool ignore_eos = false;
  std::vector<std::vector<int32_t>> stop_words;  // token sequences of the output that end it
  int32_t n = 1;                                 // independent sequences of one prompt

  // Log-softmax of the model's own logits, before any change above. k >= 0: of the chosen token and
  // the k most likely ones.
  std::optional<int32_t> logprobs;
  std::optional<int32_t> prompt_logprobs;

  bool is_greedy() const;
  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};

// Upper bounds that keep one request from taking all memory.
struct SamplingLimits {
  int32_t max_n = 128;
  int32_t max_logprobs = 20;
  int32_t max_words = 1024;       // entries of bad_words, and of stop_words
  int32_t max_word_tokens = 512;  // tokens of one entry
  int32_t max_logit_bias = 4096;
};

// kInvalidArgument naming field, value and limit; token ids must lie in [0, vocab_size).
Result<void> validate(const SamplingParams& params, int32_t vocab_size,
                      const SamplingLimits& limits = {});

}  // namespace zonda
