// RMSNorm: a block holds a row in registers; rows that are too long are read twice.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/cuda/rms_norm.h"

#include <algorithm>

#include "device/cuda/dependent.cuh"
#include "kernels/vector/cuda/pack.cuh"

namespace zonda::kernels::cuda {
namespace {

constexpr int kMaxThreads = 512;
constexpr int kMaxWarps = kMaxThreads / 32;
constexpr int kMaxBlocks = 1056;  // two waves of full multiprocessors; more rows share a block

template <typename T>
struct Rows {
  const T* x;
  const float* weight;
  T* y;
  int64_t num_rows;
  int64_t x_stride;
  int64_t y_stride;
  int size;
  float eps;
};

// The sum over the block in one order; `partial` alternates between the rows of a block.
__device__ float block_sum(float value, float* partial) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  }
  if (threadIdx.x % 32 == 0) {
    partial[threadIdx.x / 32] = value;
  }
  __syncthreads();
  float sum = 0.0f;
  for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) {
    sum += partial[warp];
  }
  return sum;
}

template <int kWidth>
__device__ __forceinline__ float sum_of_squares(const float (&x)[kWidth], float sum) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    sum = fmaf(x[i], x[i], sum);
  }
  return sum;
}

template <int kWidth>
__device__ __forceinline__ void scale(float (&x)[kWidth], float inverse,
                                      const float (&weight)[kWidth]) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    x[i] = x[i] * inverse * weight[i];
  }
}

template <int kWidth>
__device__ __forceinline__ void load_weight(const float* from, float (&weight)[kWidth]) {
  constexpr int kStep = kWidth < 4 ? kWidth : 4;
#pragma unroll
  for (int i = 0; i < kWidth; i += kStep) {
    float part[kStep];
    load_pack(from + i, part);
#pragma unroll
    for (int j = 0; j < kStep; ++j) {
      weight[i + j] = part[j];
    }
  }
}

// Every thread owns `kPacks` packs of each row.
template <typename T, int kWidth, int kPacks>
__global__ void __launch_bounds__(kMaxThreads) norm_held(Rows<T> rows) {
  __shared__ float partial[2][kMaxWarps];
  device::cuda::allow_next();
  float weight[kPacks][kWidth];
  bool owned[kPacks];
#pragma unroll
  for (int pack = 0; pack < kPacks; ++pack) {
    const int at = (static_cast<int>(threadIdx.x) + pack * static_cast<int>(blockDim.x)) * kWidth;
    owned[pack] = at < rows.size;
    if (owned[pack]) {
      load_weight(rows.weight + at, weight[pack]);
    }
  }
  device::cuda::wait_for_previous();
  int turn = 0;
  for (int64_t row = blockIdx.x; row < rows.num_rows; row += gridDim.x, turn ^= 1) {
    const T* const x_row = rows.x + row * rows.x_stride;
    float x[kPacks][kWidth] = {};
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
      if (owned[pack]) {
        load_pack(x_row + (threadIdx.x + pack * blockDim.x) * kWidth, x[pack]);
      }
    }
    float sum = 0.0f;
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
      sum = sum_of_squares(x[pack], sum);
    }
    sum = block_sum(sum, partial[turn]);
    const float inverse = 1.0f / sqrtf(sum / static_cast<float>(rows.size) + rows.eps);
    T* const y_row = rows.y + row * rows.y_stride;
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
      if (owned[pack]) {
        scale(x[pack], inverse, weight[pack]);
        store_pack(x[pack], y_row + (threadIdx.x + pack * blockDim.x) * kWidth);
      }
    }
  }
}

// Rows of any length.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kMaxThreads) norm_streamed(Rows<T> rows) {
  __shared__ float partial[2][kMaxWarps];
  device::cuda::allow_next();
  device::cuda::wait_for_previous();
  const int step = static_cast<int>(blockDim.x) * kWidth;
  int turn = 0;
  for (int64_t row = blockIdx.x; row < rows.num_rows; row += gridDim.x, turn ^= 1) {
    const T* const x_row = rows.x + row * rows.x_stride;
    float x[kWidth];
    float sum = 0.0f;
    for (int at = threadIdx.x * kWidth; at < rows.size; at += step) {
      load_pack(x_row + at, x);
      sum = sum_of_squares(x, sum);
    }
    sum = block_sum(sum, partial[turn]);
    const float inverse = 1.0f / sqrtf(sum / static_cast<float>(rows.size) + rows.eps);
    T* const y_row = rows.y + row * rows.y_stride;
    for (int at = threadIdx.x * kWidth; at < rows.size; at += step) {
      float weight[kWidth];
      load_pack(x_row + at, x);
      load_weight(rows.weight + at, weight);
      scale(x, inverse, weight);
      store_pack(x, y_row + at);
    }
  }
}

// The kernel and the threads depend on the size alone, so that a row's sum has one order.
template <typename T>
cudaError_t norm_rows(const RmsNormParams& params, const device::cuda::LaunchSite& site) {
  const Rows<T> rows{.x = static_cast<const T*>(params.x),
                     .weight = params.weight,
                     .y = static_cast<T*>(params.y),
                     .num_rows = params.num_rows,
                     .x_stride = params.x_stride,
                     .y_stride = params.y_stride,
                     .size = static_cast<int>(params.size),
                     .eps = params.eps};
  constexpr int kWide = kWidest<T>;
  constexpr int64_t kElement = sizeof(T);
  const bool wide = fits_packs(params.x, params.x_stride * kElement) &&
                    fits_packs(params.y, params.y_stride * kElement) &&
                    fits_packs(params.weight, params.size * kElement);
  const int64_t packs = wide ? params.size / kWide : params.size;
  const auto threads =
      static_cast<unsigned>(std::min<int64_t>((packs + 31) / 32 * 32, kMaxThreads));
  const dim3 grid(static_cast<unsigned>(std::min<int64_t>(params.num_rows, kMaxBlocks)));
  const auto run = [&](void (*kernel)(Rows<T>)) {
    return device::cuda::launch(kernel, grid, dim3(threads), 0, site, rows);
  };
  if (!wide) {
    return run(norm_streamed<T, 1>);
  }
  if (packs <= kMaxThreads) {
    return run(norm_held<T, kWide, 1>);
  }
  if (packs <= 2 * kMaxThreads) {
    return run(norm_held<T, kWide, 2>);
  }
  if (packs <= 4 * kMaxThreads) {
    return run(norm_held<T, kWide, 4>);
  }
  return run(norm_streamed<T, kWide>);
}

}  // namespace

cudaError_t rms_norm(const RmsNormParams& params, const device::cuda::LaunchSite& site) {
  if (params.size <= 0 || params.size >= (int64_t{1} << 30) || params.x_stride < params.size ||
      params.y_stride < params.size) {
    return cudaErrorInvalidValue;
  }
  if (params.num_rows == 0) {
    return cudaSuccess;
  }
  switch (params.activation) {
    case DType::kBFloat16:
      return norm_rows<__nv_bfloat16>(params, site);
    case DType::kFloat16:
      return norm_rows<__half>(params, site);
    case DType::kFloat32:
      return norm_rows<float>(params, site);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace zonda::kernels::cuda
