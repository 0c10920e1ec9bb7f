// SPDX-License-Identifier: Apache-2.0
#include "engine/rotary_frequencies.h"

#include <cmath>

namespace zonda::engine {

RotaryFrequencies::RotaryFrequencies(const RotaryPlan& plan) : plan_(plan), sets_(plan.inv_freq) {}

void RotaryFrequencies::begin_step() {
  sets_.resize(plan_.inv_freq.size());
  rows_.clear();
}

int32_t RotaryFrequencies::set_for(int64_t prompt_length) {
  if (!plan_.depends_on_length() || prompt_length <= plan_.threshold) {
    return 0;
  }
  const int32_t next = static_cast<int32_t>(rows_.size()) + 1;
  const auto [row, added] =
      rows_.try_emplace(plan_.long_inv_freq.empty() ? prompt_length : 0, next);
  if (added) {
    const std::vector<float> set =
        plan_.long_inv_freq.empty() ? ntk_frequencies(prompt_length) : plan_.long_inv_freq;
    sets_.insert(sets_.end(), set.begin(), set.end());
  }
  return row->second;
}

std::vector<float> RotaryFrequencies::ntk_frequencies(int64_t length) const {
  const double dim = plan_.rotary_dim;
  const double factor = plan_.ntk_factor;
  const double ratio =
      factor * static_cast<double>(length) / static_cast<double>(plan_.threshold) - (factor - 1.0);
  const float base = static_cast<float>(plan_.ntk_base * std::pow(ratio, dim / (dim - 2.0)));
  std::vector<float> set(plan_.inv_freq.size());
  for (size_t i = 0; i < set.size(); ++i) {
    set[i] =
        1.0f / std::pow(base, static_cast<float>(2 * i) / static_cast<float>(plan_.rotary_dim));
  }
  return set;
}

}  // namespace zonda::engine
