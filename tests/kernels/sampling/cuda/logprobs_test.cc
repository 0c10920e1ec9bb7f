// Laws of log-probabilities on the GPU: the CPU's log-softmax, its order and the ranks.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <utility>

#include "device/cuda/gpu_test.h"
#include "kernels/sampling/cuda/sampling_rows.h"

namespace zonda::kernels {
namespace {

using test::kInfinity;
using test::random_logits;

constexpr int kTop = cuda::kMaxTopLogprobs;

struct Asked {
  std::vector<float> logits;
  int32_t chosen;
  int32_t top_n;
};

struct Reported {
  std::vector<float> chosen;
  std::vector<int32_t> ranks;
  std::vector<int32_t> tokens;
  std::vector<float> top;
};

class LogprobsCuda : public test::GpuTest {
 protected:
  Reported report(int64_t vocab, const std::vector<Asked>& asked) {
    std::vector<float> logits;
    std::vector<int32_t> chosen;
    std::vector<int32_t> top_n;
    for (const Asked& row : asked) {
      logits.insert(logits.end(), row.logits.begin(), row.logits.end());
      chosen.push_back(row.chosen);
      top_n.push_back(row.top_n);
    }
    const size_t rows = asked.size();
    const test::SampleLimits limits{.max_rows = static_cast<int64_t>(rows), .vocab = vocab};
    test::DeviceArray<float> device_logits(logits);
    test::DeviceArray<int32_t> device_chosen(chosen);
    test::DeviceArray<int32_t> device_top_n(top_n);
    test::DeviceArray<float> chosen_logprobs(rows);
    test::DeviceArray<int32_t> ranks(rows);
    test::DeviceArray<int32_t> tokens(rows * kTop);
    test::DeviceArray<float> top(rows * kTop);
    test::DeviceArray<uint8_t> workspace(
        std::vector<uint8_t>(static_cast<size_t>(cuda::sample_workspace_bytes(limits))));
    for (int round = 0; round < 2; ++round) {  // the workspace is left as it was found
      EXPECT_EQ(cuda::row_logprobs({.logits = device_logits.data(),
                                    .logits_stride = vocab,
                                    .chosen = device_chosen.data(),
                                    .top_n = device_top_n.data(),
                                    .chosen_logprobs = chosen_logprobs.data(),
                                    .chosen_ranks = ranks.data(),
                                    .top_tokens = tokens.data(),
                                    .top_logprobs = top.data(),
                                    .workspace = workspace.data(),
                                    .limits = limits,
                                    .num_rows = static_cast<int64_t>(rows)},
                                   {.stream = nullptr, .dependent = round == 1}),
                cudaSuccess);
    }
    return {chosen_logprobs.read(), ranks.read(), tokens.read(), top.read()};
  }

  void expect_cpu_values(int64_t vocab, const std::vector<Asked>& asked) {
    const Reported got = report(vocab, asked);
    SampleScratch scratch;
    for (size_t row = 0; row < asked.size(); ++row) {
      const Asked& one = asked[row];
      const RowLogprobs expected = *row_logprobs(one.logits, one.chosen, one.top_n, scratch);
      // Absolute error of a float32 logarithm of these sizes, and of the mass' unit.
      const auto near = [](float value) { return 2e-6f + std::abs(value) * 2e-7f; };
      if (std::isinf(expected.chosen)) {
        EXPECT_EQ(got.chosen[row], expected.chosen);
      } else {
        EXPECT_NEAR(got.chosen[row], expected.chosen, near(expected.chosen)) << row;
      }
      const float own = one.logits[static_cast<size_t>(one.chosen)];
      EXPECT_EQ(got.ranks[row], 1 + std::count_if(one.logits.begin(), one.logits.end(),
                                                  [own](float logit) { return logit > own; }));
      for (size_t i = 0; i < kTop; ++i) {
        const size_t at = row * kTop + i;
        if (i < expected.top.size()) {
          ASSERT_EQ(got.tokens[at], expected.top[i].token) << "row " << row << " place " << i;
          if (std::isinf(expected.top[i].logprob)) {
            ASSERT_EQ(got.top[at], expected.top[i].logprob);
          } else {
            ASSERT_NEAR(got.top[at], expected.top[i].logprob, near(expected.top[i].logprob));
          }
        } else if (i < static_cast<size_t>(one.top_n)) {
          EXPECT_EQ(got.tokens[at], -1);
        } else {
          EXPECT_EQ(static_cast<uint32_t>(got.tokens[at]), 0xffffffffu);  // as it was poisoned
          EXPECT_TRUE(std::isnan(got.top[at]));
        }
      }
    }
  }
};

TEST_F(LogprobsCuda, AreTheCpusLogSoftmax) {
  std::mt19937 random(31);
  for (const int64_t vocab : {1, 5, 300, 4097, 50000, 128256}) {
    std::vector<Asked> asked;
    for (int row = 0; row < 10; ++row) {
      std::vector<float> logits =
          random_logits(random, static_cast<size_t>(vocab), row % 2 == 0 ? 1.3f : 5.0f);
      const auto chosen = static_cast<int32_t>(random() % logits.size());
      asked.push_back({std::move(logits), chosen, row * 2 + (row == 9 ? 2 : 0)});
    }
    expect_cpu_values(vocab, asked);
  }
}

TEST_F(LogprobsCuda, HoldForPeakedEqualAndBannedLogits) {
  std::mt19937 random(32);
  std::vector<float> peaked = random_logits(random, 9000, 0.5f);
  peaked[4321] = 45.0f;  // all others lie beyond what a draw could reach
  std::vector<float> far = peaked;
  far[10] = -1e9f;
  far[4321] = 500.0f;
  std::vector<float> banned = peaked;
  std::fill(banned.begin() + 100, banned.end(), -kInfinity);
  std::vector<float> few(9000, -kInfinity);
  few[3] = few[8000] = 1.0f;
  std::vector<float> tied(9000, 0.25f);
  tied[5000] = 0.5f;
  std::vector<Asked> asked;
  for (const auto& logits : {peaked, far, banned, few, tied, std::vector<float>(9000, -3.0f)}) {
    for (const int32_t top_n : {0, 1, 20}) {
      asked.push_back({logits, 3, top_n});
      asked.push_back({logits, 8000, top_n});
    }
  }
  expect_cpu_values(9000, asked);
}

TEST_F(LogprobsCuda, SkippedRowsStayAndFaultyOnesAreNaN) {
  std::mt19937 random(33);
  std::vector<float> faulty = random_logits(random, 700);
  faulty[600] = std::nanf("");
  const std::vector<float> sound = random_logits(random, 700);
  const Reported got = report(700, {{sound, 5, -1},
                                    {sound, cuda::kNoTokenLeft, 3},
                                    {faulty, 5, 2},
                                    {std::vector<float>(700, -kInfinity), 5, 1},
                                    {sound, 5, 0}});
  for (size_t row = 0; row < 2; ++row) {
    EXPECT_EQ(static_cast<uint32_t>(got.ranks[row]), 0xffffffffu);
    EXPECT_TRUE(std::isnan(got.chosen[row]));
  }
  EXPECT_TRUE(std::isnan(got.chosen[2]));
  EXPECT_TRUE(std::isnan(got.top[2 * kTop + 1]));
  EXPECT_EQ(got.tokens[2 * kTop], -1);
  EXPECT_TRUE(std::isnan(got.chosen[3]));
  EXPECT_LT(got.chosen[4], 0.0f);
}

}  // namespace
}  // namespace zonda::kernels
