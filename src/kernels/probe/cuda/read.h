// Reading device memory as fast as it goes: the limit that decode kernels are compared with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cuda/launch.h"

namespace zonda::kernels::cuda {

// Reads `bytes` (a multiple of 16) of device memory once. `sink`: one word of device memory.
cudaError_t read_memory(const std::byte* source, int64_t bytes, uint32_t* sink,
                        const device::cuda::LaunchSite& site);

}  // namespace zonda::kernels::cuda
