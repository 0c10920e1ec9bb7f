// SamplingParams: when it is greedy, and the limits of every field.
// SPDX-License-Identifier: Apache-2.0
#include "zonda/sampling.h"

#include <cmath>
#include <limits>

#include "base/error.h"

namespace zonda {
namespace {

struct Range {
  const char* name;
  double value;
  double low;
  double high;
  bool above_low = false;  // low itself is out
};

Result<void> check_range(const Range& range) {
  const bool inside = range.above_low ? range.value > range.low : range.value >= range.low;
  if (inside && range.value <= range.high) {
    return {};
  }
  return invalid_argument("[sampling] {} is {}; it must be {} {} and at most {}.", range.name,
                          range.value, range.above_low ? "above" : "at least", range.low,
                          range.high);
}

Result<void> check_token(const char* field, int32_t token, int32_t vocab_size) {
  if (token >= 0 && token < vocab_size) {
    return {};
  }
  return invalid_argument("[sampling] {} has token {}; ids are 0 to {}.", field, token,
                          vocab_size - 1);
}

Result<void> check_words(const char* field, const std::vector<std::vector<int32_t>>& words,
                         int32_t vocab_size, const SamplingLimits& limits) {
  if (words.size() > static_cast<size_t>(limits.max_words)) {
    return invalid_argument("[sampling] {} has {} entries; at most {}.", field, words.size(),
                            limits.max_words);
  }
  for (const auto& word : words) {
    if (word.empty() || word.size() > static_cast<size_t>(limits.max_word_tokens)) {
      return invalid_argument("[sampling] an entry of {} has {} tokens; 1 to {}.", field,
                              word.size(), limits.max_word_tokens);
    }
    for (const int32_t token : word) {
      if (auto checked = check_token(field, token, vocab_size); !checked) {
        return checked;
      }
    }
  }
  return {};
}

Result<void> check_logit_bias(const SamplingParams& params, int32_t vocab_size,
                              const SamplingLimits& limits) {
  if (params.logit_bias.size() > static_cast<size_t>(limits.max_logit_bias)) {
    return invalid_argument("[sampling] logit_bias has {} entries; at most {}.",
                            params.logit_bias.size(), limits.max_logit_bias);
  }
  for (const LogitBias& entry : params.logit_bias) {
    if (auto checked = check_token("logit_bias", entry.token, vocab_size); !checked) {
      return checked;
    }
    if (std::isnan(entry.bias) || entry.bias == std::numeric_limits<float>::infinity()) {
      return invalid_argument("[sampling] logit_bias of token {} is {}; finite or -inf.",
                              entry.token, entry.bias);
    }
  }
  return {};
}

}  // namespace

bool SamplingParams::is_greedy() const {
  if (temperature == 0.0f || top_k == 1) {
    return true;
  }
  const bool filtered = top_k.value_or(0) > 1 || min_p.value_or(0.0f) > 0.0f ||
                        (top_p.value_or(0.0f) > 0.0f && *top_p < 1.0f);
  return !temperature.has_value() && !filtered;
}

Result<void> validate(const SamplingParams& params, int32_t vocab_size,
                      const SamplingLimits& limits) {
  constexpr double kIntMax = std::numeric_limits<int32_t>::max();
  const Range ranges[] = {
      {"temperature", params.temperature.value_or(0.0f), 0, 100},
      {"top_k", static_cast<double>(params.top_k.value_or(0)), 0, kIntMax},
      {"top_p", params.top_p.value_or(0.0f), 0, 1},
      {"min_p", params.min_p.value_or(0.0f), 0, 1},
      {"repetition_penalty", params.repetition_penalty, 0, 100, true},
      {"presence_penalty", params.presence_penalty, -100, 100},
      {"frequency_penalty", params.frequency_penalty, -100, 100},
      {"no_repeat_ngram_size", static_cast<double>(params.no_repeat_ngram_size), 0, kIntMax},
      {"max_tokens", static_cast<double>(params.max_tokens.value_or(0)), 0, kIntMax},
      {"min_tokens", static_cast<double>(params.min_tokens), 0,
       static_cast<double>(params.max_tokens.value_or(std::numeric_limits<int32_t>::max()))},
      {"n", static_cast<double>(params.n), 1, static_cast<double>(limits.max_n)},
      {"logprobs", static_cast<double>(params.logprobs.value_or(0)), 0,
       static_cast<double>(limits.max_logprobs)},
      {"prompt_logprobs", static_cast<double>(params.prompt_logprobs.value_or(0)), 0,
       static_cast<double>(limits.max_logprobs)},
  };
  for (const Range& range : ranges) {
    if (auto checked = check_range(range); !checked) {
      return checked;
    }
  }
  if (auto checked = check_words("bad_words", params.bad_words, vocab_size, limits); !checked) {
    return checked;
  }
  if (auto checked = check_words("stop_words", params.stop_words, vocab_size, limits); !checked) {
    return checked;
  }
  return check_logit_bias(params, vocab_size, limits);
}

}  // namespace zonda
