// Scheduler::commit: what was computed becomes known, sampled tokens are appended, sequences end.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "scheduler/record.h"
#include "scheduler/scheduler.h"

namespace zonda::scheduler {

struct Scheduler::ResultReader {
  const StepResult& result;
  size_t next_sequence = 0;
  size_t next_token = 0;

  void skip_if(SequenceKey key) {
    if (next_sequence < result.sequences.size() && result.sequences[next_sequence].key == key) {
      std::span<const int32_t> ignored;
      read(ignored);
    }
  }
  const SequenceResult& read(std::span<const int32_t>& tokens) {
    CHECK(next_sequence < result.sequences.size());
    const SequenceResult& sequence = result.sequences[next_sequence++];
    CHECK(sequence.num_tokens >= 0);
    CHECK(next_token + static_cast<size_t>(sequence.num_tokens) <= result.tokens.size());
    tokens = std::span(result.tokens).subspan(next_token, static_cast<size_t>(sequence.num_tokens));
    next_token += static_cast<size_t>(sequence.num_tokens);
    return sequence;
  }
};

void Scheduler::commit(const StepResult& result) {
  CHECK(!in_flight_.empty());
  CHECK(result.step == in_flight_.front().step);
  const InFlightStep step = std::move(in_flight_.front());
  in_flight_.pop_front();
  ResultReader results{.result = result};
  for (const InFlightRow& row : step.rows) {
    commit_row(row, results);
  }
  CHECK(results.next_sequence == result.sequences.size());
  erase_done(active_);
}

void Scheduler::commit_row(const InFlightRow& row, ResultReader& results) {
  Record& record = *row.record;
  Sequence& sequence = record.at(row.sequence);
  sequence.in_flight = false;
  --record.rows_in_flight;
  const int32_t first = row.num_samples > 1 ? 0 : row.sequence;
  const bool dropped = record.forked && record.dropped[static_cast<size_t>(row.sequence)];
  if (record.cancelled || dropped) {
    for (int32_t i = 0; i < row.num_samples; ++i) {
      results.skip_if({record.request.id, first + i});
    }
    sequence.finish();
    return;
  }
  kv_cache_.commit(sequence.kv(), sequence.tokens(), row.end);
  record.logits_delivered = std::max(record.logits_delivered, std::min(row.end, record.prompt_len));
  if (row.end < sequence.num_tokens()) {
    return;
  }
  if (sequence.is<Prefilling>()) {
    sequence.decode();
  }
  if (row.num_samples == 0) {
    sequence.finish();
    return;
  }
  // Siblings fork before any of them moves on.
  if (!record.forked) {
    record.forked = true;
    for (int32_t i = 1; i < record.request.num_sequences; ++i) {
      record.sequences.push_back(record.at(0).fork(kv_cache_));
    }
  }
  for (int32_t i = 0; i < row.num_samples; ++i) {
    apply_result(record, first + i, results);
  }
}

void Scheduler::apply_result(Record& record, int32_t index, ResultReader& results) {
  const SequenceKey key{record.request.id, index};
  Sequence& sequence = record.at(index);
  if (record.dropped[static_cast<size_t>(index)]) {
    results.skip_if(key);
    sequence.finish();
    return;
  }
  std::span<const int32_t> tokens;
  const SequenceResult& result = results.read(tokens);
  CHECK(result.key == key);
  CHECK(result.finished || result.num_tokens > 0);
  const int32_t limit = record.prompt_len + record.request.max_new_tokens;
  CHECK(sequence.num_tokens() + result.num_tokens <= limit);
  sequence.append(tokens);
  if (result.finished || sequence.num_tokens() == limit) {
    sequence.finish();
  }
}

}  // namespace zonda::scheduler
