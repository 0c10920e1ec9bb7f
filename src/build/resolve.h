// The numbers of a build that follow from options and model: limits, cache layout, rotary
// frequencies. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/backend.h"
#include "models/config.h"
#include "zonda/build.h"

namespace zonda::build {

// Options with every default filled in. kInvalidArgument names option, value and limit.
Result<engine::BuildLimits> resolve_limits(const BuildOptions& options,
                                           const models::ModelConfig& config);
Result<engine::KvLayout> resolve_kv_layout(const BuildOptions& options,
                                           const models::ModelConfig& config,
                                           const engine::Backend& backend);
// "auto": the CUDA backend where this build has it and a GPU is there, else the CPU.
Result<const engine::Backend*> resolve_backend(const std::string& device);
engine::RotaryPlan resolve_rotary(const models::ModelConfig& config);

}  // namespace zonda::build
