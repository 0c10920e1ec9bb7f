// Laws of sampling: the draw follows the filtered distribution, and bad logits are errors.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/sampling/sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "kernels/isa_levels.h"

namespace zonda::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_logits(std::mt19937& random, size_t size, float spread = 3.0f) {
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> logits(size);
  for (float& logit : logits) {
    logit = normal(random);
  }
  return logits;
}

std::vector<int32_t> by_likelihood(const std::vector<float>& logits) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  return ids;
}

// The distribution after all filters by a full sort in double precision.
std::vector<double> exact_distribution(const std::vector<float>& logits, const DrawParams& params) {
  std::vector<int32_t> ids = by_likelihood(logits);
  const double largest = double{logits[static_cast<size_t>(ids[0])]};
  std::vector<double> weight(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    weight[i] = std::exp((double{logits[i]} - largest) / double{params.temperature});
    if (weight[i] < double{params.min_p}) {
      weight[i] = 0;
    }
  }
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < ids.size()) {
    for (size_t i = static_cast<size_t>(params.top_k); i < ids.size(); ++i) {
      weight[static_cast<size_t>(ids[i])] = 0;
    }
  }
  const double total = std::accumulate(weight.begin(), weight.end(), 0.0);
  if (params.top_p > 0 && params.top_p < 1) {
    double sum = 0;
    for (const int32_t id : ids) {
      double& w = weight[static_cast<size_t>(id)];
      const bool keep = sum < double{params.top_p} * total;
      sum += w;
      w = keep ? w : 0;
    }
  }
  const double kept = std::accumulate(weight.begin(), weight.end(), 0.0);
  for (double& w : weight) {
    w /= kept;
  }
  return weight;
}

TEST(Draw, FollowsTheFilteredDistribution) {
  std::mt19937 random(1);
  SampleScratch scratch;
  constexpr int kDraws = 500;
  for (const size_t size : {1u, 5u, 65u, 1000u, 2503u}) {
    const std::vector<float> logits = random_logits(random, size);
    for (const float temperature : {0.3f, 1.0f, 2.0f}) {
      for (const int32_t top_k : {0, 1, 7, 100, 1000}) {
        for (const float top_p : {0.0f, 0.05f, 0.9f, 1.0f}) {
          for (const float min_p : {0.0f, 0.1f}) {
            DrawParams params{temperature, min_p, top_k, top_p, 0.0};
            const std::vector<double> exact = exact_distribution(logits, params);
            std::vector<int> drawn(size, 0);
            for (int i = 0; i < kDraws; ++i) {
              params.uniform = (i + 0.5) / kDraws;
              const Result<int32_t> token = draw_token(params, logits, scratch);
              ASSERT_TRUE(token.ok());
              ++drawn[static_cast<size_t>(*token)];
            }
            for (size_t i = 0; i < size; ++i) {
              // Evenly spaced uniforms hit an interval of length p within one draw of p * kDraws.
              ASSERT_NEAR(drawn[i], exact[i] * kDraws, 1.01)
                  << "token " << i << " of " << size << " k " << top_k << " p " << top_p;
              ASSERT_TRUE(exact[i] > 0 || drawn[i] == 0);
            }
          }
        }
      }
    }
  }
}

TEST(Draw, EveryIsaDrawsTheSameToken) {
  std::mt19937 random(2);
  for (const size_t size : {3u, 777u, 49152u}) {
    const std::vector<float> logits = random_logits(random, size);
    for (int i = 0; i < 200; ++i) {
      const DrawParams params{
          .temperature = 0.5f + static_cast<float>(random() % 100) / 50.0f,
          .min_p = random() % 3 == 0 ? 0.02f : 0.0f,
          .top_k = static_cast<int32_t>(random() % 2 * (random() % 2000)),
          .top_p = random() % 2 == 0 ? 1.0f : static_cast<float>(random() % 1000) / 1000.0f,
          .uniform = static_cast<double>(random()) / 4294967296.0};
      std::set<int32_t> tokens;
      for (const device::CpuIsa isa : isa_levels()) {
        SampleScratch scratch;
        tokens.insert(*draw_token(params, logits, scratch, isa));
      }
      ASSERT_EQ(tokens.size(), 1u);
    }
  }
}

