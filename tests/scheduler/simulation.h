// A scheduler with a pretended engine: every cache slot remembers the history it was computed from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "scheduler/scheduler.h"

namespace zonda::scheduler {

// Value of a slot: a digest of the salt and all tokens up to its position.
using History = uint64_t;

inline History extend(History history, int32_t token) {
  return (history ^ static_cast<uint64_t>(token + 1)) * 0x9e3779b97f4a7c15u + (history >> 29);
}

// What a request must produce, whatever the schedule.
struct ModelSequence {
  std::vector<int32_t> tokens;
  std::vector<History> history;  // [tokens]; of tokens [0, i]

  void append(int32_t token, History salt) {
    history.push_back(extend(history.empty() ? salt : history.back(), token));
    tokens.push_back(token);
  }
};
struct ModelRequest {
  Request request;
  int32_t logits_seen = 0;  // prompt positions whose logits were planned
  std::map<int32_t, ModelSequence> sequences;

  History salt() const { return extend(request.cache_salt.low, 7); }
};

class Simulation {
 public:
  Simulation(const SchedulerConfig& config, const kvcache::KvCacheConfig& cache)
      : config_(config),
        kv_cache_(cache),
        scheduler_(config, kv_cache_),
        slots_(static_cast<size_t>(cache.num_blocks * cache.tokens_per_block), 0) {}

  Scheduler& scheduler() { return scheduler_; }
  kvcache::KvCacheManager& kv_cache() { return kv_cache_; }
  const std::map<RequestId, ModelRequest>& live() const { return live_; }
  size_t outstanding() const { return outstanding_.size(); }
  int64_t pauses() const { return pauses_; }
  int64_t finished() const { return finished_; }

  Result<void> submit(const Request& request) {
    auto added = scheduler_.add(request);
    if (added) {
      ModelRequest model{request, 0, {}};
      for (int32_t i = 0; i < request.num_sequences; ++i) {
        for (const int32_t token : request.prompt) {
          model.sequences[i].append(token, model.salt());
        }
      }
      live_.emplace(request.id, std::move(model));
    }
    return added;
  }

  void cancel(RequestId id) {
    scheduler_.cancel(id);
    live_.erase(id);
  }
  void cancel_sequence(SequenceKey key) {
    scheduler_.cancel_sequence(key);
    if (const auto found = live_.find(key.request); found != live_.end()) {
      found->second.sequences.erase(key.sequence);
      if (found->second.sequences.empty()) {
        live_.erase(found);
      }
    }
  }

  // Plans, checks every law a plan must obey, and runs it on the pretended cache.
  StepPlan plan() {
    StepPlan plan = scheduler_.next_step();
    pauses_ += static_cast<int64_t>(plan.paused.size());
    check_budgets(plan);
    for (const kvcache::BlockCopy& copy : plan.copies) {
      const auto size = static_cast<size_t>(kv_cache_.tokens_per_block());
      std::copy_n(slots_.begin() + static_cast<ptrdiff_t>(copy.from * size), size,
                  slots_.begin() + static_cast<ptrdiff_t>(copy.to * size));
    }
    std::set<kvcache::BlockId> written;
    for (const PlanRow& row : plan.rows) {
      run_row(plan, row, written);
    }
    for (const PlanRow& row : plan.rows) {
      check_untouched(plan, row, written);
    }
    if (!plan.empty()) {
      outstanding_.push_back(plan);
    }
    return plan;
  }

  // Commits the oldest plan. The next token is a function of the history alone.
  void commit(const std::set<SequenceKey>& finish = {}) {
    ASSERT_FALSE(outstanding_.empty());
    const StepPlan plan = std::move(outstanding_.front());
    outstanding_.pop_front();
    StepResult result{.step = plan.step, .sequences = {}, .tokens = {}};
    for (const PlanRow& row : plan.rows) {
      in_plan_.erase(row.key);
      const int32_t first = row.num_samples > 1 ? 0 : row.key.sequence;
      for (int32_t i = 0; i < row.num_samples; ++i) {
        sample({row.key.request, first + i}, finish, result);
      }
      if (row.num_samples == 0) {
        finish_prompt_only(row);
      }
    }
    scheduler_.commit(result);
  }

