// Which code and which sentence belong to a CUDA status.
// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cuda_status.h"

#include <string>

#include "base/error.h"

namespace zonda::device::cuda {
namespace {

static_assert(CUDART_VERSION >= 13000 && CUDART_VERSION < 14000);
constexpr int kOldestDriver = 580;  // the first branch that runs programs of CUDA 13

// 13000 is "13.0".
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string driver_text() {
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) {
    return "no NVIDIA driver is installed";
  }
  return "the installed driver is for CUDA " + version_text(version);
}

bool is_missing_driver(cudaError_t status) {
  switch (status) {
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorCallRequiresNewerDriver:
      return true;
    default:
      return false;
  }
}

bool is_missing_code(cudaError_t status) {
  return status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidKernelImage ||
         status == cudaErrorUnsupportedPtxVersion;
}

}  // namespace

Result<void> check(cudaError_t status, std::string_view what) {
  if (status == cudaSuccess) {
    return {};
  }
  (void)cudaGetLastError();
  const char* name = cudaGetErrorName(status);
  const char* text = cudaGetErrorString(status);
  if (status == cudaErrorMemoryAllocation) {
    return over_capacity("{} failed: out of memory.", what);
  }
  if (is_missing_driver(status)) {
    return unsupported("{} failed: {}; this program needs CUDA {} (driver {} or newer). {}: {}.",
                       what, driver_text(), version_text(CUDART_VERSION), kOldestDriver, name,
                       text);
  }
  if (status == cudaErrorNoDevice) {
    return unsupported("{} failed: there is no NVIDIA GPU ({}). {}: {}.", what, driver_text(), name,
                       text);
  }
  if (is_missing_code(status)) {
    return unsupported("{} failed: this program holds no code for the GPU ({}). {}: {}.", what,
                       driver_text(), name, text);
  }
  return internal_error("{} failed: {}: {}.", what, name, text);
}

}  // namespace zonda::device::cuda