TEST(Draw, UsedScratchDoesNotChangeTheResult) {
  std::mt19937 random(3);
  SampleScratch used;
  for (int i = 0; i < 300; ++i) {
    const std::vector<float> logits = random_logits(random, 1 + random() % 3000);
    const DrawParams params{.top_k = static_cast<int32_t>(random() % 60),
                            .top_p = static_cast<float>(random() % 11) / 10.0f,
                            .uniform = uniform(5, static_cast<uint64_t>(i))};
    SampleScratch fresh;
    ASSERT_EQ(*draw_token(params, logits, used), *draw_token(params, logits, fresh));
  }
}

TEST(Draw, ATinyTemperatureIsTheMaximum) {
  std::mt19937 random(4);
  SampleScratch scratch;
  for (int i = 0; i < 50; ++i) {
    const std::vector<float> logits = random_logits(random, 500);
    const DrawParams params{.temperature = 1e-30f, .uniform = uniform(1, static_cast<uint64_t>(i))};
    ASSERT_EQ(*draw_token(params, logits, scratch), *greedy_token(logits, scratch));
  }
}

TEST(Draw, BannedTokensAreNeverDrawn) {
  SampleScratch scratch;
  std::vector<float> logits(300, 0.0f);
  const int32_t banned[] = {0, 1, 2, 150, 299};
  apply_logit_changes({.banned = banned}, logits);
  for (int i = 0; i < 3000; ++i) {
    for (const float top_p : {1.0f, 0.999f}) {
      const int32_t token =
          *draw_token({.top_p = top_p, .uniform = (i + 0.5) / 3000}, logits, scratch);
      ASSERT_EQ(std::count(std::begin(banned), std::end(banned), token), 0);
    }
  }
}

TEST(Draw, OfEquallyLikelyTokensTopKKeepsTheLowerIds) {
  SampleScratch scratch;
  const std::vector<float> logits(1000, 1.5f);
  for (const int32_t k : {1, 10, 200}) {
    std::set<int32_t> drawn;
    for (int i = 0; i < 2000; ++i) {
      drawn.insert(*draw_token({.top_k = k, .uniform = (i + 0.5) / 2000}, logits, scratch));
    }
    EXPECT_EQ(drawn.size(), static_cast<size_t>(k));
    EXPECT_EQ(*drawn.rbegin(), k - 1);
  }
}

TEST(Greedy, IsTheFirstOfTheLargestLogits) {
  SampleScratch scratch;
  std::mt19937 random(5);
  for (const device::CpuIsa isa : isa_levels()) {
    for (const size_t size : {1u, 63u, 64u, 65u, 4099u}) {
      std::vector<float> logits = random_logits(random, size);
      EXPECT_EQ(*greedy_token(logits, scratch, isa), by_likelihood(logits)[0]);
      const size_t first = random() % size;
      logits[first] = 100.0f;
      logits[first + random() % (size - first)] = 100.0f;
      EXPECT_EQ(*greedy_token(logits, scratch, isa), static_cast<int32_t>(first));
    }
  }
}

TEST(Greedy, NegativeInfinityIsAllowedUnlessNothingIsLeft) {
  SampleScratch scratch;
  std::vector<float> logits(100, -kInfinity);
  const Result<int32_t> none = greedy_token(logits, scratch);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kInvalidArgument);
  logits[42] = -5.0f;
  EXPECT_EQ(*greedy_token(logits, scratch), 42);
  EXPECT_EQ(*draw_token({.uniform = 0.999}, logits, scratch), 42);
}

TEST(Sampling, NaNAndPlusInfinityAreErrorsThatNameTheToken) {
  SampleScratch scratch;
  std::mt19937 random(6);
  for (const device::CpuIsa isa : isa_levels()) {
    for (const float bad : {kNaN, -kNaN, kInfinity}) {
      for (const size_t at : {size_t{0}, size_t{63}, size_t{64}, size_t{129}}) {
        std::vector<float> logits = random_logits(random, 130);
        logits[at] = bad;
        const Result<int32_t> greedy = greedy_token(logits, scratch, isa);
        ASSERT_FALSE(greedy.ok());
        EXPECT_EQ(greedy.error().code, ErrorCode::kInternal);
        EXPECT_NE(greedy.error().message.find(std::to_string(at)), std::string::npos);
        EXPECT_FALSE(draw_token({}, logits, scratch, isa).ok());
        EXPECT_FALSE(draw_token({.top_k = 5}, logits, scratch, isa).ok());
        EXPECT_FALSE(row_logprobs(logits, 0, 5, scratch, isa).ok());
      }
    }
  }
}

