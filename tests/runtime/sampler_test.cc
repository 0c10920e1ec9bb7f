// Laws of Sampler: which tokens each rule bans or favours, and that draws repeat.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace zonda::runtime {
namespace {

// Token i has logit 10 - i: greedy takes the lowest id that is left.
std::vector<float> falling(int32_t vocab_size = 10) {
  std::vector<float> logits;
  for (int32_t i = 0; i < vocab_size; ++i) {
    logits.push_back(10.0f - static_cast<float>(i));
  }
  return logits;
}

std::vector<int32_t> generate(const SamplingParams& params, const std::vector<int32_t>& prompt,
                              const std::vector<int32_t>& end_ids, int32_t count,
                              int32_t sequence = 0) {
  Sampler sampler(params, end_ids, prompt, sequence);
  kernels::ChoiceScratch scratch;
  std::vector<int32_t> output;
  for (int32_t i = 0; i < count; ++i) {
    const auto token = kernels::choose_token(sampler.choice(), falling(), scratch).token;
    EXPECT_TRUE(token.ok());
    output.push_back(*token);
    sampler.accept(*token);
  }
  EXPECT_EQ(sampler.num_output(), count);
  return output;
}

using Tokens = std::vector<int32_t>;

TEST(Sampler, LogitBiasBansAndFavours) {
  SamplingParams params;
  params.logit_bias = {{0, -std::numeric_limits<float>::infinity()}, {7, 50.0f}};
  EXPECT_EQ(generate(params, {1}, {}, 1), Tokens{7});
  params.logit_bias = {{0, -100.0f}};
  EXPECT_EQ(generate(params, {1}, {}, 1), Tokens{1});
  // Two entries of a token add up, and reach a device as one.
  params.logit_bias = {{9, 5.0f}, {9, 4.5f}};
  EXPECT_EQ(generate(params, {1}, {}, 1), Tokens{9});
  const Tokens prompt = {1};
  Sampler sampler(params, {}, prompt, 0);
  EXPECT_EQ(sampler.choice().changes.bias.size(), 1u);
}

TEST(Sampler, RepetitionCountsThePromptOthersDoNot) {
  SamplingParams params;
  params.repetition_penalty = 2.0f;
  EXPECT_EQ(generate(params, {0, 1}, {}, 3), (Tokens{2, 3, 4}));
  params = {};
  params.presence_penalty = 20.0f;
  EXPECT_EQ(generate(params, {0, 1}, {}, 3), (Tokens{0, 1, 2}));
  params = {};
  params.frequency_penalty = 1.5f;
  EXPECT_EQ(generate(params, {0, 1}, {}, 4), (Tokens{0, 1, 0, 2}));
}

TEST(Sampler, NoRepeatNgramLooksAtPromptAndOutput) {
  SamplingParams params;
  params.no_repeat_ngram_size = 2;
  // After 5, 0 is taken once; the pairs (0,0), (0,1), ... follow one after the other.
  EXPECT_EQ(generate(params, {5, 0, 5}, {}, 4), (Tokens{1, 0, 0, 1}));
  params.no_repeat_ngram_size = 1;
  EXPECT_EQ(generate(params, {0, 2}, {}, 3), (Tokens{1, 3, 4}));
}

TEST(Sampler, BadWordsAreNeverCompleted) {
  SamplingParams params;
  params.bad_words = {{0, 0}, {3, 1, 0}, {2}};
  EXPECT_EQ(generate(params, {5}, {}, 3), (Tokens{0, 1, 0}));
  EXPECT_EQ(generate(params, {3, 1}, {}, 1), Tokens{1});
}

TEST(Sampler, EndsCannotBeChosenBeforeMinTokens) {
  SamplingParams params;
  params.min_tokens = 2;
  params.stop_words = {{1}, {3, 4}};
  EXPECT_EQ(generate(params, {5}, {0}, 3), (Tokens{2, 2, 0}));
  params.ignore_eos = true;
  EXPECT_EQ(generate(params, {5}, {0}, 1), Tokens{0});
}

TEST(Sampler, ARuleThatLeavesNoTokenIsTheRequestsFault) {
  SamplingParams params;
  for (int32_t i = 0; i < 10; ++i) {
    params.bad_words.push_back({i});
  }
  const Tokens prompt = {1};
  Sampler sampler(params, {}, prompt, 0);
  kernels::ChoiceScratch scratch;
  EXPECT_EQ(kernels::choose_token(sampler.choice(), falling(), scratch).token.error().code,
            ErrorCode::kInvalidArgument);
}

TEST(Sampler, ARowThatIsNotFiniteIsAFaultOfTheEngine) {
  const Tokens prompt = {1};
  const SamplingParams params;
  Sampler sampler(params, {}, prompt, 0);
  kernels::ChoiceScratch scratch;
  auto logits = falling();
  logits[4] = std::nanf("");
  EXPECT_EQ(kernels::choose_token(sampler.choice(), logits, scratch).token.error().code,
            ErrorCode::kInternal);
}

TEST(Sampler, DrawsRepeatForASeedAndDifferByStream) {
  SamplingParams params;
  params.temperature = 5.0f;
  params.seed = 42;
  const Tokens first = generate(params, {1}, {}, 50);
  EXPECT_EQ(generate(params, {1}, {}, 50), first);
  EXPECT_NE(generate(params, {1}, {}, 50, 1), first);
  params.seed = 43;
  EXPECT_NE(generate(params, {1}, {}, 50), first);
}

TEST(Sampler, TopKBoundsTheDraws) {
  SamplingParams params;
  params.temperature = 50.0f;
  params.top_k = 3;
  params.seed = 1;
  std::vector<int> seen(10, 0);
  for (const int32_t token : generate(params, {1}, {}, 300)) {
    ++seen[static_cast<size_t>(token)];
  }
  EXPECT_GT(seen[0], 50);
  EXPECT_GT(seen[2], 50);
  EXPECT_EQ(seen[3] + seen[9], 0);
}

TEST(TokenLogprobs, RankFloorAndTopAreOfTheRawRow) {
  auto logits = falling();
  logits[9] = -std::numeric_limits<float>::infinity();
  kernels::SampleScratch scratch;
  const auto of = [&](int32_t token, int32_t top) {
    const auto row = kernels::row_logprobs(logits, token, top, scratch);
    EXPECT_TRUE(row.ok());
    return token_logprobs(token, *row);
  };
  const TokenLogprobs third = of(2, 2);
  EXPECT_EQ(third.rank, 3);
  ASSERT_EQ(third.top.size(), 2u);
  EXPECT_EQ(third.top[0].token, 0);
  EXPECT_NEAR(third.top[0].logprob - third.chosen.logprob, 2.0f, 1e-5);
  const TokenLogprobs banned = of(9, 0);
  EXPECT_EQ(banned.chosen.logprob, -9999.0f);
  EXPECT_EQ(banned.rank, 10);
}

}  // namespace
}  // namespace zonda::runtime
