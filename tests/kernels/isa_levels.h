// The instruction sets that kernel tests run: every level this machine has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "device/cpu_features.h"

namespace zonda::kernels {

inline std::vector<device::CpuIsa> isa_levels() {
  std::vector<device::CpuIsa> levels;
  for (int level = 0; level <= static_cast<int>(device::detect_cpu_isa()); ++level) {
    levels.push_back(static_cast<device::CpuIsa>(level));
  }
  return levels;
}

}  // namespace zonda::kernels
