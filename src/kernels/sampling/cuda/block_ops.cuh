// Sums, extremes and scans over a block of kThreads threads, all in one fixed order, and the hand-
// over of a row to the block that finishes it last.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/sampling/cuda/row_work.h"

namespace zonda::kernels::cuda {

inline constexpr int kWarps = kThreads / 32;

struct Plus {
  template <typename T>
  static __device__ __forceinline__ T of(T a, T b) {
    return a + b;
  }
};
struct Smaller {
  template <typename T>
  static __device__ __forceinline__ T of(T a, T b) {
    return b < a ? b : a;
  }
};
struct Larger {
  template <typename T>
  static __device__ __forceinline__ T of(T a, T b) {
    return a < b ? b : a;
  }
};

// Of all threads' values, for all threads; every thread must call it.
template <typename Op, typename T>
__device__ __forceinline__ T block_reduce(T value) {
  __shared__ T of_warp[kWarps];
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value = Op::of(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  if (threadIdx.x % 32 == 0) {
    of_warp[threadIdx.x / 32] = value;
  }
  __syncthreads();
  T result = of_warp[0];
#pragma unroll
  for (int warp = 1; warp < kWarps; ++warp) {
    result = Op::of(result, of_warp[warp]);
  }
  __syncthreads();
  return result;
}

// The sum of the values of lower threads; every thread must call it.
template <typename T>
__device__ __forceinline__ T block_sum_before(T value) {
  __shared__ T of_warp[kWarps];
  const int lane = static_cast<int>(threadIdx.x % 32);
  T through = value;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const T lower = __shfl_up_sync(0xffffffffu, through, distance);
    through += lane >= distance ? lower : T{0};
  }
  if (lane == 31) {
    of_warp[threadIdx.x / 32] = through;
  }
  __syncthreads();
  T before = through - value;
  for (unsigned warp = 0; warp < threadIdx.x / 32; ++warp) {
    before += of_warp[warp];
  }
  __syncthreads();
  return before;
}

// True in the last of `blocks` blocks that call it with this counter, whose threads then see all
// that the other blocks wrote (to be read past the first cache, with __ldcg). The counter is 0
// again.
__device__ __forceinline__ bool is_last_block(uint32_t* finished, int blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    const auto limit = static_cast<uint32_t>(blocks - 1);
    last = atomicInc(finished, limit) == limit;
  }
  __syncthreads();
  if (last) {
    __threadfence();
  }
  return last;
}

}  // namespace zonda::kernels::cuda
