// Gives values whose lifetimes do not overlap the same slot of the activation arena.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "engine/plan.h"
#include "graph/graph.h"

namespace zonda::build {

struct MemoryPlan {
  std::vector<engine::PlanSlot> slots;
  std::vector<int32_t> slot_of_value;  // -1 for values that no node computes
};

// Values that a node changes in place (rotary, kv_append, rope_append) share their input's slot; a
// residual's sum takes the residual's slot when nobody reads the residual later.
MemoryPlan plan_memory(const graph::Graph& graph);

}  // namespace zonda::build
