// Laws of SamplingParams: what is greedy, and that every field has its limits.
// SPDX-License-Identifier: Apache-2.0
#include "zonda/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace zonda {
namespace {

SamplingParams with(const std::function<void(SamplingParams&)>& change) {
  SamplingParams params;
  change(params);
  return params;
}

TEST(SamplingParams, GreedyUnlessSomethingSamples) {
  EXPECT_TRUE(SamplingParams{}.is_greedy());
  EXPECT_TRUE(with([](auto& p) { p.temperature = 0.0f; }).is_greedy());
  EXPECT_TRUE(with([](auto& p) { p.top_k = 1; }).is_greedy());
  EXPECT_TRUE(with([](auto& p) { p.temperature = 0.7f, p.top_k = 1; }).is_greedy());
  EXPECT_TRUE(
      with([](auto& p) { p.temperature = 0.0f, p.top_k = 40, p.top_p = 0.9f; }).is_greedy());
  EXPECT_TRUE(with([](auto& p) { p.top_k = 0, p.top_p = 0.0f; }).is_greedy());
  EXPECT_TRUE(with([](auto& p) { p.top_p = 1.0f; }).is_greedy());
  EXPECT_TRUE(with([](auto& p) { p.seed = 5; }).is_greedy());
  EXPECT_FALSE(with([](auto& p) { p.temperature = 0.7f; }).is_greedy());
  EXPECT_FALSE(
      with([](auto& p) { p.temperature = 1.0f, p.top_k = 0, p.top_p = 0.0f; }).is_greedy());
  EXPECT_FALSE(with([](auto& p) { p.top_k = 40; }).is_greedy());
  EXPECT_FALSE(with([](auto& p) { p.top_p = 0.9f; }).is_greedy());
  EXPECT_FALSE(with([](auto& p) { p.min_p = 0.1f; }).is_greedy());
}

struct Case {
  const char* text;  // of the message
  std::function<void(SamplingParams&)> change;
};

TEST(SamplingParams, EveryFieldHasItsLimits) {
  const float nan = std::nanf("");
  const float infinity = std::numeric_limits<float>::infinity();
  const Case cases[] = {
      {"temperature is -0.1", [](auto& p) { p.temperature = -0.1f; }},
      {"temperature is nan", [=](auto& p) { p.temperature = nan; }},
      {"temperature is inf", [=](auto& p) { p.temperature = infinity; }},
      {"top_k is -1", [](auto& p) { p.top_k = -1; }},
      {"top_p is 1.5", [](auto& p) { p.top_p = 1.5f; }},
      {"top_p is nan", [=](auto& p) { p.top_p = nan; }},
      {"min_p is -1", [](auto& p) { p.min_p = -1.0f; }},
      {"repetition_penalty is 0", [](auto& p) { p.repetition_penalty = 0.0f; }},
      {"presence_penalty is inf", [=](auto& p) { p.presence_penalty = infinity; }},
      {"frequency_penalty is nan", [=](auto& p) { p.frequency_penalty = nan; }},
      {"no_repeat_ngram_size is -3", [](auto& p) { p.no_repeat_ngram_size = -3; }},
      {"max_tokens is -1", [](auto& p) { p.max_tokens = -1; }},
      {"min_tokens is 9", [](auto& p) { p.min_tokens = 9, p.max_tokens = 8; }},
      {"n is 0", [](auto& p) { p.n = 0; }},
      {"n is 1000000", [](auto& p) { p.n = 1000000; }},
      {"logprobs is 21", [](auto& p) { p.logprobs = 21; }},
      {"prompt_logprobs is -1", [](auto& p) { p.prompt_logprobs = -1; }},
      {"bad_words has token 100",
       [](auto& p) {
         p.bad_words = {{1, 100}};
       }},
      {"an entry of bad_words has 0 tokens", [](auto& p) { p.bad_words = {{}}; }},
      {"stop_words has token -2", [](auto& p) { p.stop_words = {{-2}}; }},
      {"stop_words has 100000 entries",
       [](auto& p) { p.stop_words.assign(100000, std::vector<int32_t>{1}); }},
      {"logit_bias has token 100",
       [](auto& p) {
         p.logit_bias = {{100, 1.0f}};
       }},
      {"logit_bias of token 3 is inf",
       [=](auto& p) {
         p.logit_bias = {{3, infinity}};
       }},
      {"logit_bias has 5000 entries", [](auto& p) { p.logit_bias.assign(5000, {}); }},
  };
  for (const Case& test : cases) {
    const auto result = validate(with(test.change), 100);
    ASSERT_FALSE(result.ok()) << test.text;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(result.error().message.find(test.text), std::string::npos) << result.error().message;
  }
}

TEST(SamplingParams, TheLimitsThemselvesAreAllowed) {
  SamplingParams params;
  params.temperature = 100.0f;
  params.top_k = std::numeric_limits<int32_t>::max();
  params.top_p = 1.0f;
  params.min_p = 1.0f;
  params.n = 128;
  params.logprobs = 20;
  params.min_tokens = 8;
  params.max_tokens = 8;
  params.logit_bias = {{99, -std::numeric_limits<float>::infinity()}};
  params.stop_words = {std::vector<int32_t>(512, 1)};
  const auto result = validate(params, 100);
  EXPECT_TRUE(result.ok()) << result.error().message;
}

}  // namespace
}  // namespace zonda
