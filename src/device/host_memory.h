// How much host memory this process may still take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace zonda::device {

// Bytes: the system's MemAvailable, lowered by the limits of this process's control groups, its
// address space (ulimit -v) and the system's commit limit where that is strict; 0 if the system
// tells nothing.
int64_t available_host_memory();

}  // namespace zonda::device