  static int32_t next_token(History history, int32_t sequence) {
    return static_cast<int32_t>((history + static_cast<uint64_t>(sequence) * 77) % 251);
  }

  // Nothing is left: requests, sequences, blocks.
  void expect_clean() const {
    const SchedulerStats stats = scheduler_.stats();
    EXPECT_EQ(stats.active_requests + stats.waiting_requests, 0);
    EXPECT_EQ(stats.running_sequences + stats.paused_sequences, 0);
    EXPECT_EQ(kv_cache_.num_free(), kv_cache_.num_blocks());
    EXPECT_TRUE(live_.empty());
  }

 private:
  void check_budgets(const StepPlan& plan) const {
    EXPECT_LE(plan.rows.size(), static_cast<size_t>(config_.max_batch_size));
    EXPECT_LE(plan.tokens.size(), static_cast<size_t>(config_.max_num_tokens));
    if (config_.policy == Policy::kGuaranteedNoEvict) {
      EXPECT_TRUE(plan.paused.empty());
    }
    int32_t tokens = 0;
    int32_t context = 0;
    for (size_t i = 0; i < plan.rows.size(); ++i) {
      EXPECT_EQ(plan.rows[i].token_begin, tokens);
      EXPECT_GE(plan.rows[i].num_tokens, 1);
      tokens += plan.rows[i].num_tokens;
      context += static_cast<int32_t>(i) < plan.num_context_rows ? plan.rows[i].num_tokens : 0;
    }
    EXPECT_EQ(static_cast<size_t>(tokens), plan.tokens.size());
    EXPECT_EQ(context, plan.num_context_tokens);
  }

  History expected(const ModelRequest* model, const PlanRow& row, int32_t position) const {
    return model->sequences.at(row.key.sequence).history[static_cast<size_t>(position)];
  }

  size_t slot(const StepPlan& plan, const PlanRow& row, int32_t position) const {
    const int32_t size = kv_cache_.tokens_per_block();
    const kvcache::BlockId block = plan.blocks_of(row)[static_cast<size_t>(position / size)];
    return static_cast<size_t>(block * size + position % size);
  }

  const ModelSequence* model_of(const PlanRow& row) const {
    const auto found = live_.find(row.key.request);
    if (found == live_.end()) {
      return nullptr;
    }
    const auto sequence = found->second.sequences.find(row.key.sequence);
    if (sequence != found->second.sequences.end()) {
      return &sequence->second;
    }
    // The prompt of a request whose first sequence was dropped: its siblings' past.
    return &found->second.sequences.begin()->second;
  }

  void run_row(const StepPlan& plan, const PlanRow& row, std::set<kvcache::BlockId>& written) {
    EXPECT_TRUE(in_plan_.insert(row.key).second) << "a sequence is in two plans";
    const ModelSequence* model = model_of(row);
    ASSERT_NE(model, nullptr) << "a cancelled request is planned";
    const int32_t end = row.start_position + row.num_tokens;
    ASSERT_LE(static_cast<size_t>(end), model->tokens.size());
    EXPECT_EQ(row.num_blocks, kv_cache_.blocks_for(end));
    for (int32_t p = 0; p < row.start_position; ++p) {
      ASSERT_EQ(slots_[slot(plan, row, p)], model->history[static_cast<size_t>(p)])
          << "request " << row.key.request << " position " << p;
    }
    for (int32_t p = row.start_position; p < end; ++p) {
      ASSERT_EQ(plan.tokens_of(row)[static_cast<size_t>(p - row.start_position)],
                model->tokens[static_cast<size_t>(p)]);
      const size_t at = slot(plan, row, p);
      slots_[at] = model->history[static_cast<size_t>(p)];
      const auto block =
          static_cast<kvcache::BlockId>(at / static_cast<size_t>(kv_cache_.tokens_per_block()));
      EXPECT_EQ(kv_cache_.pool().share_count(block), 1) << "a shared block is written";
      written.insert(block);
    }
    check_outputs(row, static_cast<int32_t>(model->tokens.size()));
    check_chunk(row, static_cast<int32_t>(model->tokens.size()));
  }

