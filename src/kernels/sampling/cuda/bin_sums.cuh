// Running counts and masses over the bins of a row, from the largest logit down.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/sampling/cuda/block_ops.cuh"
#include "kernels/sampling/cuda/row_weights.cuh"

namespace zonda::kernels::cuda {

// In shared memory; every thread reads the same and comes to the same results.
struct BinSums {
  uint64_t mass[kBins];  // of bins 0 to b together
  uint32_t count[kBins];

  // Every thread of the block calls it.
  __device__ void load(const RowMemory& memory, int64_t row) {
    constexpr int kEach = kBins / kThreads;
    const int first = static_cast<int>(threadIdx.x) * kEach;
    uint64_t own_mass[kEach];
    uint32_t own_count[kEach];
    uint64_t mass_sum = 0;
    uint32_t count_sum = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      own_mass[i] = mass_sum += __ldcg(memory.bin_mass + row * kBins + first + i);
      own_count[i] = count_sum += __ldcg(memory.bin_count + row * kBins + first + i);
    }
    const uint64_t mass_before = block_sum_before(mass_sum);
    const uint32_t count_before = block_sum_before(count_sum);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      mass[first + i] = mass_before + own_mass[i];
      count[first + i] = count_before + own_count[i];
    }
    __syncthreads();
  }

  __device__ uint64_t mass_before(int bin) const { return bin > 0 ? mass[bin - 1] : 0; }
  __device__ uint32_t count_before(int bin) const { return bin > 0 ? count[bin - 1] : 0; }
  __device__ uint64_t total_mass() const { return mass[kBins - 1]; }
  __device__ uint32_t total_count() const { return count[kBins - 1]; }
  // The bin in which the running sum reaches `wanted`, which is in [1, total].
  __device__ int bin_at_mass(uint64_t wanted) const { return first_reaching(mass, kBins, wanted); }
  __device__ int bin_at_count(uint32_t wanted) const {
    return first_reaching(count, kBins, wanted);
  }

  // The first of `size` values that never fall which is at least `wanted`; the last if none is.
  template <typename T>
  static __device__ int first_reaching(const T* values, int size, T wanted) {
    int low = 0;
    int high = size - 1;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (values[middle] >= wanted) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }
};

// The running mass at which top-p is satisfied.
__device__ __forceinline__ uint64_t mass_of_top_p(float top_p, uint64_t total) {
  const auto wanted =
      static_cast<uint64_t>(ceil(static_cast<double>(top_p) * static_cast<double>(total)));
  return wanted < 1 ? 1 : (wanted > total ? total : wanted);
}

// The running mass that the drawn token is the first to reach.
__device__ __forceinline__ uint64_t mass_of_draw(double uniform, uint64_t kept) {
  const auto passed = static_cast<uint64_t>(uniform * static_cast<double>(kept));
  return passed < kept ? passed + 1 : kept;
}

}  // namespace zonda::kernels::cuda
