// Scheduler::next_step: generation first, then prompts, then arrivals, within three budgets.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "scheduler/record.h"
#include "scheduler/scheduler.h"

namespace zonda::scheduler {

StepPlan Scheduler::next_step() {
  Draft draft;
  draft.budget = {config_.max_batch_size, config_.max_num_tokens};
  plan_generation(draft);
  plan_context(draft);
  resume_paused(draft);
  admit_waiting(draft);
  return pack(draft);
}

void Scheduler::plan_generation(Draft& draft) {
  for (const auto& record : active_) {
    for (int32_t i = 0; i < record->num_sequences(); ++i) {
      const Sequence& sequence = record->at(i);
      if (!sequence.is<Decoding>() || sequence.in_flight) {
        continue;
      }
      const int32_t count = sequence.num_tokens() - sequence.kv().num_computed();
      if (draft.budget.rows == 0 || draft.budget.tokens < count) {
        return;
      }
      if (make_room(*record, i, draft)) {
        draft.generation.push_back({record.get(), i, count, 0});
        --draft.budget.rows;
        draft.budget.tokens -= count;
      }
    }
  }
}

// Pauses younger sequences until the newest tokens of this one can be written. None of them is in
// this plan yet: plans go from old to young.
bool Scheduler::make_room(Record& record, int32_t index, Draft& draft) {
  Sequence& sequence = record.at(index);
  while (!kv_cache_.prepare_write(sequence.kv(), sequence.num_tokens(), draft.copies)) {
    CHECK(config_.policy == Policy::kMaxUtilization);
    Record* victim_record = nullptr;
    int32_t victim_index = 0;
    Sequence* victim = youngest(victim_record, victim_index);
    if (victim == &sequence && !in_flight_.empty()) {
      return false;  // blocks come back with the results that are still out
    }
    draft.paused.push_back({victim_record->request.id, victim_index});
    victim->pause();
    if (victim == &sequence) {
      return false;
    }
  }
  return true;
}

Sequence* Scheduler::youngest(Record*& record, int32_t& index) {
  for (auto at = active_.rbegin(); at != active_.rend(); ++at) {
    for (int32_t i = (*at)->num_sequences() - 1; i >= 0; --i) {
      Sequence& sequence = (*at)->at(i);
      if (sequence.holds_blocks() && !sequence.in_flight) {
        record = at->get();
        index = i;
        return &sequence;
      }
    }
  }
  CHECK(false);
  return nullptr;
}

int32_t Scheduler::chunk_tokens(int32_t remaining, int32_t budget) const {
  const int32_t most = config_.max_chunk_tokens > 0 ? config_.max_chunk_tokens : remaining;
  const int32_t limit = std::min(budget, most);
  if (remaining <= limit) {
    return remaining;
  }
  // Whole blocks, unless the configuration is smaller than one.
  int32_t unit = std::min(kv_cache_.tokens_per_block(), config_.max_num_tokens);
  if (config_.max_chunk_tokens > 0) {
    unit = std::min(unit, config_.max_chunk_tokens);
  }
  return limit / unit * unit;
}

void Scheduler::plan_context(Draft& draft) {
  for (const auto& record : active_) {
    for (int32_t i = 0; i < record->num_sequences(); ++i) {
      const Sequence& sequence = record->at(i);
      if (!sequence.is<Prefilling>() || sequence.in_flight) {
        continue;
      }
      const int32_t remaining = sequence.num_tokens() - sequence.kv().num_computed();
      const int32_t count = chunk_tokens(remaining, draft.budget.tokens);
      if (draft.budget.rows == 0 || count == 0) {
        draft.blocked = true;
        return;
      }
      draft.context.push_back({record.get(), i, count, 0});
      --draft.budget.rows;
      draft.budget.tokens -= count;
    }
  }
}

void Scheduler::resume_paused(Draft& draft) {
  for (const auto& record : active_) {
    for (int32_t i = 0; i < record->num_sequences(); ++i) {
      if (!record->at(i).is<Paused>()) {
        continue;
      }
      if (draft.blocked || !try_admit(*record, i, draft)) {
        draft.blocked = true;
        return;
      }
    }
  }
}

void Scheduler::admit_waiting(Draft& draft) {
  while (!draft.blocked && !waiting_.empty()) {
    if (!try_admit(*waiting_.front(), 0, draft)) {
      return;
    }
    active_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

bool Scheduler::try_admit(Record& record, int32_t index, Draft& draft) {
  if (draft.budget.rows == 0 || draft.budget.tokens == 0) {
    return false;
  }
  Sequence& sequence = record.at(index);
  const int32_t running = running_sequences();
  const int32_t added = record.forked ? 1 : record.request.num_sequences;
  if (running > 0 && running + added > config_.max_batch_size) {
    return false;
  }
  // At least one token is computed, for its logits; with all logits wanted, all that are missing.
  int32_t limit = sequence.num_tokens() - 1;
  if (record.request.all_prompt_logits) {
    limit = std::min(limit, record.logits_delivered);
  }
  if (!record.request.reuse_prefix) {
    limit = 0;
  }
  const Hash128& salt = record.request.cache_salt;
  const kvcache::PrefixMatch known = kv_cache_.match(sequence.tokens(), salt, limit);
  const int32_t reused = known.num_blocks * kv_cache_.tokens_per_block();
  const int32_t count = chunk_tokens(sequence.num_tokens() - reused, draft.budget.tokens);
  if (count == 0 || !blocks_allow(record, sequence, known)) {
    return false;
  }
  auto kv = kv_cache_.admit(sequence.tokens(), salt, limit, sequence.num_tokens());
  CHECK(kv.has_value());
  sequence.admit(std::move(*kv));
  draft.context.push_back({&record, index, count, reused});
  --draft.budget.rows;
  draft.budget.tokens -= count;
  return true;
}

bool Scheduler::blocks_allow(const Record& record, const Sequence& sequence,
                             const kvcache::PrefixMatch& known) const {
  if (config_.policy == Policy::kMaxUtilization) {
    // A block for each sequence that runs, so that a newcomer does not pause at once.
    const int32_t missing = kv_cache_.blocks_for(sequence.num_tokens()) - known.num_blocks;
    return known.num_free_blocks + missing + running_sequences() <= kv_cache_.num_free();
  }
  int64_t reserved = 0;
  for (const auto& other : active_) {
    reserved += demand(*other);
  }
  const int64_t worst = max_blocks(record) + demand(record) - known.num_blocks;
  return known.num_free_blocks + worst + reserved <= kv_cache_.num_free();
}

StepPlan Scheduler::pack(Draft& draft) {
  StepPlan plan;
  plan.paused = std::move(draft.paused);
  if (draft.context.empty() && draft.generation.empty()) {
    CHECK(draft.copies.empty());
    return plan;
  }
  plan.step = ++last_step_;
  plan.copies = std::move(draft.copies);
  plan.num_context_rows = static_cast<int32_t>(draft.context.size());
  InFlightStep step{.step = plan.step, .rows = {}};
  for (const Planned& planned : draft.context) {
    plan.num_context_tokens += planned.num_tokens;
    pack_row(planned, plan, step);
  }
  for (const Planned& planned : draft.generation) {
    pack_row(planned, plan, step);
  }
  in_flight_.push_back(std::move(step));
  return plan;
}

void Scheduler::pack_row(const Planned& planned, StepPlan& plan, InFlightStep& step) {
  Record& record = *planned.record;
  Sequence& sequence = record.at(planned.sequence);
  const int32_t start = sequence.kv().num_computed();
  const int32_t end = start + planned.num_tokens;
  const bool last = end == sequence.num_tokens();
  const bool samples = last && record.request.max_new_tokens > 0;
  PlanRow row{
      .key = {record.request.id, planned.sequence},
      .token_begin = static_cast<int32_t>(plan.tokens.size()),
      .num_tokens = planned.num_tokens,
      .start_position = start,
      .block_begin = static_cast<int32_t>(plan.block_ids.size()),
      .num_blocks = kv_cache_.blocks_for(end),
      .num_logits = samples ? 1 : 0,
      .num_samples = samples ? 1 : 0,
      .num_reused = planned.num_reused,
  };
  if (samples && !record.forked) {
    row.num_samples = record.request.num_sequences;
  }
  if (record.request.all_prompt_logits && record.logits_delivered < record.prompt_len) {
    row.num_logits = std::max(row.num_logits, end - std::max(start, record.logits_delivered));
  }
  const auto tokens = sequence.tokens().subspan(static_cast<size_t>(start),
                                                static_cast<size_t>(planned.num_tokens));
  plan.tokens.insert(plan.tokens.end(), tokens.begin(), tokens.end());
  const auto blocks = sequence.kv().block_ids().first(static_cast<size_t>(row.num_blocks));
  plan.block_ids.insert(plan.block_ids.end(), blocks.begin(), blocks.end());
  plan.rows.push_back(row);
  step.rows.push_back({&record, planned.sequence, end, row.num_samples});
  sequence.in_flight = true;
  ++record.rows_in_flight;
}

}  // namespace zonda::scheduler
