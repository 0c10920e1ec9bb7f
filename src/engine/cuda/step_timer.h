// The time of each call of a step on a CUDA device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "device/cuda/graph.h"
#include "device/cuda/stream.h"
#include "engine/cuda/step_inputs.h"

namespace zonda::engine::cuda {

// Short kernels overlap, so a call's time is what it adds to the calls ahead of it: the times add
// up to the step. In a long step overlaps are nothing beside the kernels, and one pass will do.
class StepTimer {
 public:
  // Puts calls [begin, end) on the stream; running a call again is harmless.
  using Issue = std::function<Result<void>(size_t begin, size_t end)>;

  // Seconds by call. Recorded calls are kept for the next step of this shape.
  Result<std::vector<double>> time(const StepShapeKey& shape, size_t num_calls, const Issue& issue,
                                   const device::cuda::Stream& stream);
  // Before buffers move.
  void forget() { graphs_.clear(); }

 private:
  Result<void> record(size_t num_calls, const Issue& issue, const device::cuda::Stream& stream);
  Result<std::vector<double>> time_recorded(const device::cuda::Stream& stream) const;

  StepShapeKey shape_;
  bool is_long_ = false;
  // Of calls [0, 1), [0, 2), ...; of a long step all calls alone.
  std::vector<device::cuda::Graph> graphs_;
};

}  // namespace zonda::engine::cuda
