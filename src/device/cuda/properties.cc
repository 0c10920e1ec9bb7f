// Questions to the CUDA runtime about devices.
// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/properties.h"

#include <cuda_runtime.h>

#include "base/error.h"
#include "device/cuda/cuda_status.h"

namespace zonda::device::cuda {
namespace {

Result<void> check_index(int index) {
  const Result<int> count = count_devices();
  if (!count) {
    return count.error();
  }
  if (index < 0 || index >= *count) {
    return invalid_argument("[cuda] there is no device {}; devices are 0 to {}.", index,
                            *count - 1);
  }
  return {};
}

}  // namespace

Result<int> count_devices() {
  int count = 0;
  if (auto counted = check(cudaGetDeviceCount(&count), "[cuda] counting the devices"); !counted) {
    return counted.error();
  }
  if (count == 0) {
    return check(cudaErrorNoDevice, "[cuda] counting the devices").error();
  }
  return count;
}

Result<DeviceProperties> query_device(int index) {
  if (auto valid = check_index(index); !valid) {
    return valid.error();
  }
  cudaDeviceProp asked = {};
  const cudaError_t status = cudaGetDeviceProperties(&asked, index);
  if (auto answered = check(status, "[cuda] asking for a device's properties"); !answered) {
    return answered.error();
  }
  DeviceProperties properties{
      .name = asked.name,
      .compute_capability = asked.major * 10 + asked.minor,
      .num_sms = asked.multiProcessorCount,
      .l2_bytes = asked.l2CacheSize,
      .memory_bytes = static_cast<int64_t>(asked.totalGlobalMem),
      .max_shared_bytes = static_cast<int64_t>(asked.sharedMemPerBlockOptin),
  };
  (void)cudaDriverGetVersion(&properties.driver_version);
  (void)cudaRuntimeGetVersion(&properties.runtime_version);
  return properties;
}

Result<void> use_device(int index) {
  if (auto valid = check_index(index); !valid) {
    return valid.error();
  }
  return check(cudaSetDevice(index), "[cuda] choosing a device");
}

}  // namespace zonda::device::cuda
