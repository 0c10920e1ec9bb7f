// Tokens chosen on a GPU are those that the host chooses.
// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/token_chooser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "device/cuda/device_array.h"
#include "device/cuda/gpu_test.h"

namespace zonda::engine::cuda {
namespace {

using kernels::ChoiceMode;
using kernels::ChosenToken;
using kernels::TokenChoice;

constexpr int32_t kVocab = 5003;

class TokenChooserTest : public test::GpuTest {
 protected:
  void SetUp() override {
    test::GpuTest::SetUp();
    if (IsSkipped()) {
      return;
    }
    auto stream = device::cuda::Stream::create();
    ASSERT_TRUE(stream.ok());
    stream_ = std::move(*stream);
    ASSERT_TRUE(chooser_.reserve(64, kVocab, stream_).ok());
  }

  std::vector<ChosenToken> choose(const std::vector<TokenChoice>& choices) {
    std::normal_distribution<float> normal(0.0f, 3.0f);
    logits_.resize(choices.size() * kVocab);
    std::ranges::generate(logits_, [&] { return normal(random_); });
    test::DeviceArray<float> on_device(logits_);
    EXPECT_TRUE(chooser_.start(choices, on_device.data(), stream_).ok());
    EXPECT_TRUE(stream_.synchronize().ok());
    EXPECT_EQ(on_device.read(), logits_);
    const auto chosen = chooser_.take();
    return {chosen.begin(), chosen.end()};
  }
  std::span<const float> row(size_t index) const {
    return std::span(logits_).subspan(index * kVocab, kVocab);
  }

  std::mt19937 random_{20260};
  device::cuda::Stream stream_;
  TokenChooser chooser_;
  std::vector<float> logits_;
  kernels::ChoiceScratch scratch_;
};

TEST_F(TokenChooserTest, RowsOfEveryKindFollowTheHostStepAfterStep) {
  for (const size_t rows : {size_t{1}, size_t{7}, size_t{64}, size_t{3}}) {
    for (int step = 0; step < 4; ++step) {
      std::vector<std::vector<kernels::TokenBias>> bias(rows);
      std::vector<std::vector<kernels::TokenCount>> counts(rows);
      std::vector<std::vector<int32_t>> banned(rows);
      std::vector<TokenChoice> choices(rows);
      for (size_t i = 0; i < rows; ++i) {
        TokenChoice& choice = choices[i];
        // Step 0 is plain greedy, the others mix.
        const auto kind = step == 0 ? 0 : (i + static_cast<size_t>(step)) % 5;
        choice.mode = kind == 4   ? ChoiceMode::kNone
                      : kind == 3 ? ChoiceMode::kDraw
                                  : ChoiceMode::kGreedy;
        choice.draw = {.temperature = 0.7f, .top_k = 40, .top_p = 0.9f, .uniform = 0.37};
        if (kind == 1) {
          for (int32_t token = 0; token < 400; ++token) {
            bias[i].push_back({token * 7, token % 3 == 0 ? 3.0f : -1.0f});
            counts[i].push_back({token * 11, token % 4, token % 2 == 0});
            banned[i].push_back(token * 12);
          }
          choice.changes = {.bias = bias[i],
                            .counts = counts[i],
                            .banned = banned[i],
                            .repetition_penalty = 1.4f,
                            .presence_penalty = 0.3f,
                            .frequency_penalty = 0.2f};
        }
        choice.top_logprobs = kind == 2 ? static_cast<int32_t>(i % 21) : -1;
      }
      const auto chosen = choose(choices);
      ASSERT_EQ(chosen.size(), rows);
      for (size_t i = 0; i < rows; ++i) {
        if (choices[i].mode == ChoiceMode::kNone) {
          continue;
        }
        const ChosenToken expected = kernels::choose_token(choices[i], row(i), scratch_);
        ASSERT_TRUE(chosen[i].token.ok());
        EXPECT_EQ(*chosen[i].token, *expected.token) << "row " << i << " of step " << step;
        ASSERT_EQ(chosen[i].logprobs.top.size(), expected.logprobs.top.size());
        EXPECT_EQ(chosen[i].logprobs.rank, expected.logprobs.rank);
        EXPECT_NEAR(chosen[i].logprobs.chosen, expected.logprobs.chosen, 1e-4);
        for (size_t k = 0; k < expected.logprobs.top.size(); ++k) {
          EXPECT_EQ(chosen[i].logprobs.top[k].token, expected.logprobs.top[k].token);
          EXPECT_NEAR(chosen[i].logprobs.top[k].logprob, expected.logprobs.top[k].logprob, 1e-4);
        }
      }
    }
  }
}

TEST_F(TokenChooserTest, ARowWithoutATokenLeftIsAnErrorOfItsOwn) {
  std::vector<int32_t> all(kVocab);
  std::iota(all.begin(), all.end(), 0);
  std::vector<TokenChoice> choices(2);
  choices[0].mode = choices[1].mode = ChoiceMode::kGreedy;
  choices[1].changes.banned = all;
  const auto chosen = choose(choices);
  EXPECT_TRUE(chosen[0].token.ok());
  ASSERT_FALSE(chosen[1].token.ok());
  EXPECT_EQ(chosen[1].token.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace zonda::engine::cuda
