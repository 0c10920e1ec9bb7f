// The numbers of a build that follow from options and model: limits, cache layout, rotary
// frequencies. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/plan.h"
#include "models/config.h"
#include "zonda/build.h"

namespace zonda::build {

// Options with every default filled in. kInvalidArgument names option, value and limit.
Result<engine::BuildLimits> resolve_limits(const BuildOptions& options,
                                           const models::ModelConfig& config);
Result<engine::KvLayout> resolve_kv_layout(const BuildOptions& options,
                                           const models::ModelConfig& config);
engine::RotaryPlan resolve_rotary(const models::ModelConfig& config);

}  // namespace zonda::build
