// Laws of sampling on the GPU: the CPU's tokens and errors, whatever the rows beside a row.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/sampling/cuda/sample.h"

#include <gtest/gtest.h>

#include <utility>

#include "device/cuda/gpu_test.h"
#include "device/cuda/graph.h"
#include "kernels/sampling/cuda/sampling_rows.h"

namespace zonda::kernels {
namespace {

using test::by_likelihood;
using test::DeviceBatch;
using test::kInfinity;
using test::random_logits;
using test::RowMode;
using test::SampleRow;
using test::SamplingBatch;

class SampleCuda : public test::GpuTest {
 protected:
  std::mt19937 random_{20};
  SampleScratch scratch_;

  DrawParams random_draw() {
    return {.temperature = 0.3f + static_cast<float>(random_() % 100) / 50.0f,
            .min_p = random_() % 3 == 0 ? static_cast<float>(random_() % 100) / 500.0f : 0.0f,
            .top_k = static_cast<int32_t>(random_() % 2 * (random_() % 3000)),
            .top_p = random_() % 3 == 0 ? 1.0f : static_cast<float>(random_() % 1000) / 1000.0f,
            .uniform = uniform(7, random_())};
  }
  // Draws equal the CPU's but for the few that fall between two tokens.
  void expect_draws(const SamplingBatch& batch) {
    DeviceBatch device(batch);
    const std::vector<int32_t> ids = device.sample();
    size_t different = 0;
    for (size_t row = 0; row < ids.size(); ++row) {
      const DrawParams& draw = batch.rows[row].draw;
      const Result<int32_t> expected = draw_token(draw, batch.logits[row], scratch_);
      ASSERT_TRUE(expected.ok());
      if (ids[row] != *expected) {
        ++different;
        ASSERT_TRUE(test::AllowedTokens(batch.logits[row], draw).contain(ids[row]))
            << "row " << row << " vocab " << batch.vocab << " token " << ids[row] << " not "
            << *expected << " temperature " << draw.temperature << " min_p " << draw.min_p
            << " top_k " << draw.top_k << " top_p " << draw.top_p << " uniform " << draw.uniform;
      }
    }
    EXPECT_LE(different, 1 + ids.size() / 50);
  }
};

TEST_F(SampleCuda, GreedyIsTheFirstOfTheLargestLogits) {
  for (const int64_t vocab : {1, 63, 64, 4095, 4096, 4097, 9001, 128256}) {
    for (const int64_t padding : {0, 1, 4}) {
      SamplingBatch batch(vocab, padding);
      for (int row = 0; row < 4; ++row) {
        std::vector<float> logits = random_logits(random_, static_cast<size_t>(vocab));
        if (row % 2 == 1) {
          const size_t first = random_() % logits.size();
          logits[first] = 100.0f;
          logits[first + random_() % (logits.size() - first)] = 100.0f;
        }
        batch.add_greedy(std::move(logits));
      }
      const std::vector<int32_t> ids = DeviceBatch(batch).sample();
      for (size_t row = 0; row < ids.size(); ++row) {
        EXPECT_EQ(ids[row], *greedy_token(batch.logits[row], scratch_)) << vocab << " row " << row;
      }
    }
  }
}

TEST_F(SampleCuda, ZerosOfBothSignsAreEqual) {
  SamplingBatch batch(300);
  std::vector<float> logits(300, -1.0f);
  logits[7] = -0.0f;
  logits[9] = 0.0f;
  batch.add_greedy(logits);
  batch.add_draw(logits, {.top_k = 1, .uniform = 0.5});
  EXPECT_EQ(DeviceBatch(batch).sample(), std::vector<int32_t>({7, 7}));
}

TEST_F(SampleCuda, FaultyRowsReportTheCpusErrorsAndSpareTheOthers) {
  SamplingBatch batch(9000);
  for (const float bad : {std::nanf(""), -std::nanf(""), kInfinity}) {
    for (const size_t at : {size_t{0}, size_t{4095}, size_t{4096}, size_t{8999}}) {
      std::vector<float> logits = random_logits(random_, 9000);
      logits[at] = bad;
      logits[8999] = bad;  // the first one is named
      batch.add_greedy(logits);
      batch.add_draw(logits, {.top_p = 0.5f, .uniform = 0.3});
    }
  }
  batch.add_greedy(std::vector<float>(9000, -kInfinity));
  batch.add_draw(std::vector<float>(9000, -kInfinity), {.uniform = 0.3});
  std::vector<float> single(9000, -kInfinity);
  single[4500] = -5.0f;
  batch.add_greedy(single);
  batch.add_draw(single, {.uniform = 0.999});
  batch.add_draw(single, {.top_p = 0.1f, .uniform = 0.999});
  const std::vector<int32_t> ids = DeviceBatch(batch).sample();
  for (size_t row = 0; row < ids.size(); ++row) {
    const Result<int32_t> expected = greedy_token(batch.logits[row], scratch_);
    const Result<int32_t> chosen = cuda::chosen_token(ids[row]);
    ASSERT_EQ(chosen.ok(), expected.ok()) << row;
    if (expected.ok()) {
      EXPECT_EQ(*chosen, *expected);
    } else {
      EXPECT_EQ(chosen.error().code, expected.error().code) << chosen.error().message;
    }
  }
  const size_t at[] = {0, 4095, 4096, 8999};
  for (size_t row = 0; row < 24; ++row) {
    EXPECT_EQ(ids[row], cuda::not_finite_id(static_cast<int32_t>(at[row / 2 % 4])));
  }
}

TEST_F(SampleCuda, SkippedRowsKeepTheirIds) {
  SamplingBatch batch(500);
  for (int row = 0; row < 3; ++row) {
    batch.add_greedy(random_logits(random_, 500));
  }
  batch.rows[1].mode = RowMode::kSkip;
  DeviceBatch device(batch);
  device.ids().write({-77, -77, -77});
  const std::vector<int32_t> ids = device.sample();
  EXPECT_GE(ids[0], 0);
  EXPECT_EQ(ids[1], -77);
  EXPECT_GE(ids[2], 0);
}

TEST_F(SampleCuda, DrawsEqualTheCpus) {
  for (const int64_t vocab : {5, 65, 3000, 5000, 50001, 128256}) {
    SamplingBatch batch(vocab, vocab % 2);
    for (int row = 0; row < (vocab > 100000 ? 24 : 60); ++row) {
      const float spread = row % 3 == 0 ? 1.3f : row % 3 == 1 ? 3.0f : 8.0f;
      batch.add_draw(random_logits(random_, static_cast<size_t>(vocab), spread), random_draw());
    }
    expect_draws(batch);
  }
}

TEST_F(SampleCuda, DrawsFollowTheFilteredDistribution) {
  constexpr int kDraws = 500;
  const std::vector<float> logits = random_logits(random_, 2503);
  for (const DrawParams& draw : {DrawParams{.temperature = 0.7f},
                                 {.temperature = 1.0f, .top_p = 0.9f},
                                 {.temperature = 2.0f, .min_p = 0.1f, .top_k = 40},
                                 {.temperature = 1.3f, .top_k = 100, .top_p = 0.5f}}) {
    SamplingBatch batch(2503);
    for (int i = 0; i < kDraws; ++i) {
      DrawParams one = draw;
      one.uniform = (i + 0.5) / kDraws;
      batch.add_draw(logits, one);
    }
    const std::vector<int32_t> ids = DeviceBatch(batch).sample();
    std::vector<int> drawn(2503, 0);
    std::vector<int> expected(2503, 0);
    for (size_t i = 0; i < ids.size(); ++i) {
      ASSERT_GE(ids[i], 0);
      ++drawn[static_cast<size_t>(ids[i])];
      ++expected[static_cast<size_t>(*draw_token(batch.rows[i].draw, logits, scratch_))];
    }
    for (size_t i = 0; i < drawn.size(); ++i) {
      ASSERT_NEAR(drawn[i], expected[i], 1) << "token " << i;
    }
  }
}

TEST_F(SampleCuda, RowsOfEqualOrNearlyEqualLogitsAreSearchedInPlace) {
  for (const int64_t vocab : {4000, 20000}) {
    SamplingBatch batch(vocab);
    std::vector<float> equal(static_cast<size_t>(vocab), 1.5f);
    std::vector<float> near = equal;
    std::vector<float> cluster = equal;
    for (size_t i = 0; i < near.size(); ++i) {
      near[i] = std::nextafter(1.5f, static_cast<float>(random_() % 3));
      // One far smaller logit makes the bins wide.
      cluster[i] += 1e-5f * static_cast<float>(random_() % 1000);
    }
    cluster[17] = -60.0f;
    for (const auto& logits : {equal, near, cluster}) {
      for (const DrawParams& draw : {DrawParams{.top_k = 10},
                                     {.top_k = 3000},
                                     {.top_p = 0.7f},
                                     {.temperature = 0.01f, .top_k = 2500, .top_p = 0.31f},
                                     {.temperature = 1.7f, .min_p = 0.5f}}) {
        for (const double u : {0.0, 0.37, 0.9999999}) {
          DrawParams one = draw;
          one.uniform = u;
          batch.add_draw(logits, one);
        }
      }
    }
    DeviceBatch device(batch);
    const std::vector<int32_t> ids = device.sample();
    for (size_t row = 0; row < ids.size(); ++row) {
      EXPECT_TRUE(test::AllowedTokens(batch.logits[row], batch.rows[row].draw).contain(ids[row]))
          << "row " << row << " token " << ids[row] << " not "
          << *draw_token(batch.rows[row].draw, batch.logits[row], scratch_);
    }
  }
}

TEST_F(SampleCuda, ADrawOnABorderTakesTheTokenAfterIt) {
  SamplingBatch batch(8);
  std::vector<int32_t> expected;
  for (const DrawParams& draw : {DrawParams{}, {.top_k = 4}, {.top_p = 0.5f}}) {
    const int kept = draw.top_k > 0 || draw.top_p < 1.0f ? 4 : 8;  // equal: every sum is exact
    for (int i = 0; i < kept; ++i) {
      DrawParams one = draw;
      one.uniform = static_cast<double>(i) / kept;
      batch.add_draw(std::vector<float>(8, 0.75f), one);
      expected.push_back(i);
      ASSERT_EQ(*draw_token(one, batch.logits.back(), scratch_), i);
    }
  }
  EXPECT_EQ(DeviceBatch(batch).sample(), expected);
}

TEST_F(SampleCuda, ExtremeSettingsStayInTheDistribution) {
  SamplingBatch batch(6000);
  const std::vector<float> logits = random_logits(random_, 6000);
  const int32_t best = by_likelihood(logits)[0];
  const double last = 1.0 - 0x1p-53;
  for (const DrawParams& draw : {DrawParams{.temperature = 1e-30f, .uniform = last},
                                 {.temperature = 1e-30f, .top_p = 0.9f, .uniform = last},
                                 {.top_k = 1, .uniform = last},
                                 {.min_p = 1.0f, .uniform = last},
                                 {.top_p = 1e-9f, .uniform = last}}) {
    batch.add_draw(logits, draw);
  }
  const std::vector<int32_t> ids = DeviceBatch(batch).sample();
  EXPECT_EQ(ids, std::vector<int32_t>(5, best));

  SamplingBatch wide(6000);
  for (const double u : {0.0, 0.2, last}) {
    for (const int32_t top_k : {0, 6000, 2000000000}) {
      for (const float top_p : {1.0f, 0.999999f}) {
        wide.add_draw(logits,
                      {.temperature = 100.0f, .top_k = top_k, .top_p = top_p, .uniform = u});
      }
    }
  }
  expect_draws(wide);
}

TEST_F(SampleCuda, ChangesApplyInTheCpusOrderAndAreUndone) {
  SamplingBatch batch(5000, 3);
  std::vector<LogitChanges> changes;
  constexpr int kRows = 24;
  std::vector<int32_t> tokens(5000);
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto range = [](size_t begin, size_t end) {
    return cuda::ListRange{static_cast<int32_t>(begin), static_cast<int32_t>(end)};
  };
  for (int row = 0; row < kRows; ++row) {
    if (row % 2 == 0) {
      batch.add_greedy(random_logits(random_, 5000));
    } else {
      batch.add_draw(random_logits(random_, 5000), random_draw());
    }
    SampleRow& asked = batch.rows.back();
    asked.repetition_penalty = 1.3f;
    asked.presence_penalty = 0.4f;
    asked.frequency_penalty = 0.2f;
    const size_t bias = batch.bias.size();
    const size_t counts = batch.counts.size();
    const size_t banned = batch.banned.size();
    const size_t size = row % 5 == 0 ? 0 : random_() % 600;
    std::shuffle(tokens.begin(), tokens.end(), random_);
    for (size_t i = 0; i < size; ++i) {  // a token may stand in all three lists
      batch.bias.push_back({tokens[i], i % 7 == 0 ? -kInfinity : static_cast<float>(i % 9)});
      batch.counts.push_back(
          {tokens[i * 2 % 700], static_cast<int32_t>(random_() % 4), random_() % 2 == 0});
      batch.banned.push_back(tokens[random_() % 700]);
      batch.banned.push_back(tokens[i]);
    }
    // Twice the stride comes round to tokens that were there: keep each once.
    std::sort(batch.counts.begin() + static_cast<int64_t>(counts), batch.counts.end(),
              [](const TokenCount& a, const TokenCount& b) { return a.token < b.token; });
    batch.counts.erase(
        std::unique(batch.counts.begin() + static_cast<int64_t>(counts), batch.counts.end(),
                    [](const TokenCount& a, const TokenCount& b) { return a.token == b.token; }),
        batch.counts.end());
    asked.bias = range(bias, batch.bias.size());
    asked.counts = range(counts, batch.counts.size());
    asked.banned = range(banned, batch.banned.size());
  }
  DeviceBatch device(batch);
  const std::vector<int32_t> ids = device.sample();
  const std::vector<float> after = device.logits().read();
  EXPECT_EQ(after, batch.all_logits());
  const auto part = [](const auto& list, cuda::ListRange of) {
    return std::span(list).subspan(static_cast<size_t>(of.begin),
                                   static_cast<size_t>(of.end - of.begin));
  };
  for (size_t row = 0; row < ids.size(); ++row) {
    const SampleRow& asked = batch.rows[row];
    std::vector<float> changed = batch.logits[row];
    apply_logit_changes({.bias = part(batch.bias, asked.bias),
                         .counts = part(batch.counts, asked.counts),
                         .banned = part(batch.banned, asked.banned),
                         .repetition_penalty = asked.repetition_penalty,
                         .presence_penalty = asked.presence_penalty,
                         .frequency_penalty = asked.frequency_penalty},
                        changed);
    if (asked.mode == RowMode::kGreedy) {
      EXPECT_EQ(ids[row], *greedy_token(changed, scratch_));
    } else {
      EXPECT_TRUE(test::AllowedTokens(changed, asked.draw).contain(ids[row])) << row;
    }
  }
}

TEST_F(SampleCuda, ARowDoesNotDependOnTheOthersAndRepeats) {
  SamplingBatch batch(20000);
  for (int row = 0; row < 40; ++row) {
    batch.add_draw(random_logits(random_, 20000, row % 2 == 0 ? 1.0f : 4.0f), random_draw());
  }
  DeviceBatch device(batch);
  const std::vector<int32_t> together = device.sample();
  EXPECT_EQ(device.sample({.stream = nullptr, .dependent = true}), together);
  for (const size_t row : {size_t{0}, size_t{1}, size_t{17}, size_t{39}}) {
    SamplingBatch alone(20000);
    alone.add_draw(batch.logits[row], batch.rows[row].draw);
    EXPECT_EQ(DeviceBatch(alone).sample()[0], together[row]);
  }
}

TEST_F(SampleCuda, AReplayReadsNewRowsAndLogits) {
  SamplingBatch first(30000);
  SamplingBatch second(30000);
  for (int row = 0; row < 6; ++row) {
    first.add_draw(random_logits(random_, 30000), random_draw());
    if (row % 2 == 0) {
      second.add_greedy(random_logits(random_, 30000));
    } else {
      second.add_draw(random_logits(random_, 30000), random_draw());
    }
  }
  const std::vector<int32_t> expected_first = DeviceBatch(first).sample();
  const std::vector<int32_t> expected_second = DeviceBatch(second).sample();
  DeviceBatch device(first);
  const device::cuda::Stream stream = *device::cuda::Stream::create();
  const auto graph = device::cuda::Graph::capture(stream, [&]() -> Result<void> {
    if (cuda::sample(device.params(), stream.site(true)) != cudaSuccess) {
      return Error{ErrorCode::kInternal, "launch"};
    }
    return {};
  });
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  for (int round = 0; round < 20; ++round) {
    device.rows().write(first.rows);
    device.logits().write(first.all_logits());
    ASSERT_TRUE(graph->launch(stream).ok());
    EXPECT_EQ(device.ids().read(), expected_first);
    device.rows().write(second.rows);
    device.logits().write(second.all_logits());
    ASSERT_TRUE(graph->launch(stream).ok());
    EXPECT_EQ(device.ids().read(), expected_second);
  }
}

TEST(SampleLimits, SizesAreChecked) {
  cuda::SampleParams params;
  params.num_rows = 1;
  EXPECT_EQ(cuda::sample(params, {}), cudaErrorInvalidValue);
  params.limits = {.max_rows = 1, .vocab = 100};
  params.logits_stride = 99;
  EXPECT_EQ(cuda::sample(params, {}), cudaErrorInvalidValue);
  params.logits_stride = 100;
  params.num_rows = 2;
  EXPECT_EQ(cuda::sample(params, {}), cudaErrorInvalidValue);
  params.num_rows = 0;
  EXPECT_EQ(cuda::sample(params, {}), cudaSuccess);
  EXPECT_GT(cuda::sample_workspace_bytes({.max_rows = 2, .vocab = 100}),
            cuda::sample_workspace_bytes({.max_rows = 1, .vocab = 100}));
}

TEST(ChosenToken, TellsTokensFromErrors) {
  EXPECT_EQ(*cuda::chosen_token(0), 0);
  EXPECT_EQ(*cuda::chosen_token(128255), 128255);
  EXPECT_EQ(cuda::chosen_token(cuda::kNoTokenLeft).error().code, ErrorCode::kInvalidArgument);
  const Error bad = cuda::chosen_token(cuda::not_finite_id(42)).error();
  EXPECT_EQ(bad.code, ErrorCode::kInternal);
  EXPECT_NE(bad.message.find("token 42 "), std::string::npos) << bad.message;
}

}  // namespace
}  // namespace zonda::kernels
