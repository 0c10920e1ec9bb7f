// A request's tokens do not depend on batch, chunks, reuse, pauses, policy or neighbours.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "runtime/fake_runner.h"
#include "runtime/step_loop.h"
#include "test_support/round_seed.h"

namespace zonda::runtime {
namespace {

using Tokens = std::vector<int32_t>;
using Outputs = std::map<std::pair<RequestId, int32_t>, Tokens>;

// 32 requests of all kinds; the same for each call.
std::vector<Request> requests() {
  std::mt19937 random(test::round_seed(5));
  std::vector<Request> all(32);
  for (size_t i = 0; i < all.size(); ++i) {
    Request& request = all[i];
    const auto length = 1 + random() % 40;
    for (size_t at = 0; at < length; ++at) {
      // Every third prompt begins like the others.
      request.input_token_ids.push_back(static_cast<int32_t>(i % 3 == 0 ? at % 50 : random() % 50));
    }
    request.sampling.max_tokens = 1 + static_cast<int32_t>(random() % 25);
    request.streaming = random() % 2 == 0;
    request.sampling.logprobs = 1;
    request.end_ids = {static_cast<int32_t>(random() % 50)};
    if (i % 2 == 0) {
      request.sampling.temperature = 1.3f;
      request.sampling.seed = i;
      request.sampling.n = i % 8 == 0 ? 3 : 1;
    }
    if (i % 5 == 0) {
      request.sampling.repetition_penalty = 1.3f;
      request.sampling.no_repeat_ngram_size = 3;
    }
    if (i % 7 == 0) {
      request.sampling.prompt_logprobs = 1;
    }
  }
  return all;
}

struct Outcome {
  Outputs outputs;
  std::map<RequestId, std::vector<float>> logprobs;
  int32_t pauses = 0;
  int64_t reused = 0;
};

// `together`: how many requests are added before the first step; the others follow one a step.
Outcome run_all(const FakeOptions& options, const ExecutorConfig& config, size_t together,
                bool noise = false) {
  FakeRunner runner(options);
  auto created = StepLoop::create(
      runner, config, [] { return 0.0; }, 1);
  EXPECT_TRUE(created.ok());
  StepLoop& loop = **created;
  Outcome result;
  std::mt19937 random(test::round_seed(9));
  auto pending = requests();
  RequestId next = 0;
  RequestId noise_id = 1000;
  while (next < pending.size() || loop.has_work()) {
    for (size_t i = 0; i < together && next < pending.size(); ++i, ++next) {
      EXPECT_TRUE(loop.prepare(pending[next]).ok());
      loop.add(next, pending[next], 0.0);
    }
    if (noise) {
      Request other;
      other.input_token_ids = {1, 2, static_cast<int32_t>(random() % 50)};
      other.sampling.max_tokens = 8;
      EXPECT_TRUE(loop.prepare(other).ok());
      loop.add(++noise_id, other, 0.0);
      loop.cancel(noise_id - random() % 4, FinishReason::kCancelled);
    }
    loop.step();
    for (const IterationStats& stats : loop.take_stats()) {
      result.pauses += stats.paused_requests;
    }
    noise = noise && next < pending.size();
  }
  for (const Response& response : loop.take_responses()) {
    EXPECT_FALSE(response.error.has_value());
    if (response.request_id >= 1000) {
      continue;
    }
    Tokens& tokens = result.outputs[{response.request_id, response.sequence_index}];
    tokens.insert(tokens.end(), response.token_ids.begin(), response.token_ids.end());
    for (const TokenLogprobs& entry : response.prompt_logprobs) {
      result.logprobs[response.request_id].push_back(entry.chosen.logprob);
    }
  }
  result.reused = loop.kv_cache_stats().reused_blocks;
  EXPECT_EQ(loop.kv_cache_stats().used_blocks, 0);
  return result;
}

class Invariance : public testing::Test {
 protected:
  static FakeOptions options(int32_t batch, int32_t blocks = 128) {
    FakeOptions options;
    options.limits.max_batch_size = batch;
    options.limits.num_kv_blocks = blocks;
    return options;
  }
  static void expect_same(const Outcome& other) {
    const Outcome alone = run_all(options(1), {.enable_block_reuse = false}, 1);
    EXPECT_EQ(alone.outputs.size(), 40u);
    EXPECT_EQ(other.outputs, alone.outputs);
    EXPECT_EQ(other.logprobs, alone.logprobs);
  }
};

TEST_F(Invariance, AloneEqualsAnyBatch) {
  for (const int32_t batch : {2, 3, 8, 32}) {
    expect_same(run_all(options(batch), {}, 32));
    expect_same(run_all(options(batch), {}, 1));
  }
}

TEST_F(Invariance, AnyChunkSize) {
  for (const int32_t chunk : {1, 3, 4, 5, 7, 64}) {
    expect_same(run_all(options(8), {.max_chunk_tokens = chunk}, 2));
  }
  for (const int32_t tokens : {1, 5, 9, 33}) {
    expect_same(run_all(options(8), {.max_num_tokens = tokens}, 2));
  }
}

TEST_F(Invariance, PrefixReuseOnOrOff) {
  const Outcome reused = run_all(options(8), {}, 2);
  EXPECT_GT(reused.reused, test::is_plain_run() ? 20 : 0);
  expect_same(reused);
  expect_same(run_all(options(8), {.enable_block_reuse = false}, 2));
}

TEST_F(Invariance, PausedOrNot) {
  for (const bool reuse : {false, true}) {
    const Outcome paused =
        run_all(options(8, 17),
                {.policy = SchedulerPolicy::kMaxUtilization, .enable_block_reuse = reuse}, 32);
    EXPECT_GT(paused.pauses, test::is_plain_run() ? 5 : 0);
    expect_same(paused);
  }
}

TEST_F(Invariance, NeighboursThatComeAndGo) { expect_same(run_all(options(8), {}, 1, true)); }

}  // namespace
}  // namespace zonda::runtime
