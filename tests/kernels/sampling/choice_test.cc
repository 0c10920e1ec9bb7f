// A choice is made of the changed logits, its log-probabilities are of the unchanged ones.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/sampling/choice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace zonda::kernels {
namespace {

const std::vector<float> kLogits = {1.0f, 4.0f, 3.0f, 2.0f};

TEST(Choice, ChangesMoveTheTokenAndNotTheLogprobs) {
  const std::vector<int32_t> banned = {1};
  const std::vector<TokenBias> bias = {{3, 2.0f}};
  TokenChoice choice;
  choice.mode = ChoiceMode::kGreedy;
  choice.top_logprobs = 2;
  choice.changes = {.bias = bias, .counts = {}, .banned = banned};
  ChoiceScratch scratch;
  const ChosenToken chosen = choose_token(choice, kLogits, scratch);
  ASSERT_TRUE(chosen.token.ok());
  EXPECT_EQ(*chosen.token, 3);
  EXPECT_EQ(chosen.logprobs.rank, 3);
  ASSERT_EQ(chosen.logprobs.top.size(), 2u);
  EXPECT_EQ(chosen.logprobs.top[0].token, 1);
  EXPECT_NEAR(chosen.logprobs.top[0].logprob - chosen.logprobs.chosen, 2.0f, 1e-6);
}

TEST(Choice, ADrawFollowsItsNumber) {
  TokenChoice choice;
  choice.mode = ChoiceMode::kDraw;
  ChoiceScratch scratch;
  SampleScratch rows;
  for (const double uniform : {0.0, 0.3, 0.6, 0.99}) {
    choice.draw.uniform = uniform;
    EXPECT_EQ(*choose_token(choice, kLogits, scratch).token,
              *draw_token(choice.draw, kLogits, rows));
  }
  EXPECT_TRUE(choose_token(choice, kLogits, scratch).logprobs.top.empty());
}

TEST(Choice, ErrorsAreThoseOfTheRow) {
  const std::vector<int32_t> banned = {0, 1, 2, 3};
  TokenChoice choice;
  choice.mode = ChoiceMode::kGreedy;
  choice.changes.banned = banned;
  ChoiceScratch scratch;
  EXPECT_EQ(choose_token(choice, kLogits, scratch).token.error().code, ErrorCode::kInvalidArgument);
  choice.changes.banned = {};
  const std::vector<float> bad = {1.0f, std::nanf("")};
  EXPECT_EQ(choose_token(choice, bad, scratch).token.error().code, ErrorCode::kInternal);
}

}  // namespace
}  // namespace zonda::kernels
