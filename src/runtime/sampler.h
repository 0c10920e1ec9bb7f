// Chooses the tokens of one sequence. Nothing here depends on what else is in the batch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernels/sampling/choice.h"
#include "zonda/executor.h"

namespace zonda::runtime {

// As responses carry them, of `token`.
TokenLogprobs token_logprobs(int32_t token, const kernels::RowLogprobs& row);

class Sampler {
 public:
  // `params` and `end_ids` must outlive the sampler. The seed of `params` must be set if it draws.
  Sampler(const SamplingParams& params, std::span<const int32_t> end_ids,
          std::span<const int32_t> prompt, int32_t sequence_index);
  Sampler(SamplingParams&& params, std::span<const int32_t> end_ids,
          std::span<const int32_t> prompt, int32_t sequence_index) = delete;

  // How the next token follows from the model's logits. Valid until the next call of this sampler.
  // The choice fails with kInternal if the logits are not finite, with kInvalidArgument if the
  // request's own rules leave no token.
  kernels::TokenChoice choice();
  // Appends a token to the sequence.
  void accept(int32_t token);

  std::span<const int32_t> output() const { return std::span(tokens_).subspan(prompt_size_); }
  int32_t num_output() const { return static_cast<int32_t>(tokens_.size() - prompt_size_); }

 private:
  void ban_early_ends();
  void ban_words();
  void ban_repeated_ngrams();
  void add_bias(const LogitBias& entry);
  kernels::TokenCount& count_of(int32_t token);

  const SamplingParams& params_;
  std::span<const int32_t> end_ids_;
  size_t prompt_size_;
  std::vector<int32_t> tokens_;  // prompt and output
  uint64_t stream_ = 0;          // of random numbers
  bool greedy_ = true;
  bool counts_tokens_ = false;
  std::vector<kernels::TokenBias> bias_;  // each token once
  std::vector<kernels::TokenCount> counts_;
  std::unordered_map<int32_t, size_t> count_index_;  // token -> place in counts_
  std::vector<int32_t> banned_;                      // of the last choice
};

}  // namespace zonda::runtime
