// Which CUDA devices there are, what they can do, and which one this thread uses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "zonda/error.h"

namespace zonda::device::cuda {

struct DeviceProperties {
  std::string name;            // "NVIDIA H200"
  int compute_capability = 0;  // major * 10 + minor
  int num_sms = 0;             // streaming multiprocessors
  int64_t l2_bytes = 0;
  int64_t memory_bytes = 0;      // all of it, used or not
  int64_t max_shared_bytes = 0;  // of one block, when it asks for more than the usual 48 KiB
  int driver_version = 0;        // of CUDA, as the driver supports it: 13000 is 13.0
  int runtime_version = 0;       // of CUDA, as this program was built with
  friend bool operator==(const DeviceProperties&, const DeviceProperties&) = default;
};

// kUnsupported without a driver, or with one that is too old. At least 1.
Result<int> count_devices();
// kInvalidArgument if there is no device `index`; kUnsupported as count_devices().
Result<DeviceProperties> query_device(int index);
// Makes `index` the calling thread's device. Errors as query_device().
Result<void> use_device(int index);

}  // namespace zonda::device::cuda