TEST(LogitChanges, ApplyInTheStatedOrder) {
  std::vector<float> logits = {1.0f, -1.0f, 2.0f, 4.0f, 0.5f, -2.0f};
  const TokenBias bias[] = {{0, 2.0f}, {5, 1.0f}, {4, 3.0f}};
  const TokenCount counts[] = {{0, 2, false}, {1, 0, true}, {3, 1, true}, {5, 0, false}};
  const int32_t banned[] = {4};
  apply_logit_changes({.bias = bias,
                       .counts = counts,
                       .banned = banned,
                       .repetition_penalty = 2.0f,
                       .presence_penalty = 0.25f,
                       .frequency_penalty = 0.5f},
                      logits);
  EXPECT_EQ(logits[0], (1.0f + 2.0f) / 2.0f - 0.25f - 2 * 0.5f);
  EXPECT_EQ(logits[1], -2.0f);  // in the prompt only: no presence, no frequency
  EXPECT_EQ(logits[2], 2.0f);
  EXPECT_EQ(logits[3], 2.0f - 0.25f - 0.5f);
  EXPECT_EQ(logits[4], -kInfinity);
  EXPECT_EQ(logits[5], -1.0f);
}

TEST(Logprobs, AreTheLogSoftmaxOfTheRow) {
  std::mt19937 random(7);
  SampleScratch scratch;
  for (const device::CpuIsa isa : isa_levels()) {
    for (const size_t size : {1u, 64u, 100u, 50000u}) {
      const std::vector<float> logits = random_logits(random, size);
      double total = 0;
      for (const float logit : logits) {
        total += std::exp(double{logit});
      }
      const std::vector<int32_t> ids = by_likelihood(logits);
      const auto chosen = static_cast<int32_t>(random() % size);
      const RowLogprobs row = *row_logprobs(logits, chosen, 20, scratch, isa);
      EXPECT_NEAR(row.chosen, double{logits[static_cast<size_t>(chosen)]} - std::log(total), 2e-6);
      ASSERT_EQ(row.top.size(), std::min<size_t>(20, size));
      for (size_t i = 0; i < row.top.size(); ++i) {
        EXPECT_EQ(row.top[i].token, ids[i]);
        EXPECT_NEAR(row.top[i].logprob,
                    double{logits[static_cast<size_t>(ids[i])]} - std::log(total), 2e-6);
      }
    }
  }
}

TEST(Logprobs, OfABannedTokenIsMinusInfinity) {
  SampleScratch scratch;
  std::vector<float> logits(70, 0.0f);
  logits[3] = -kInfinity;
  EXPECT_EQ(row_logprobs(logits, 3, 0, scratch)->chosen, -kInfinity);
}

TEST(Uniform, IsAFixedEvenFunctionOfSeedAndCounter) {
  EXPECT_EQ(uniform(1, 2), uniform(1, 2));
  EXPECT_NE(uniform(1, 2), uniform(2, 1));
  constexpr int kBins = 64;
  constexpr int kDraws = 64000;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    std::vector<int> bins(kBins, 0);
    for (uint64_t i = 0; i < kDraws; ++i) {
      const double u = uniform(seed, i);
      ASSERT_GE(u, 0.0);
      ASSERT_LT(u, 1.0);
      ++bins[static_cast<size_t>(u * kBins)];
    }
    double chi_square = 0;
    for (const int count : bins) {
      chi_square += std::pow(count - kDraws / kBins, 2) / (kDraws / kBins);
    }
    EXPECT_LT(chi_square, 110.0);  // 63 degrees of freedom: beyond 1 in 4,000
    EXPECT_GT(chi_square, 30.0);
  }
}

}  // namespace
}  // namespace zonda::kernels
