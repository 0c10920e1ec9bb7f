// Names of the instruction-set levels, and facts about this machine.
// SPDX-License-Identifier: Apache-2.0
#include "device/cpu_features.h"

#include <sched.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "device/cpu_arch.h"

namespace zonda::device {
namespace {

constexpr std::array<std::string_view, 5> kIsaNames = {"portable", "avx2", "avx512-vnni",
                                                       "avx512-bf16", "amx"};

}  // namespace

std::string_view cpu_isa_name(CpuIsa isa) { return kIsaNames[static_cast<size_t>(isa)]; }

Result<CpuIsa> parse_cpu_isa(std::string_view name) {
  const auto found = std::find(kIsaNames.begin(), kIsaNames.end(), name);
  if (found == kIsaNames.end()) {
    return invalid_argument(
        "[parse_cpu_isa] '{}' is not one of portable, avx2, avx512-vnni, avx512-bf16, amx.", name);
  }
  return static_cast<CpuIsa>(found - kIsaNames.begin());
}

CpuIsa detect_cpu_isa() {
  static const CpuIsa kIsa = probe_cpu_isa();
  return kIsa;
}

std::string cpu_model_name() {
  std::string name = probe_cpu_model_name();
  return name.empty() ? "unknown" : name;
}

int available_cpus() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0) {
    return 1;
  }
  return std::max(1, CPU_COUNT(&cpus));
}

}  // namespace zonda::device
