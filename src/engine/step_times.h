// How long a step of an engine takes, call by call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "engine/engine.h"

namespace zonda::engine {

// Seconds.
struct StepTimes {
  std::vector<double> calls;  // by call of the plan: the median of the timed runs
  double fastest = 0.0;       // of the whole steps, run without timers
  double median = 0.0;
};

// `repeats` (at least 1) plain and timed runs in turn, after one of each that warms up.
Result<StepTimes> time_step(Engine& engine, const BatchInputs& inputs, int64_t repeats);

}  // namespace zonda::engine
