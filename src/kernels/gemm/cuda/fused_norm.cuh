// RMS norm inside a linear: tokens times norm weights on the way to the product, squares on the
// side. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm/cuda/element.cuh"
#include "kernels/gemm/cuda/mma_format.cuh"

namespace zonda::kernels::cuda {

// x * g rounded to 16 bits, and the sum of x^2 on the side. Squares are added up eight at a time,
// then over slices, then over the four lanes of a token and the eight shares of k.
template <class Element>
__device__ __forceinline__ uint32_t norm_pair(uint32_t pair, float g0, float g1, float& squares) {
  const float2 x = Element::unpack(pair);
  squares = fmaf(x.x, x.x, squares);
  squares = fmaf(x.y, x.y, squares);
  return Element::pack(x.x * g0, x.y * g1);
}

// Norm weights of a lane's eight k of a slice.
struct NormWeights {
  float4 low, high;

  template <class Element>
  __device__ __forceinline__ uint4 apply(uint4 x, float& squares) const {
    float eight = 0.0f;
    const uint4 scaled = {norm_pair<Element>(x.x, low.x, low.y, eight),
                          norm_pair<Element>(x.y, low.z, low.w, eight),
                          norm_pair<Element>(x.z, high.x, high.y, eight),
                          norm_pair<Element>(x.w, high.z, high.w, eight)};
    squares += eight;
    return scaled;
  }
};

// One warp's ring of norm weights in shared memory, k in order: loads to registers in the loop
// would queue behind the weights in flight. Lanes read what others copied, so that __syncwarp()
// belongs between a wait and read(), and between read() and a copy() to the same stage.
template <int kStepSlices, int kStages>
class NormRing {
 public:
  static constexpr int kStepBytes = kStepSlices * kSlice * 4;
  static constexpr int kBytes = kStages * kStepBytes;

  __device__ __forceinline__ NormRing(const float* weights, int cols, std::byte* shared, int lane)
      : weights_(weights + lane * 4),
        to_(static_cast<uint32_t>(__cvta_generic_to_shared(shared)) + lane * 16),
        from_(static_cast<uint32_t>(__cvta_generic_to_shared(shared)) + lane % 4 * 32),
        left_(cols - lane * 4),
        copies_(lane * 16 < kStepBytes) {}

  // Joins the copies that are committed next; zeros behind cols.
  __device__ __forceinline__ void copy(int step, int stage) const {
    if (copies_) {
      const int k = step * (kStepSlices * kSlice);
      const int left = left_ - k;
      const int bytes = min(max(left, 0), 4) * 4;
      asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to_ + stage * kStepBytes),
                   "l"(weights_ + (left > 0 ? k : 0)), "r"(bytes)
                   : "memory");
    }
  }
  __device__ __forceinline__ NormWeights read(int stage, int slice) const {
    const uint32_t at = from_ + stage * kStepBytes + slice * (kSlice * 4);
    return {read4(at), read4(at + 16)};
  }

 private:
  static __device__ __forceinline__ float4 read4(uint32_t at) {
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(at)
                 : "memory");
    return v;
  }

  const float* weights_;
  uint32_t to_;
  uint32_t from_;
  int left_;
  bool copies_;
};

}  // namespace zonda::kernels::cuda
