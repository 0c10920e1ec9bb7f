// The two halves of programmatic dependent launch, for kernels of architectures 90 and newer;
// nothing on older ones, where launches are never dependent. SPDX-License-Identifier: Apache-2.0
#pragma once

namespace zonda::device::cuda {

// Blocks until every kernel ahead in the stream has ended and its writes are visible.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel of the stream start as soon as every block has called this or ended.
__device__ __forceinline__ void allow_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace zonda::device::cuda
