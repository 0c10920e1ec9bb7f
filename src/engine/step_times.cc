// SPDX-License-Identifier: Apache-2.0
#include "engine/step_times.h"

#include <algorithm>
#include <chrono>

namespace zonda::engine {
namespace {

double median_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Result<StepTimes> time_step(Engine& engine, const BatchInputs& inputs, int64_t repeats) {
  std::vector<double> steps;
  std::vector<std::vector<double>> calls(engine.plan().calls.size());
  for (int64_t run = 0; run <= repeats; ++run) {
    const auto start = std::chrono::steady_clock::now();
    const auto plain = engine.run(inputs);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    size_t index = 0;
    const auto timed = engine.run_timed(inputs, [&](const PlanCall&, double seconds) {
      if (run > 0 && index < calls.size()) {
        calls[index].push_back(seconds);
      }
      ++index;
    });
    if (!plain || !timed) {
      return plain ? timed.error() : plain.error();
    }
    if (run > 0) {
      steps.push_back(elapsed.count());
    }
  }
  StepTimes times;
  times.fastest = *std::ranges::min_element(steps);
  times.median = median_of(steps);
  for (std::vector<double>& call : calls) {
    times.calls.push_back(call.empty() ? 0.0 : median_of(call));
  }
  return times;
}

}  // namespace zonda::engine
