// What the scheduler remembers about a request. Private to the scheduler.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "scheduler/scheduler.h"

namespace zonda::scheduler {

struct Scheduler::Record {
  explicit Record(Request from) : request(std::move(from)) {
    prompt_len = static_cast<int32_t>(request.prompt.size());
    dropped.resize(static_cast<size_t>(request.num_sequences), false);
    sequences.reserve(static_cast<size_t>(request.num_sequences));
    sequences.emplace_back(std::move(request.prompt));
  }

  Sequence& at(int32_t index) { return sequences[static_cast<size_t>(index)]; }
  int32_t num_sequences() const { return static_cast<int32_t>(sequences.size()); }
  // Positions of the longest possible sequence that are ever written: its last token is not.
  int32_t max_positions() const { return prompt_len + std::max(request.max_new_tokens, 1) - 1; }

  Request request;  // without the prompt
  int32_t prompt_len = 0;
  std::vector<Sequence> sequences;  // one until the prompt is computed, then all
  bool forked = false;
  bool cancelled = false;
  std::vector<bool> dropped;     // [num_sequences] of the request: cancelled one by one
  int32_t logits_delivered = 0;  // all_prompt_logits: prompt positions that are done with
  int32_t rows_in_flight = 0;
};

struct Scheduler::Draft {
  Budget budget;
  std::vector<Planned> generation;
  std::vector<Planned> context;
  std::vector<kvcache::BlockCopy> copies;
  std::vector<SequenceKey> paused;
  bool blocked = false;  // the order of arrival lets nobody else in this step
};

}  // namespace zonda::scheduler
