// The whole choice of a token, as a device that has the logits makes it for a sequence.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/sampling/sample.h"

namespace zonda::kernels {

enum class ChoiceMode : uint8_t {
  kNone,    // no choice: the row's logits are wanted instead
  kGreedy,  // greedy_token() of the changed logits
  kDraw,    // draw_token() of them
};

// What the spans of `changes` point to outlives the choice.
struct TokenChoice {
  ChoiceMode mode = ChoiceMode::kNone;
  LogitChanges changes;
  DrawParams draw;            // of kDraw
  int32_t top_logprobs = -1;  // row_logprobs() of the unchanged logits, top_n of them; -1: none

  bool changes_logits() const {
    return !changes.bias.empty() || !changes.counts.empty() || !changes.banned.empty();
  }
};

struct ChosenToken {
  Result<int32_t> token = 0;  // errors as greedy_token()
  RowLogprobs logprobs;       // if asked
};

struct ChoiceScratch {
  SampleScratch rows;
  std::vector<float> logits;  // a changed copy of a row
};

// `choice` is not kNone.
ChosenToken choose_token(const TokenChoice& choice, std::span<const float> logits,
                         ChoiceScratch& scratch, device::CpuIsa isa = device::detect_cpu_isa());

}  // namespace zonda::kernels