  void check_untouched(const StepPlan& plan, const PlanRow& row,
                       const std::set<kvcache::BlockId>& written) const {
    const int32_t whole = row.start_position / kv_cache_.tokens_per_block();
    for (int32_t i = 0; i < whole; ++i) {
      EXPECT_FALSE(written.contains(plan.blocks_of(row)[static_cast<size_t>(i)]));
    }
  }

  void check_outputs(const PlanRow& row, int32_t size) {
    ModelRequest& model = live_.at(row.key.request);
    const auto prompt = static_cast<int32_t>(model.request.prompt.size());
    const int32_t end = row.start_position + row.num_tokens;
    const bool samples = end == size && model.request.max_new_tokens > 0;
    EXPECT_EQ(row.num_samples > 0, samples);
    int32_t logits = samples ? 1 : 0;
    if (model.request.all_prompt_logits && model.logits_seen < prompt) {
      EXPECT_LE(row.start_position, model.logits_seen) << "prompt logits are skipped";
      logits = std::max(logits, end - std::max(row.start_position, model.logits_seen));
      model.logits_seen = std::max(model.logits_seen, std::min(end, prompt));
    }
    EXPECT_EQ(row.num_logits, logits);
  }

  void check_chunk(const PlanRow& row, int32_t size) const {
    if (row.start_position + row.num_tokens == size) {
      return;
    }
    int32_t unit = std::min(kv_cache_.tokens_per_block(), config_.max_num_tokens);
    if (config_.max_chunk_tokens > 0) {
      EXPECT_LE(row.num_tokens, config_.max_chunk_tokens);
      unit = std::min(unit, config_.max_chunk_tokens);
    }
    EXPECT_EQ(row.num_tokens % unit, 0);
  }

  void sample(SequenceKey key, const std::set<SequenceKey>& finish, StepResult& result) {
    const auto found = live_.find(key.request);
    const bool request_is_live = found != live_.end();
    if (!request_is_live && key.request % 2 == 0) {
      return;  // results of cancelled requests may be left out
    }
    ModelSequence* model = nullptr;
    if (request_is_live) {
      const auto sequence = found->second.sequences.find(key.sequence);
      model = sequence == found->second.sequences.end() ? nullptr : &sequence->second;
    }
    const int32_t token = model != nullptr ? next_token(model->history.back(), key.sequence) : 1;
    const bool finished = finish.contains(key);
    result.sequences.push_back({key, 1, finished});
    result.tokens.push_back(token);
    if (model == nullptr) {
      return;
    }
    model->append(token, found->second.salt());
    const size_t limit = found->second.request.prompt.size() +
                         static_cast<size_t>(found->second.request.max_new_tokens);
    if (finished || model->tokens.size() == limit) {
      end_sequence(key);
    }
  }

  void finish_prompt_only(const PlanRow& row) {
    const auto found = live_.find(row.key.request);
    if (found != live_.end() && found->second.request.max_new_tokens == 0 &&
        static_cast<size_t>(row.start_position + row.num_tokens) ==
            found->second.request.prompt.size()) {
      ++finished_;
      live_.erase(found);
    }
  }

  void end_sequence(SequenceKey key) {
    ModelRequest& model = live_.at(key.request);
    model.sequences.erase(key.sequence);
    ++finished_;
    if (model.sequences.empty()) {
      live_.erase(key.request);
    }
  }

  SchedulerConfig config_;
  kvcache::KvCacheManager kv_cache_;
  Scheduler scheduler_;
  std::vector<History> slots_;  // [num_blocks, tokens_per_block]
  std::map<RequestId, ModelRequest> live_;
  std::deque<StepPlan> outstanding_;
  std::set<SequenceKey> in_plan_;
  int64_t pauses_ = 0;
  int64_t finished_ = 0;
};

}  // namespace zonda::scheduler
