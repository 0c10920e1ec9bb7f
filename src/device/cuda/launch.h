// Launching kernels in order on a stream, as ordinary or as dependent launches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

namespace zonda::device::cuda {

// Where a kernel goes. `dependent`: programmatic dependent launch: the kernel may start before the
// one ahead of it has ended, and must call wait_for_previous() before it touches anything that any
// earlier kernel of the stream writes (weights are never written).
struct LaunchSite {
  cudaStream_t stream = nullptr;
  bool dependent = false;
};

template <typename... Params, typename... Args>
cudaError_t launch(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes,
                   const LaunchSite& site, Args&&... args) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = site.stream;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = site.dependent ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Params>(std::forward<Args>(args))...);
}

}  // namespace zonda::device::cuda
