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

Result<TokenLogprobs> token_logprobs(std::span<const float> logits, int32_t chosen, int32_t top,
                                     SamplerScratch& scratch) {
  auto row = kernels::row_logprobs(logits, chosen, top, scratch.rows);
  if (!row) {
    return row.error();
  }
  TokenLogprobs result;
  result.chosen = {chosen, std::max(row->chosen, kLowestLogprob)};
  const float own = logits[static_cast<size_t>(chosen)];
  int32_t larger = 0;
  for (const float logit : logits) {
    larger += logit > own ? 1 : 0;
  }
  result.rank = larger + 1;
  result.top.reserve(row->top.size());
  for (const kernels::TokenLogprob& entry : row->top) {
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
  unchanged_ = !counts_tokens_ && params.logit_bias.empty() && params.bad_words.empty() &&
               params.no_repeat_ngram_size == 0 && params.min_tokens == 0;
  for (const LogitBias& entry : params.logit_bias) {
    bias_.push_back({entry.token, entry.bias});
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

Result<int32_t> Sampler::choose(std::span<const float> logits, SamplerScratch& scratch) const {
  scratch.banned.clear();
  collect_banned(scratch.banned);
  std::span<const float> row = logits;
  if (!bias_.empty() || !counts_.empty() || !scratch.banned.empty()) {
    scratch.logits.assign(logits.begin(), logits.end());
    kernels::apply_logit_changes({.bias = bias_,
                                  .counts = counts_,
                                  .banned = scratch.banned,
                                  .repetition_penalty = params_.repetition_penalty,
                                  .presence_penalty = params_.presence_penalty,
                                  .frequency_penalty = params_.frequency_penalty},
                                 scratch.logits);
    row = scratch.logits;
  }
  if (greedy_) {
    return kernels::greedy_token(row, scratch.rows);
  }
  const kernels::DrawParams draw = {
      .temperature = params_.temperature.value_or(1.0f),
      .min_p = params_.min_p.value_or(0.0f),
      .top_k = params_.top_k.value_or(0),
      .top_p = params_.top_p.value_or(1.0f),
      .uniform = kernels::uniform(stream_, static_cast<uint64_t>(num_output())),
  };
  return kernels::draw_token(draw, row, scratch.rows);
}

void Sampler::collect_banned(std::vector<int32_t>& banned) const {
  ban_early_ends(banned);
  ban_words(banned);
  ban_repeated_ngrams(banned);
}

void Sampler::ban_early_ends(std::vector<int32_t>& banned) const {
  if (num_output() >= params_.min_tokens) {
    return;
  }
  if (!params_.ignore_eos) {
    banned.insert(banned.end(), end_ids_.begin(), end_ids_.end());
  }
  for (const auto& word : params_.stop_words) {
    if (word.size() == 1) {
      banned.push_back(word[0]);
    }
  }
}

void Sampler::ban_words(std::vector<int32_t>& banned) const {
  for (const auto& word : params_.bad_words) {
    if (ends_with(tokens_, std::span(word).first(word.size() - 1))) {
      banned.push_back(word.back());
    }
  }
}

void Sampler::ban_repeated_ngrams(std::vector<int32_t>& banned) const {
  const auto size = static_cast<size_t>(params_.no_repeat_ngram_size);
  if (size == 0 || tokens_.size() < size) {
    return;
  }
  const std::span<const int32_t> all(tokens_);
  const auto start = all.last(size - 1);
  for (size_t i = 0; i + size <= all.size(); ++i) {
    if (std::ranges::equal(all.subspan(i, size - 1), start)) {
      banned.push_back(all[i + size - 1]);
    }
  }
}

}  // namespace zonda::runtime
