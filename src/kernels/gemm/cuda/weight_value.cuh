// One weight of a packed matrix as float: for gathers, dequantisation and tests, not for products.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "kernels/gemm/cuda/packed_layout.h"

namespace zonda::kernels::cuda {

__device__ __forceinline__ float half_at(const std::byte* at) {
  return __half2float(*reinterpret_cast<const __half*>(at));
}

__device__ __forceinline__ float integer_weight(const PackedLayout& layout,
                                                const std::byte* weights, TileRow at, int32_t k) {
  const std::byte* place = weights + integer_place(layout, at, k);
  const std::byte* scale_at = weights + scale_place(layout, at, k);
  const bool is_int4 = layout.format == WeightFormat::kInt4;
  int q;
  if (is_int4) {
    q = static_cast<int>(*reinterpret_cast<const uint32_t*>(place) >> int4_shift(at.row, k) & 15u);
    q -= layout.has_minimum ? 0 : 8;
  } else {
    q = *reinterpret_cast<const int8_t*>(place) + (layout.has_minimum ? 128 : 0);
  }
  const float scaled = half_at(scale_at) * static_cast<float>(q);
  return layout.has_minimum ? scaled + half_at(scale_at + 4) : scaled;
}

__device__ __forceinline__ float weight_value(const PackedLayout& layout, const std::byte* weights,
                                              TileRow at, int32_t k) {
  if (layout.format == WeightFormat::kBFloat16) {
    return __bfloat162float(
        reinterpret_cast<const __nv_bfloat16*>(weights)[float_place(layout, at, k)]);
  }
  if (layout.format == WeightFormat::kFloat16) {
    return __half2float(reinterpret_cast<const __half*>(weights)[float_place(layout, at, k)]);
  }
  return integer_weight(layout, weights, at, k);
}

}  // namespace zonda::kernels::cuda
