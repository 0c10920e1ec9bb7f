// Sampler: bans and counts of a sequence; the arithmetic is kernels/sampling.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampler.h"

#include <algorithm>

#include "base/error.h"

namespace zonda::runtime {
namespace {

// JSON has no infinity, and nobody needs to tell such unlikely tokens apart.
constexpr float kLowestLogprob = -9999.0f;

bool ends_with(std::span<const int32_t> tokens, std::span<const int32_t> word) {
  return tokens.size() >= word.size() && std::ranges::equal(tokens.last(word.size()), word);
}

}  // namespace

TokenLogprobs token_logprobs(int32_t token, const kernels::RowLogprobs& row) {
  TokenLogprobs result;
  result.chosen = {token, std::max(row.chosen, kLowestLogprob)};
  result.rank = row.rank;
  result.top.reserve(row.top.size());
  for (const kernels::TokenLogprob& entry : row.top) {
    result.top.push_back({entry.token, std::max(entry.logprob, kLowestLogprob)});
  }
  return result;
}

Sampler::Sampler(const SamplingParams& params, std::span<const int32_t> end_ids,
                 std::span<const int32_t> prompt, int32_t sequence_index)
    : params_(params),
      end_ids_(end_ids),
      prompt_size_(prompt.size()),
      tokens_(prompt.begin(), prompt.end()),
      greedy_(params.is_greedy()) {
  stream_ = params.seed.value_or(0) + static_cast<uint64_t>(sequence_index) * 0x9e3779b97f4a7c15u;
  counts_tokens_ = params.repetition_penalty != 1.0f || params.presence_penalty != 0.0f ||
                   params.frequency_penalty != 0.0f;
  for (const LogitBias& entry : params.logit_bias) {
    add_bias(entry);
  }
  if (counts_tokens_) {
    for (const int32_t token : prompt) {
      count_of(token).in_prompt = true;
    }
  }
}

kernels::TokenCount& Sampler::count_of(int32_t token) {
  const auto [at, added] = count_index_.try_emplace(token, counts_.size());
  if (added) {
    counts_.push_back({.token = token});
  }
  return counts_[at->second];
}

void Sampler::accept(int32_t token) {
  tokens_.push_back(token);
  if (counts_tokens_) {
    ++count_of(token).generated;
  }
}

void Sampler::add_bias(const LogitBias& entry) {
  const auto at = std::ranges::find(bias_, entry.token, &kernels::TokenBias::token);
  if (at == bias_.end()) {
    bias_.push_back({entry.token, entry.bias});
  } else {
    at->bias += entry.bias;
  }
}

kernels::TokenChoice Sampler::choice() {
  banned_.clear();
  ban_early_ends();
  ban_words();
  ban_repeated_ngrams();
  kernels::TokenChoice choice{
      .mode = greedy_ ? kernels::ChoiceMode::kGreedy : kernels::ChoiceMode::kDraw,
      .changes = {.bias = bias_,
                  .counts = counts_,
                  .banned = banned_,
                  .repetition_penalty = params_.repetition_penalty,
                  .presence_penalty = params_.presence_penalty,
                  .frequency_penalty = params_.frequency_penalty},
      .draw = {},
      .top_logprobs = params_.logprobs.value_or(-1)};
  if (!greedy_) {
    choice.draw = {
        .temperature = params_.temperature.value_or(1.0f),
        .min_p = params_.min_p.value_or(0.0f),
        .top_k = params_.top_k.value_or(0),
        .top_p = params_.top_p.value_or(1.0f),
        .uniform = kernels::uniform(stream_, static_cast<uint64_t>(num_output())),
    };
  }
  return choice;
}

void Sampler::ban_early_ends() {
  if (num_output() >= params_.min_tokens) {
    return;
  }
  if (!params_.ignore_eos) {
    banned_.insert(banned_.end(), end_ids_.begin(), end_ids_.end());
  }
  for (const auto& word : params_.stop_words) {
    if (word.size() == 1) {
      banned_.push_back(word[0]);
    }
  }
}

void Sampler::ban_words() {
  for (const auto& word : params_.bad_words) {
    if (ends_with(tokens_, std::span(word).first(word.size() - 1))) {
      banned_.push_back(word.back());
    }
  }
}

void Sampler::ban_repeated_ngrams() {
  const auto size = static_cast<size_t>(params_.no_repeat_ngram_size);
  if (size == 0 || tokens_.size() < size) {
    return;
  }
  const std::span<const int32_t> all(tokens_);
  const auto start = all.last(size - 1);
  for (size_t i = 0; i + size <= all.size(); ++i) {
    if (std::ranges::equal(all.subspan(i, size - 1), start)) {
      banned_.push_back(all[i + size - 1]);
    }
  }
}

}  // namespace zonda::runtime
