// What each processor family implements in its own folder (x86/, generic/).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "device/cpu_features.h"

namespace zonda::device {

// Asks the processor and the operating system; may ask the system for the AMX tile state.
CpuIsa probe_cpu_isa();
// The processor's own name, empty if it has none to report.
std::string probe_cpu_model_name();
// Tells the core that this thread is spinning; some tens of nanoseconds at most.
void cpu_relax();

}  // namespace zonda::device
