// Random arrivals, cancels and finishes for 100,000 steps; the simulation checks every plan.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "scheduler/simulation.h"
#include "test_support/round_seed.h"

namespace zonda::scheduler {
namespace {

class RandomRun {
 public:
  RandomRun(Policy policy, uint32_t seed) : random_(seed), policy_(policy), simulation_(draw()) {}

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      if (chance(35)) {
        simulation_->submit(request()).ok() ? ++accepted_ : ++refused_;
      }
      if (chance(4) && !simulation_->live().empty()) {
        simulation_->cancel(pick());
      }
      if (chance(4) && !simulation_->live().empty()) {
        simulation_->cancel_sequence({pick(), number(0, 3)});
      }
      simulation_->plan();
      while (simulation_->outstanding() > (chance(50) ? 0u : max_outstanding_ - 1)) {
        commit();
      }
    }
    drain();
  }

  int accepted() const { return accepted_; }
  int refused() const { return refused_; }
  int64_t pauses() const { return simulation_->pauses(); }
  int64_t reused() const { return simulation_->kv_cache().stats().reused_blocks; }
  int64_t copied() const { return simulation_->kv_cache().stats().copied_blocks; }

 private:
  std::unique_ptr<Simulation> draw() {
    kvcache::KvCacheConfig cache;
    cache.tokens_per_block = number(1, 8);
    cache.num_blocks = number(4, 40);
    cache.enable_reuse = chance(80);
    SchedulerConfig config;
    config.policy = policy_;
    config.max_batch_size = number(1, 12);
    config.max_num_tokens = number(1, 48);
    config.max_chunk_tokens = chance(50) ? 0 : number(1, 12);
    config.max_seq_len = 60;
    max_outstanding_ = chance(60) ? 1 : static_cast<size_t>(number(2, 3));
    return std::make_unique<Simulation>(config, cache);
  }

  Request request() {
    Request request;
    request.id = ++last_id_;
    const int32_t length = number(1, 40);
    const int32_t family = number(0, 3);
    const int32_t own = number(0, length);
    for (int32_t i = 0; i < length; ++i) {
      request.prompt.push_back(i < own ? family * 50 + i % 50 : number(0, 250));
    }
    request.max_new_tokens = chance(5) ? 0 : number(1, 20);
    request.num_sequences = chance(70) ? 1 : number(2, 4);
    request.all_prompt_logits = chance(15);
    request.reuse_prefix = chance(90);
    request.cache_salt = {0, chance(85) ? 0u : 1u};
    return request;
  }

  void commit() {
    std::set<SequenceKey> finish;
    for (const auto& [id, model] : simulation_->live()) {
      for (const auto& [index, sequence] : model.sequences) {
        if (chance(5)) {
          finish.insert({id, index});
        }
      }
    }
    simulation_->commit(finish);
  }

  // With no arrivals every request ends: each plan computes at least one token.
  void drain() {
    for (int i = 0; i < 200000 && !testing::Test::HasFailure(); ++i) {
      const StepPlan plan = simulation_->plan();
      if (plan.empty() && simulation_->outstanding() == 0) {
        break;
      }
      if (simulation_->outstanding() > 0) {
        commit();
      }
    }
    while (simulation_->outstanding() > 0) {
      commit();
    }
    simulation_->expect_clean();
  }

  RequestId pick() {
    auto at = simulation_->live().begin();
    std::advance(at, number(0, static_cast<int32_t>(simulation_->live().size()) - 1));
    return at->first;
  }
  int32_t number(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(random_() % static_cast<uint32_t>(high - low + 1));
  }
  bool chance(int32_t percent) { return number(0, 99) < percent; }

  std::mt19937 random_;
  Policy policy_;
  size_t max_outstanding_ = 1;
  std::unique_ptr<Simulation> simulation_;
  RequestId last_id_ = 0;
  int accepted_ = 0;
  int refused_ = 0;
};

struct Totals {
  int64_t accepted = 0;
  int64_t refused = 0;
  int64_t pauses = 0;
  int64_t reused = 0;
  int64_t copied = 0;
};

Totals run_all(Policy policy, uint32_t own_seed) {
  Totals totals;
  const uint32_t first_seed = test::round_seed(own_seed);
  for (uint32_t seed = 0; seed < 100 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(first_seed + seed));
    RandomRun run(policy, first_seed + seed);
    run.run(1000);
    totals.accepted += run.accepted();
    totals.refused += run.refused();
    totals.pauses += run.pauses();
    totals.reused += run.reused();
    totals.copied += run.copied();
  }
  return totals;
}

// The totals show that the cases under test did occur.
TEST(RandomSchedule, GuaranteedNoEvictKeepsEveryLaw) {
  const Totals totals = run_all(Policy::kGuaranteedNoEvict, 1);
  EXPECT_GT(totals.accepted, 5000);
  EXPECT_GT(totals.refused, 100);
  EXPECT_EQ(totals.pauses, 0);
  EXPECT_GT(totals.reused, 500);
  EXPECT_GT(totals.copied, 50);
}

TEST(RandomSchedule, MaxUtilizationKeepsEveryLaw) {
  const Totals totals = run_all(Policy::kMaxUtilization, 1001);
  EXPECT_GT(totals.accepted, 5000);
  EXPECT_GT(totals.pauses, 500);
  EXPECT_GT(totals.reused, 500);
  EXPECT_GT(totals.copied, 50);
}

}  // namespace
}  // namespace zonda::scheduler
