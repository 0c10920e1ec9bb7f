// Chooses the tokens of one sequence. Nothing here depends on what else is in the batch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernels/sampling/sample.h"
#include "zonda/executor.h"

namespace zonda::runtime {

// Buffers shared by all sequences of one thread.
struct SamplerScratch {
  kernels::SampleScratch rows;
  std::vector<float> logits;  // [vocab]: a changed copy of the model's
  std::vector<int32_t> banned;
};

// The most likely and the chosen token of a row, as asked by `top`. kInternal for a row that is not
// finite.
Result<TokenLogprobs> token_logprobs(std::span<const float> logits, int32_t chosen, int32_t top,
                                     SamplerScratch& scratch);

class Sampler {
 public:
  // `params` and `end_ids` must outlive the sampler. The seed of `params` must be set if it draws.
  Sampler(const SamplingParams& params, std::span<const int32_t> end_ids,
          std::span<const int32_t> prompt, int32_t sequence_index);
  Sampler(SamplingParams&& params, std::span<const int32_t> end_ids,
          std::span<const int32_t> prompt, int32_t sequence_index) = delete;

  // The next token from the model's logits [vocab]. kInternal if they are not finite,
  // kInvalidArgument if the request's own rules leave no token.
  Result<int32_t> choose(std::span<const float> logits, SamplerScratch& scratch) const;
  // Whether choose() takes the first of the largest logits as the model gives them, so that a
  // device may choose in its place.
  bool takes_largest() const { return greedy_ && unchanged_; }
  // Appends a token to the sequence.
  void accept(int32_t token);

  std::span<const int32_t> output() const { return std::span(tokens_).subspan(prompt_size_); }
  int32_t num_output() const { return static_cast<int32_t>(tokens_.size() - prompt_size_); }

 private:
  void collect_banned(std::vector<int32_t>& banned) const;
  void ban_early_ends(std::vector<int32_t>& banned) const;
  void ban_words(std::vector<int32_t>& banned) const;
  void ban_repeated_ngrams(std::vector<int32_t>& banned) const;
  kernels::TokenCount& count_of(int32_t token);

  const SamplingParams& params_;
  std::span<const int32_t> end_ids_;
  size_t prompt_size_;
  std::vector<int32_t> tokens_;  // prompt and output
  uint64_t stream_ = 0;          // of random numbers
  bool greedy_ = true;
  bool unchanged_ = true;  // nothing is ever added to, taken from or banned of the logits
  bool counts_tokens_ = false;
  std::vector<kernels::TokenBias> bias_;
  std::vector<kernels::TokenCount> counts_;
  std::unordered_map<int32_t, size_t> count_index_;  // token -> place in counts_
};

}  // namespace zonda::runtime
