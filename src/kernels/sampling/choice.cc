// SPDX-License-Identifier: Apache-2.0
#include "kernels/sampling/choice.h"

#include <utility>

#include "base/error.h"

namespace zonda::kernels {

ChosenToken choose_token(const TokenChoice& choice, std::span<const float> logits,
                         ChoiceScratch& scratch, device::CpuIsa isa) {
  CHECK(choice.mode != ChoiceMode::kNone);
  std::span<const float> row = logits;
  if (choice.changes_logits()) {
    scratch.logits.assign(logits.begin(), logits.end());
    apply_logit_changes(choice.changes, scratch.logits);
    row = scratch.logits;
  }
  ChosenToken chosen;
  chosen.token = choice.mode == ChoiceMode::kGreedy
                     ? greedy_token(row, scratch.rows, isa)
                     : draw_token(choice.draw, row, scratch.rows, isa);
  if (chosen.token && choice.top_logprobs >= 0) {
    auto logprobs = row_logprobs(logits, *chosen.token, choice.top_logprobs, scratch.rows, isa);
    if (logprobs) {
      chosen.logprobs = std::move(*logprobs);
    } else {
      chosen.token = logprobs.error();
    }
  }
  return chosen;
}

}  // namespace zonda::kernels
