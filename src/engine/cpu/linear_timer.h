// Times the tactics of a linear on this processor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/buffer.h"
#include "device/stream.h"
#include "engine/tactics.h"

namespace zonda::engine::cpu {

class LinearTimer {
 public:
  explicit LinearTimer(device::Stream& stream) : stream_(stream) {}

  // As TacticSource::fastest.
  Result<TacticTime> fastest(const LinearSample& sample, int64_t tokens, int64_t& count);

 private:
  Result<void> reserve(const LinearSample& sample, int64_t tokens);
  double time_tactic(const kernels::LinearTactic& tactic, const LinearSample& sample,
                     int64_t tokens);

  device::Stream& stream_;
  device::Buffer x_;
  device::Buffer y_;
  device::Buffer workspace_;
};

}  // namespace zonda::engine::cpu
