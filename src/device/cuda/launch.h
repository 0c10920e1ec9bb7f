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
  int cluster = 0;  // blocks of a cluster along x; 0: no clusters. Architecture 90 and newer.
};

template <typename... Params, typename... Args>
cudaError_t launch(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes,
                   const LaunchSite& site, Args&&... args) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = site.stream;
  cudaLaunchAttribute attributes[2] = {};
  config.attrs = attributes;
  if (site.dependent) {
    cudaLaunchAttribute& dependent = attributes[config.numAttrs++];
    dependent.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    dependent.val.programmaticStreamSerializationAllowed = 1;
  }
  if (site.cluster > 0) {
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {static_cast<unsigned>(site.cluster), 1, 1};
  }
  return cudaLaunchKernelEx(&config, kernel, static_cast<Params>(std::forward<Args>(args))...);
}

}  // namespace zonda::device::cuda
