// Laws of Scheduler that a single text scenario cannot state.
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/scheduler.h"

#include <gtest/gtest.h>

#include "scheduler/simulation.h"

namespace zonda::scheduler {
namespace {

Request request(RequestId id, int32_t prompt, int32_t max_new) {
  Request request;
  request.id = id;
  for (int32_t i = 0; i < prompt; ++i) {
    request.prompt.push_back(static_cast<int32_t>(id) * 1000 + i);
  }
  request.max_new_tokens = max_new;
  return request;
}

SchedulerConfig config(Policy policy) {
  return {.policy = policy, .max_batch_size = 8, .max_num_tokens = 64, .max_seq_len = 128};
}

TEST(Scheduler, ErrorCodesTellCapacityFromMistakes) {
  kvcache::KvCacheManager kv_cache({.num_blocks = 4, .tokens_per_block = 4});
  Scheduler scheduler(config(Policy::kGuaranteedNoEvict), kv_cache);
  EXPECT_EQ(scheduler.check(request(1, 0, 1)).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(scheduler.check(request(1, 120, 9)).error().code, ErrorCode::kCapacity);
  EXPECT_EQ(scheduler.check(request(1, 10, 8)).error().code, ErrorCode::kCapacity);
  EXPECT_TRUE(scheduler.check(request(1, 10, 7)).ok());
  ASSERT_TRUE(scheduler.add(request(1, 10, 7)).ok());
  EXPECT_EQ(scheduler.add(request(1, 2, 1)).error().code, ErrorCode::kInvalidArgument);
}

TEST(Scheduler, SumsOfLengthsDoNotOverflow) {
  kvcache::KvCacheManager kv_cache({.num_blocks = 4, .tokens_per_block = 4});
  Scheduler scheduler(config(Policy::kGuaranteedNoEvict), kv_cache);
  EXPECT_EQ(scheduler.check(request(1, 10, INT32_MAX)).error().code, ErrorCode::kCapacity);
  Request many = request(1, 10, 4);
  many.num_sequences = INT32_MAX;
  EXPECT_EQ(scheduler.check(many).error().code, ErrorCode::kCapacity);
}

TEST(Scheduler, CancelOfUnknownIdsDoesNothing) {
  kvcache::KvCacheManager kv_cache({.num_blocks = 4, .tokens_per_block = 4});
  Scheduler scheduler(config(Policy::kGuaranteedNoEvict), kv_cache);
  scheduler.cancel(5);
  scheduler.cancel_sequence({5, 0});
  ASSERT_TRUE(scheduler.add(request(1, 2, 2)).ok());
  scheduler.cancel_sequence({1, -1});
  scheduler.cancel_sequence({1, 1});
  EXPECT_TRUE(scheduler.contains(1));
  scheduler.cancel_sequence({1, 0});
  EXPECT_FALSE(scheduler.contains(1));
}

TEST(Scheduler, AResultMayCarrySeveralTokens) {
  kvcache::KvCacheManager kv_cache({.num_blocks = 8, .tokens_per_block = 4});
  Scheduler scheduler(config(Policy::kGuaranteedNoEvict), kv_cache);
  ASSERT_TRUE(scheduler.add(request(1, 3, 6)).ok());
  StepPlan plan = scheduler.next_step();
  scheduler.commit({plan.step, {{{1, 0}, 3, false}}, {7, 8, 9}});
  plan = scheduler.next_step();
  ASSERT_EQ(plan.rows.size(), 1u);
  EXPECT_EQ(plan.tokens, (std::vector<int32_t>{7, 8, 9}));
  EXPECT_EQ(plan.rows[0].start_position, 3);
  EXPECT_EQ(plan.rows[0].num_logits, 1);
  scheduler.commit({plan.step, {{{1, 0}, 1, true}}, {7}});
  EXPECT_EQ(kv_cache.num_free(), 8);
}

TEST(SchedulerDeathTest, ACommitOutOfOrderIsAFault) {
  kvcache::KvCacheManager kv_cache({.num_blocks = 8, .tokens_per_block = 4});
  auto scheduler = std::make_unique<Scheduler>(config(Policy::kGuaranteedNoEvict), kv_cache);
  EXPECT_DEATH(scheduler->commit({}), "in_flight_");
  ASSERT_TRUE(scheduler->add(request(1, 2, 2)).ok());
  const StepPlan plan = scheduler->next_step();
  EXPECT_DEATH(scheduler->commit({plan.step + 1, {}, {}}), "result.step");
  EXPECT_DEATH(scheduler->commit({plan.step, {}, {}}), "next_sequence");
  EXPECT_DEATH(scheduler->commit({plan.step, {{{2, 0}, 1, false}}, {5}}), "key");
}

// The tightest pool that admits each request alone: pausing must still let all finish.
TEST(Scheduler, MaxUtilizationMakesProgressInTheSmallestPool) {
  Simulation simulation(config(Policy::kMaxUtilization), {.num_blocks = 6, .tokens_per_block = 4});
  for (RequestId id = 1; id <= 12; ++id) {
    Request next = request(id, 5, 20);
    next.num_sequences = id % 3 == 0 ? 3 : 1;
    ASSERT_TRUE(simulation.submit(next).ok());
  }
  int steps = 0;
  while (!simulation.live().empty()) {
    ASSERT_LT(++steps, 3000);
    ASSERT_FALSE(simulation.plan().empty());
    simulation.commit();
  }
  EXPECT_GT(simulation.pauses(), 0);
  simulation.expect_clean();
}

// Two runs of the same calls give the same plans: ranks decide alike.
TEST(Scheduler, SameCallsGiveSamePlans) {
  const auto run = [] {
    Simulation simulation(config(Policy::kMaxUtilization),
                          {.num_blocks = 20, .tokens_per_block = 4});
    std::vector<int32_t> trace;
    for (RequestId id = 1; id <= 60; ++id) {
      Request next = request(id % 7, 5 + static_cast<int32_t>(id) % 11, 12);
      next.id = id;
      EXPECT_TRUE(simulation.submit(next).ok());
      const StepPlan plan = simulation.plan();
      trace.insert(trace.end(), plan.tokens.begin(), plan.tokens.end());
      trace.insert(trace.end(), plan.block_ids.begin(), plan.block_ids.end());
      simulation.commit();
      if (id % 9 == 0) {
        simulation.cancel(id - 2);
      }
    }
    while (!simulation.live().empty()) {
      simulation.plan();
      simulation.commit();
    }
    return trace;
  };
  EXPECT_EQ(run(), run());
}

}  // namespace
}  // namespace zonda::scheduler
