// Where CPU kernels are issued, in order: a call is done when it returns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/cpu_features.h"
#include "device/thread_pool.h"

namespace zonda::device {

class Stream {
 public:
  // `pool` must outlive it. `isa` limits the kernels that are chosen (tests force lower ones).
  explicit Stream(ThreadPool& pool, CpuIsa isa = detect_cpu_isa()) : pool_(&pool), isa_(isa) {}

  ThreadPool& pool() const { return *pool_; }
  CpuIsa isa() const { return isa_; }

 private:
  ThreadPool* pool_;
  CpuIsa isa_;
};

}  // namespace zonda::device
