// Times the tactics of a linear on a CUDA device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/cuda/device_memory.h"
#include "device/cuda/properties.h"
#include "device/cuda/stream.h"
#include "engine/tactics.h"
#include "kernels/gemm/cuda/linear.h"

namespace zonda::engine::cuda {

// Each pass replays a graph of calls over copies of random weights that the cache cannot hold.
class LinearTimer {
 public:
  // `properties` and `stream` outlive it.
  LinearTimer(const device::cuda::DeviceProperties& properties, const device::cuda::Stream& stream)
      : properties_(properties), stream_(stream) {}

  // As TacticSource::fastest.
  Result<TacticTime> fastest(const LinearSample& sample, int64_t tokens, int64_t& count);
  // Seconds of one call; of a sample after a norm, with the norm: inside the linear or ahead of it.
  Result<double> time_tactic(const kernels::cuda::LinearTactic& tactic, const LinearSample& sample,
                             int64_t tokens, bool fused_norm);

 private:
  Result<void> reserve(const LinearSample& sample, int64_t tokens);

  const device::cuda::DeviceProperties& properties_;
  const device::cuda::Stream& stream_;
  kernels::PackedType filled_;  // whose weights weights_ holds
  int64_t copies_ = 0;
  device::cuda::DeviceBuffer weights_;
  device::cuda::DeviceBuffer x_;
  device::cuda::DeviceBuffer y_;
  device::cuda::DeviceBuffer normed_;
  device::cuda::DeviceBuffer norm_weight_;
  device::cuda::DeviceBuffer workspace_;
};

}  // namespace zonda::engine::cuda
