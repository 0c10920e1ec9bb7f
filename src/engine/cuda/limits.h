// The measured limits of a CUDA device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/cuda/properties.h"
#include "device/cuda/stream.h"
#include "kernels/probe/probe.h"

namespace zonda::engine::cuda {

// Read bandwidth over 2 GiB (or a quarter of the free memory), and the rate of the best bfloat16
// product of 8192 x 8192 x 8192, which also stands for float32 and integer weights: all of them are
// multiplied as bfloat16 here.
Result<kernels::MachineLimits> measure_limits(const device::cuda::DeviceProperties& properties,
                                              const device::cuda::Stream& stream);

}  // namespace zonda::engine::cuda
