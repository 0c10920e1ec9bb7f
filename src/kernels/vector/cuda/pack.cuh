// Packs of neighbouring activations that move as one access, computed with in float32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace zonda::kernels::cuda {

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

// Rounds to nearest even.
template <typename T>
__device__ __forceinline__ T from_float(float value) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return value;
  } else {
    return T(value);
  }
}

// `kWidth` elements of T; the address of a whole pack is a multiple of its size.
template <typename T, int kWidth>
struct alignas(sizeof(T) * kWidth) Pack {
  T element[kWidth];

  static constexpr int kSize = kWidth;
};

// Elements of T in a 16-byte access.
template <typename T>
inline constexpr int kWidest = 16 / static_cast<int>(sizeof(T));

template <int kWidth, typename T>
__device__ __forceinline__ void load_pack(const T* from, float (&values)[kWidth]) {
  const auto pack = *reinterpret_cast<const Pack<T, kWidth>*>(from);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    values[i] = to_float(pack.element[i]);
  }
}

template <int kWidth, typename T>
__device__ __forceinline__ void store_pack(const float (&values)[kWidth], T* to) {
  Pack<T, kWidth> pack;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    pack.element[i] = from_float<T>(values[i]);
  }
  *reinterpret_cast<Pack<T, kWidth>*>(to) = pack;
}

// Whether whole packs of 16 bytes cover rows of `bytes` bytes that start at `pointer`.
inline bool fits_packs(const void* pointer, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0 && bytes % 16 == 0;
}

}  // namespace zonda::kernels::cuda
