// Processors without kernels of their own: the portable level.
// SPDX-License-Identifier: Apache-2.0
#include "device/cpu_arch.h"

#include <atomic>

namespace zonda::device {

CpuIsa probe_cpu_isa() { return CpuIsa::kPortable; }

std::string probe_cpu_model_name() { return {}; }

void cpu_relax() { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace zonda::device
