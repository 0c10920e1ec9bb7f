// SPDX-License-Identifier: Apache-2.0
#include "engine/fusions.h"

#include "engine/call_slots.h"

namespace zonda::engine {
namespace {

bool reads(const PlanCall& call, int32_t slot) {
  return std::visit([&](const auto& c) { return reads_slot(c, slot); }, call.call);
}
bool writes(const PlanCall& call, int32_t slot) {
  return std::visit([&](const auto& c) { return writes_slot(c, slot); }, call.call);
}

// Whether any call from `first` on reads what the slot holds before them.
bool is_read_later(const std::vector<PlanCall>& calls, size_t first, int32_t slot) {
  for (size_t i = first; i < calls.size(); ++i) {
    if (reads(calls[i], slot)) {
      return true;
    }
    if (writes(calls[i], slot)) {
      return false;
    }
  }
  return false;
}

}  // namespace

std::vector<int32_t> fusable_norms(const EnginePlan& plan) {
  std::vector<int32_t> norms(plan.calls.size(), -1);
  for (size_t i = 1; i < plan.calls.size(); ++i) {
    const auto* norm = std::get_if<RmsNormCall>(&plan.calls[i - 1].call);
    const auto* linear = std::get_if<LinearCall>(&plan.calls[i].call);
    const bool fits = norm != nullptr && linear != nullptr && linear->x == norm->y &&
                      linear->y != norm->x && norm->x != norm->y && linear->residual != norm->y &&
                      !is_read_later(plan.calls, i + 1, norm->y);
    norms[i] = fits ? static_cast<int32_t>(i) - 1 : -1;
  }
  return norms;
}

}  // namespace zonda::engine
