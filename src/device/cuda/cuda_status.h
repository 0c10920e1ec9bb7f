// From CUDA's status codes to Results.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <string_view>

#include "zonda/error.h"

namespace zonda::device::cuda {

// Success, or an error that begins with `what` ("[DeviceBuffer] the allocation"): kCapacity when
// memory ran out, kUnsupported when there is no device, no driver, a driver that is too old or a
// device that this build has no code for (the message names the driver's and the needed CUDA
// version), kInternal with CUDA's name and text for the rest. Clears the thread's last error, so
// that the next launch does not report it again.
Result<void> check(cudaError_t status, std::string_view what);

}  // namespace zonda::device::cuda
