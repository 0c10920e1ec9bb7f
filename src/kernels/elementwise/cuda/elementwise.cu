// Sums and gated products: a thread computes one pack of 16 bytes.
// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/dependent.cuh"
#include "kernels/elementwise/cuda/elementwise.h"
#include "kernels/vector/cuda/pack.cuh"

namespace zonda::kernels::cuda {
namespace {

constexpr int kThreads = 128;  // small, so that one token's row already spreads over many blocks

struct Sum {
  static __device__ float of(float a, float b) { return a + b; }
};
struct GatedSilu {
  static __device__ float of(float a, float b) { return a / (1.0f + expf(-a)) * b; }
};
// 0.5 a (1 + tanh(u)) with u = sqrt(2 / pi) (a + 0.044715 a^3), which is a * sigmoid(2 u).
struct GatedGeluTanh {
  static __device__ float of(float a, float b) {
    const float u = fmaf(a * a * a, 0.044715f, a);
    return a / (1.0f + expf(-1.595769122f * u)) * b;
  }
};

template <typename T, int kWidth, typename Function>
__global__ void __launch_bounds__(kThreads) combine(const T* a, const T* b, T* y, int64_t count) {
  device::cuda::allow_next();
  device::cuda::wait_for_previous();
  const int64_t at = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kWidth;
  if (at >= count) {
    return;
  }
  float left[kWidth];
  float right[kWidth];
  load_pack(a + at, left);
  load_pack(b + at, right);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    left[i] = Function::of(left[i], right[i]);
  }
  store_pack(left, y + at);
}

template <typename T, typename Function>
cudaError_t combine_all(const ElementwiseParams& params, const device::cuda::LaunchSite& site) {
  const int64_t bytes = params.count * static_cast<int64_t>(sizeof(T));
  const bool wide =
      fits_packs(params.a, bytes) && fits_packs(params.b, bytes) && fits_packs(params.y, bytes);
  const int width = wide ? kWidest<T> : 1;
  const int64_t per_block = int64_t{kThreads} * width;
  const dim3 grid(static_cast<unsigned>((params.count + per_block - 1) / per_block));
  return device::cuda::launch(wide ? combine<T, kWidest<T>, Function> : combine<T, 1, Function>,
                              grid, dim3(kThreads), 0, site, static_cast<const T*>(params.a),
                              static_cast<const T*>(params.b), static_cast<T*>(params.y),
                              params.count);
}

template <typename Function>
cudaError_t combine_typed(const ElementwiseParams& params, const device::cuda::LaunchSite& site) {
  if (params.count == 0) {
    return cudaSuccess;
  }
  switch (params.activation) {
    case DType::kBFloat16:
      return combine_all<__nv_bfloat16, Function>(params, site);
    case DType::kFloat16:
      return combine_all<__half, Function>(params, site);
    case DType::kFloat32:
      return combine_all<float, Function>(params, site);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace

cudaError_t add(const ElementwiseParams& params, const device::cuda::LaunchSite& site) {
  return combine_typed<Sum>(params, site);
}

cudaError_t gated(const ElementwiseParams& params, Epilogue kind,
                  const device::cuda::LaunchSite& site) {
  switch (kind) {
    case Epilogue::kGatedSilu:
      return combine_typed<GatedSilu>(params, site);
    case Epilogue::kGatedGeluTanh:
      return combine_typed<GatedGeluTanh>(params, site);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace zonda::kernels::cuda
