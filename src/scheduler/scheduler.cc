// Scheduler: arrivals, cancels and the arithmetic of what fits.
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "scheduler/record.h"

namespace zonda::scheduler {

Scheduler::Scheduler(const SchedulerConfig& config, kvcache::KvCacheManager& kv_cache)
    : config_(config), kv_cache_(kv_cache) {
  CHECK(config.max_batch_size >= 1);
  CHECK(config.max_num_tokens >= 1);
  CHECK(config.max_seq_len >= 1);
  CHECK(config.max_chunk_tokens >= 0);
}

Scheduler::~Scheduler() = default;

Result<void> Scheduler::check(const Request& request) const {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt == 0) {
    return invalid_argument("[scheduler] request {} has no prompt token; at least 1 is needed.",
                            request.id);
  }
  if (request.num_sequences < 1 || request.max_new_tokens < 0) {
    return invalid_argument(
        "[scheduler] request {} asks for {} sequences of {} new tokens; at least 1 and 0.",
        request.id, request.num_sequences, request.max_new_tokens);
  }
  if (config_.max_input_len > 0 && prompt > config_.max_input_len) {
    return over_capacity("[scheduler] the prompt has {} tokens; max_input_len is {}.", prompt,
                         config_.max_input_len);
  }
  if (prompt + request.max_new_tokens > config_.max_seq_len) {
    return over_capacity(
        "[scheduler] prompt ({}) and output ({}) are {} tokens together; max_seq_len is {}.",
        prompt, request.max_new_tokens, prompt + request.max_new_tokens, config_.max_seq_len);
  }
  const int64_t blocks = worst_case_blocks(request);
  if (blocks > kv_cache_.num_blocks()) {
    return over_capacity(
        "[scheduler] prompt ({}) and output ({}) of {} sequences need {} KV blocks of {} tokens; "
        "the KV cache has {}.",
        prompt, request.max_new_tokens, request.num_sequences, blocks, kv_cache_.tokens_per_block(),
        kv_cache_.num_blocks());
  }
  return {};
}

// Pausing lets the sequences of a request run one after the other.
int64_t Scheduler::worst_case_blocks(const Request& request) const {
  const auto prompt = static_cast<int32_t>(request.prompt.size());
  const int64_t one = kv_cache_.blocks_for(prompt + std::max(request.max_new_tokens, 1) - 1);
  if (config_.policy == Policy::kMaxUtilization) {
    return one;
  }
  return one + (request.num_sequences - 1) * (one - prompt / kv_cache_.tokens_per_block());
}

Result<void> Scheduler::add(Request request) {
  if (auto checked = check(request); !checked) {
    return checked;
  }
  const RequestId id = request.id;
  if (by_id_.contains(id)) {
    return invalid_argument("[scheduler] request id {} is in use.", id);
  }
  waiting_.push_back(std::make_unique<Record>(std::move(request)));
  by_id_.emplace(id, waiting_.back().get());
  return {};
}

void Scheduler::cancel(RequestId id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) {
    return;
  }
  Record& record = *found->second;
  record.cancelled = true;
  for (Sequence& sequence : record.sequences) {
    if (!sequence.in_flight && !sequence.is<Finished>()) {
      sequence.finish();
    }
  }
  erase_done(active_);
  erase_done(waiting_);
}

void Scheduler::cancel_sequence(SequenceKey key) {
  const auto found = by_id_.find(key.request);
  if (found == by_id_.end() || key.sequence < 0 ||
      key.sequence >= found->second->request.num_sequences) {
    return;
  }
  Record& record = *found->second;
  record.dropped[static_cast<size_t>(key.sequence)] = true;
  if (std::ranges::all_of(record.dropped, [](bool dropped) { return dropped; })) {
    cancel(key.request);
    return;
  }
  if (record.forked) {
    Sequence& sequence = record.at(key.sequence);
    if (!sequence.in_flight && !sequence.is<Finished>()) {
      sequence.finish();
    }
    erase_done(active_);
  }
}

template <typename Records>
void Scheduler::erase_done(Records& records) {
  std::erase_if(records, [this](const std::unique_ptr<Record>& record) {
    const bool done = record->rows_in_flight == 0 &&
                      std::ranges::all_of(record->sequences, [](const Sequence& sequence) {
                        return sequence.is<Finished>();
                      });
    if (done) {
      by_id_.erase(record->request.id);
    }
    return done;
  });
}
template void Scheduler::erase_done(std::vector<std::unique_ptr<Record>>& records);
template void Scheduler::erase_done(std::deque<std::unique_ptr<Record>>& records);

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats;
  stats.waiting_requests = static_cast<int32_t>(waiting_.size());
  stats.active_requests = static_cast<int32_t>(active_.size());
  for (const auto& record : active_) {
    for (const Sequence& sequence : record->sequences) {
      stats.running_sequences += sequence.holds_blocks() ? 1 : 0;
      stats.paused_sequences += sequence.is<Paused>() ? 1 : 0;
    }
  }
  return stats;
}

int32_t Scheduler::max_blocks(const Record& record) const {
  return kv_cache_.blocks_for(record.max_positions());
}

// Blocks that the request may still take before it is over.
int64_t Scheduler::demand(const Record& record) const {
  const int64_t limit = max_blocks(record);
  int64_t total = 0;
  int64_t sharers = 0;
  for (const Sequence& sequence : record.sequences) {
    if (sequence.holds_blocks()) {
      total += std::max<int64_t>(limit - sequence.kv().num_blocks(), 0);
      sharers += record.forked && kv_cache_.shares_tail(sequence.kv()) ? 1 : 0;
    }
  }
  if (!record.forked && !record.cancelled) {
    total += (record.request.num_sequences - 1) *
             (limit - record.prompt_len / kv_cache_.tokens_per_block());
  }
  // All but the last sharer of the prompt's partly filled block copy it.
  return total + std::max<int64_t>(sharers - 1, 0);
}

// A request whose prompt is being computed counts with all its sequences.
int32_t Scheduler::running_sequences() const {
  int32_t total = 0;
  for (const auto& record : active_) {
    for (const Sequence& sequence : record->sequences) {
      if (sequence.holds_blocks()) {
        total += record->forked ? 1 : record->request.num_sequences;
      }
    }
  }
  return total;
}

}  // namespace zonda::scheduler
