// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/dependent.cuh"
#include "kernels/probe/cuda/read.h"

namespace zonda::kernels::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kUnroll = 8;  // 16-byte loads in flight a thread

__global__ void __launch_bounds__(kThreads)
    read_kernel(const uint4* source, int64_t count, uint32_t* sink) {
  device::cuda::wait_for_previous();
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  uint32_t mixed = 0;
  int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (; i + (kUnroll - 1) * stride < count; i += kUnroll * stride) {
    uint4 value[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      value[u] = __ldcs(source + i + u * stride);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      mixed ^= value[u].x ^ value[u].y ^ value[u].z ^ value[u].w;
    }
  }
  for (; i < count; i += stride) {
    const uint4 value = __ldcs(source + i);
    mixed ^= value.x ^ value.y ^ value.z ^ value.w;
  }
  if (mixed == 0x9e3779b9u) {  // keeps the loads; almost never true, harmless when it is
    *sink = mixed;
  }
}

}  // namespace

cudaError_t read_memory(const std::byte* source, int64_t bytes, uint32_t* sink,
                        const device::cuda::LaunchSite& site) {
  int device = 0;
  int multiprocessors = 0;
  if (cudaError_t status = cudaGetDevice(&device); status != cudaSuccess) {
    return status;
  }
  if (cudaError_t status =
          cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
      status != cudaSuccess) {
    return status;
  }
  return device::cuda::launch(read_kernel, dim3(static_cast<unsigned>(multiprocessors * 4)),
                              dim3(kThreads), 0, site, reinterpret_cast<const uint4*>(source),
                              bytes / 16, sink);
}

}  // namespace zonda::kernels::cuda
