// The inputs of one step in the form that the engine reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "scheduler/plan.h"

namespace zonda::runtime {

// Reused from step to step; its memory grows to the largest one.
class Batch {
 public:
  // Views of `plan` are kept: it must outlive the use of inputs().
  // `prompt_lengths`: of each row's request.
  void fill(const scheduler::StepPlan& plan, std::span<const int32_t> prompt_lengths);

  engine::BatchInputs inputs() const {
    return {.tokens = tokens_, .sequences = sequences_, .logits_rows = logits_rows_};
  }
  // Row `row` of the plan has its wanted logits at [logits_begin, logits_begin + num_logits).
  int32_t logits_begin(size_t row) const { return logits_begin_[row]; }

 private:
  std::span<const int32_t> tokens_;
  std::vector<engine::SequenceInput> sequences_;  // [rows]
  std::vector<int32_t> logits_rows_;
  std::vector<int32_t> logits_begin_;  // [rows]
};

}  // namespace zonda::runtime
