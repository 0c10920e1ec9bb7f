// Batch::fill: rows of a plan become packed sequences; tokens and block ids are used in place.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/batch.h"

namespace zonda::runtime {

void Batch::fill(const scheduler::StepPlan& plan, std::span<const int32_t> prompt_lengths) {
  tokens_ = plan.tokens;
  sequences_.clear();
  logits_rows_.clear();
  logits_begin_.clear();
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const scheduler::PlanRow& row = plan.rows[i];
    sequences_.push_back({
        .num_tokens = row.num_tokens,
        .start_position = row.start_position,
        .block_table = plan.blocks_of(row).data(),
        .prompt_length = prompt_lengths[i],
    });
    logits_begin_.push_back(static_cast<int32_t>(logits_rows_.size()));
    const int32_t end = row.token_begin + row.num_tokens;
    for (int32_t token = end - row.num_logits; token < end; ++token) {
      logits_rows_.push_back(token);
    }
  }
}

}  // namespace zonda::runtime
