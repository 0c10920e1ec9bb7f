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

// Exact; the fields of e4m3 at their places in a float, whose exponent is larger by 120.
__device__ __forceinline__ float fp8_to_float(uint32_t code) {
  const float magnitude = __uint_as_float((code & 0x7fu) << 20) * 0x1p120f;
  return __uint_as_float(__float_as_uint(magnitude) | (code & 0x80u) << 24);
}

__device__ __forceinline__ float fp8_scale(const PackedLayout& layout, const std::byte* weights,
                                           TileRow at) {
  return *reinterpret_cast<const float*>(weights + fp8_scale_place(layout, at));
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
  if (layout.format == WeightFormat::kFloat8E4M3) {
    const auto code = static_cast<uint8_t>(weights[fp8_place(layout, at, k)]);
    return fp8_scale(layout, weights, at) * fp8_to_float(code);
  }
  return integer_weight(layout, weights, at, k);
}

}  // namespace zonda::kernels::cuda
