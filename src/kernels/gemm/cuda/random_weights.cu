// Random weights made on the device, each a function of the seed and its place.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_fp8.h>

#include "kernels/gemm/cuda/element.cuh"
#include "kernels/gemm/cuda/linear.h"
#include "kernels/gemm/cuda/packed_layout.h"

namespace zonda::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// The finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators).
__device__ __forceinline__ uint64_t hash(uint64_t seed, uint64_t place) {
  uint64_t z = seed + (place + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// Two independent normal values of deviation 1 (Box and Muller).
__device__ __forceinline__ float2 normal_pair(uint64_t bits) {
  const float u = (static_cast<float>(bits >> 40) + 0.5f) * 0x1p-24f;
  const float angle = static_cast<float>(bits & 0xffffffu) * (0x1p-24f * 6.283185307f);
  const float radius = sqrtf(-2.0f * __logf(u));
  float sine, cosine;
  __sincosf(angle, &sine, &cosine);
  return {radius * cosine, radius * sine};
}

// Block x: a row of the packed matrix; a thread of block y: two k.
template <class Element>
__global__ void __launch_bounds__(kThreads)
    random_floats_kernel(const __grid_constant__ PackedLayout layout, uint64_t seed,
                         float deviation, uint32_t* weights) {
  const int32_t pair = static_cast<int32_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (pair * 2 >= layout.padded_cols) {
    return;
  }
  const TileRow at{static_cast<int32_t>(blockIdx.x) / kTileRows,
                   static_cast<int32_t>(blockIdx.x) % kTileRows};
  const int32_t column = row_column(layout, at.tile, at.row);
  const int32_t row_pairs = (layout.cols + 1) / 2;
  float2 value = {0.0f, 0.0f};
  if (column >= 0 && pair < row_pairs) {
    value = normal_pair(hash(seed, int64_t{column} * row_pairs + pair));
    value.x *= deviation;
    value.y *= pair * 2 + 1 < layout.cols ? deviation : 0.0f;
  }
  weights[float_place(layout, at, pair * 2) / 2] = Element::pack(value.x, value.y);
}

// All bits are as good as any other: uniform integers.
__global__ void __launch_bounds__(kThreads)
    random_bits_kernel(uint64_t seed, int64_t words, uint64_t* out) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < words) {
    out[i] = hash(seed, i);
  }
}

// A thread writes the scale (and minimum) of one row and group: block x a row, block y groups.
__global__ void __launch_bounds__(kThreads)
    random_scales_kernel(const __grid_constant__ PackedLayout layout, uint64_t seed, float scale,
                         float center, int32_t groups, std::byte* weights) {
  const int32_t group = static_cast<int32_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (group >= groups) {
    return;
  }
  const TileRow at{static_cast<int32_t>(blockIdx.x) / kTileRows,
                   static_cast<int32_t>(blockIdx.x) % kTileRows};
  const int32_t column = row_column(layout, at.tile, at.row);
  const int32_t k = layout.chunk_groups == 0 ? 0 : group * (kChunk / layout.chunk_groups);
  const uint64_t bits = hash(~seed, int64_t{column} * groups + group);
  const float spread = 0.8f + 0.4f * static_cast<float>(bits >> 40) * 0x1p-24f;
  const __half value = __float2half_rn(column < 0 ? 0.0f : scale * spread);
  std::byte* to = weights + scale_place(layout, at, k);
  *reinterpret_cast<__half*>(to) = value;
  if (layout.has_minimum) {
    *reinterpret_cast<__half*>(to + 4) = __float2half_rn(-center * __half2float(value));
  }
}

// Block x: a row; a thread of block y: one byte of it, and the first one the row's scale. Values
// are normal with a deviation of 64, so that 448 is rarely passed.
__global__ void __launch_bounds__(kThreads)
    random_fp8_kernel(const __grid_constant__ PackedLayout layout, uint64_t seed, float deviation,
                      std::byte* weights) {
  const int32_t k = static_cast<int32_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (k >= layout.padded_cols) {
    return;
  }
  const TileRow at{static_cast<int32_t>(blockIdx.x) / kTileRows,
                   static_cast<int32_t>(blockIdx.x) % kTileRows};
  const int32_t column = row_column(layout, at.tile, at.row);
  const bool real = column >= 0 && k < layout.cols;
  const float value =
      real ? normal_pair(hash(seed, int64_t{column} * layout.cols + k)).x * 64.0f : 0.0f;
  weights[fp8_place(layout, at, k)] =
      std::byte{__nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3)};
  if (k == 0) {
    const uint64_t bits = hash(~seed, column);
    const float spread = 0.8f + 0.4f * static_cast<float>(bits >> 40) * 0x1p-24f;
    *reinterpret_cast<float*>(weights + fp8_scale_place(layout, at)) =
        real ? deviation / 64.0f * spread : 0.0f;
  }
}

unsigned blocks_for(int64_t count, int64_t unit) {
  return static_cast<unsigned>((count + unit - 1) / unit);
}

cudaError_t random_integers(const PackedLayout& layout, uint64_t seed, float deviation,
                            std::byte* weights, cudaStream_t stream) {
  const int64_t words = layout.scale_offset / 8;
  random_bits_kernel<<<blocks_for(words, kThreads), kThreads, 0, stream>>>(
      seed, words, reinterpret_cast<uint64_t*>(weights));
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) {
    return status;
  }
  // Of n equally likely integers the deviation is sqrt((n^2 - 1) / 12).
  const bool is_int4 = layout.format == WeightFormat::kInt4;
  const float scale = deviation / (is_int4 ? 4.6098f : 73.900f);
  const int32_t groups = layout.chunk_groups == 0 ? 1 : layout.chunks * layout.chunk_groups;
  const dim3 grid(static_cast<unsigned>(layout.tiles * kTileRows), blocks_for(groups, kThreads));
  random_scales_kernel<<<grid, kThreads, 0, stream>>>(layout, seed, scale, is_int4 ? 7.5f : 127.5f,
                                                      groups, weights);
  return cudaGetLastError();
}

}  // namespace

cudaError_t random_weights(const PackedType& packed, uint64_t seed, float deviation,
                           std::byte* weights, cudaStream_t stream) {
  const PackedLayout layout = packed_layout(packed);
  if (layout.format == WeightFormat::kFloat8E4M3) {
    const dim3 grid(static_cast<unsigned>(layout.tiles * kTileRows),
                    blocks_for(layout.padded_cols, kThreads));
    random_fp8_kernel<<<grid, kThreads, 0, stream>>>(layout, seed, deviation, weights);
    return cudaGetLastError();
  }
  if (is_integer(layout.format)) {
    return random_integers(layout, seed, deviation, weights, stream);
  }
  const dim3 grid(static_cast<unsigned>(layout.tiles * kTileRows),
                  blocks_for(layout.padded_cols / 2, kThreads));
  auto* words = reinterpret_cast<uint32_t*>(weights);
  if (layout.format == WeightFormat::kBFloat16) {
    random_floats_kernel<Bf16><<<grid, kThreads, 0, stream>>>(layout, seed, deviation, words);
  } else {
    random_floats_kernel<Fp16><<<grid, kThreads, 0, stream>>>(layout, seed, deviation, words);
  }
  return cudaGetLastError();
}

}  // namespace zonda::kernels::cuda
