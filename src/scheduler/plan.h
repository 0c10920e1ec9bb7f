// What one step computes, and what came of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvcache/kv_cache_manager.h"
#include "scheduler/request.h"

namespace zonda::scheduler {

using StepId = uint64_t;  // 1, 2, ... in the order of the plans

struct SequenceKey {
  RequestId request = 0;
  int32_t sequence = 0;
  friend auto operator<=>(const SequenceKey&, const SequenceKey&) = default;
};

// Consecutive tokens of one sequence.
struct PlanRow {
  SequenceKey key;
  int32_t token_begin = 0;  // in StepPlan::tokens
  int32_t num_tokens = 0;
  int32_t start_position = 0;  // of the first of them; positions before it are in the cache
  int32_t block_begin = 0;     // in StepPlan::block_ids
  int32_t num_blocks = 0;      // for positions [0, start_position + num_tokens)
  int32_t num_logits = 0;      // the logits of this many last tokens are wanted
  // Sequences that draw their next token from the last token's logits: key.sequence and, when the
  // prompt of a request with several sequences is complete, all others too.
  int32_t num_samples = 0;
  int32_t num_reused = 0;  // first row after an admission: tokens that the cache already had
};

struct StepPlan {
  StepId step = 0;
  std::vector<PlanRow> rows;  // prompts (also those computed again) first, then generation
  int32_t num_context_rows = 0;
  int32_t num_context_tokens = 0;
  std::vector<int32_t> tokens;
  std::vector<kvcache::BlockId> block_ids;
  std::vector<kvcache::BlockCopy> copies;  // done in order, before any row runs
  std::vector<SequenceKey> paused;         // lost their blocks; will be computed again

  bool empty() const { return rows.empty(); }
  std::span<const int32_t> tokens_of(const PlanRow& row) const {
    return std::span(tokens).subspan(static_cast<size_t>(row.token_begin),
                                     static_cast<size_t>(row.num_tokens));
  }
  std::span<const kvcache::BlockId> blocks_of(const PlanRow& row) const {
    return std::span(block_ids).subspan(static_cast<size_t>(row.block_begin),
                                        static_cast<size_t>(row.num_blocks));
  }
};

struct SequenceResult {
  SequenceKey key;
  int32_t num_tokens = 0;  // the next ones of StepResult::tokens; 0 only if finished
  bool finished = false;
};

// For each row in order, num_samples results with ascending sequence index. Results of requests
// and sequences that were cancelled meanwhile may be left out.
struct StepResult {
  StepId step = 0;
  std::vector<SequenceResult> sequences;
  std::vector<int32_t> tokens;
};

}  // namespace zonda::scheduler
