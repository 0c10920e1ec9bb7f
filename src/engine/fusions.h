// Kernel calls that a device may compute inside their neighbours.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "engine/plan.h"

namespace zonda::engine {

// Ending of a tactic's name in a plan: the norm ahead of the linear is computed inside it.
inline constexpr std::string_view kFusedNorm = "+norm";

// By call: for a linear, the norm directly ahead of it whose result nobody else reads and whose
// input the linear does not overwrite; -1 for all other calls.
std::vector<int32_t> fusable_norms(const EnginePlan& plan);

}  // namespace zonda::engine
