// Laws of finish_reason: precedence and the exact token at which each condition holds.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/stop_conditions.h"

#include <gtest/gtest.h>

namespace zonda::runtime {
namespace {

using Tokens = std::vector<int32_t>;

FinishReason reason(const SamplingParams& params, const Tokens& output, int32_t max_new = 10) {
  const Tokens end_ids = {1, 2};
  return finish_reason(params, end_ids, max_new, output);
}

TEST(FinishReason, EachEndIdEndsUnlessIgnored) {
  SamplingParams params;
  EXPECT_EQ(reason(params, {5, 1}), FinishReason::kEndId);
  EXPECT_EQ(reason(params, {5, 2}), FinishReason::kEndId);
  EXPECT_EQ(reason(params, {1, 5}), FinishReason::kNotFinished);
  params.ignore_eos = true;
  EXPECT_EQ(reason(params, {5, 1}), FinishReason::kNotFinished);
}

TEST(FinishReason, AStopWordMustBeTheWholeTail) {
  SamplingParams params;
  params.stop_words = {{7, 8}, {9}};
  EXPECT_EQ(reason(params, {7, 8}), FinishReason::kStopWords);
  EXPECT_EQ(reason(params, {8}), FinishReason::kNotFinished);
  EXPECT_EQ(reason(params, {7, 8, 5}), FinishReason::kNotFinished);
  EXPECT_EQ(reason(params, {9}), FinishReason::kStopWords);
}

TEST(FinishReason, StopWordsWaitForMinTokens) {
  SamplingParams params;
  params.stop_words = {{7, 8}};
  params.min_tokens = 2;
  EXPECT_EQ(reason(params, {7, 8}), FinishReason::kNotFinished);
  EXPECT_EQ(reason(params, {3, 7, 8}), FinishReason::kStopWords);
}

TEST(FinishReason, TheLengthComesLast) {
  SamplingParams params;
  EXPECT_EQ(reason(params, {5, 5}, 2), FinishReason::kLength);
  EXPECT_EQ(reason(params, {5, 1}, 2), FinishReason::kEndId);
  params.stop_words = {{5}};
  EXPECT_EQ(reason(params, {5, 5}, 2), FinishReason::kStopWords);
}

}  // namespace
}  // namespace zonda::runtime
