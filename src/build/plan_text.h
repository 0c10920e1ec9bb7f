// plan.txt: the plan for people, kernel by kernel, with floors and measured times.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "engine/cost.h"
#include "engine/engine.h"

namespace zonda::build {

// What a finished engine file is measured with: one sequence, a decode step at a context and a
// prefill step.
struct PlanMeasurement {
  std::vector<double> decode_seconds;   // by call
  std::vector<double> prefill_seconds;  // by call
  engine::StepShape decode;
  engine::StepShape prefill;
  kernels::MachineLimits limits;
};

// Runs both steps on the engine file in `folder`, after a warm-up.
Result<PlanMeasurement> measure_plan(const std::string& folder, const engine::KvLayout& kv,
                                     int32_t threads);

// `measurement` may be null: then only tactics, bytes and operations are listed.
std::string plan_text(const engine::EnginePlan& plan, const PlanMeasurement* measurement,
                      const engine::CostRules& rules);

}  // namespace zonda::build
