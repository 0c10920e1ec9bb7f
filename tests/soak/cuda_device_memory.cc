// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/device_memory.h"
#include "device_memory.h"

namespace zonda::test {

int64_t free_device_memory() {
  const auto free = device::cuda::available_device_memory();
  return free ? *free : 0;
}

}  // namespace zonda::test
