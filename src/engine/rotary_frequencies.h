// The rotary frequency sets of a running engine: one for plans of fixed frequencies, one a prompt
// length otherwise. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/plan.h"

namespace zonda::engine {

class RotaryFrequencies {
 public:
  explicit RotaryFrequencies(const RotaryPlan& plan);

  // Forgets the sets of the previous step, but for the fixed one.
  void begin_step();
  // Row of sets() for a request of this prompt length; may grow sets(), which invalidates its
  // pointer.
  int32_t set_for(int64_t prompt_length);
  // [sets, rotary_dim / 2]
  const float* sets() const { return sets_.data(); }
  int64_t num_sets() const {
    return plan_.rotary_dim == 0 ? 0 : static_cast<int64_t>(sets_.size()) / (plan_.rotary_dim / 2);
  }

 private:
  // Dynamic NTK: the base grows with the length beyond the threshold (modeling_rope_utils.py of
  // transformers).
  std::vector<float> ntk_frequencies(int64_t length) const;

  const RotaryPlan& plan_;
  std::vector<float> sets_;
  std::map<int64_t, int32_t> rows_;  // by prompt length
};

}  // namespace zonda::engine
