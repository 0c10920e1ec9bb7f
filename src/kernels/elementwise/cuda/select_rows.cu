// Copies of chosen rows, as bits.
// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/dependent.cuh"
#include "kernels/elementwise/cuda/elementwise.h"
#include "kernels/vector/cuda/pack.cuh"

namespace zonda::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr unsigned kMaxRowBlocks = 65535;  // the limit of a grid's second dimension

// Sizes and strides in units of Bits.
template <typename Bits>
__global__ void __launch_bounds__(kThreads)
    copy_rows(const Bits* x, const int32_t* rows, Bits* y, int64_t num_rows, int64_t size,
              int64_t x_stride) {
  device::cuda::allow_next();
  device::cuda::wait_for_previous();
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= size) {
    return;
  }
  for (int64_t row = blockIdx.y; row < num_rows; row += gridDim.y) {
    y[row * size + at] = x[rows[row] * x_stride + at];
  }
}

template <typename Bits>
cudaError_t copy(const SelectRowsParams& params, int64_t element_bytes,
                 const device::cuda::LaunchSite& site) {
  const int64_t size = params.size * element_bytes / static_cast<int64_t>(sizeof(Bits));
  const int64_t stride = params.x_stride * element_bytes / static_cast<int64_t>(sizeof(Bits));
  const dim3 grid(
      static_cast<unsigned>((size + kThreads - 1) / kThreads),
      params.num_rows < kMaxRowBlocks ? static_cast<unsigned>(params.num_rows) : kMaxRowBlocks);
  return device::cuda::launch(copy_rows<Bits>, grid, dim3(kThreads), 0, site,
                              static_cast<const Bits*>(params.x), params.rows,
                              static_cast<Bits*>(params.y), params.num_rows, size, stride);
}

}  // namespace

cudaError_t select_rows(const SelectRowsParams& params, const device::cuda::LaunchSite& site) {
  const bool is_half =
      params.activation == DType::kBFloat16 || params.activation == DType::kFloat16;
  if (params.size <= 0 || params.x_stride < params.size ||
      (!is_half && params.activation != DType::kFloat32)) {
    return cudaErrorInvalidValue;
  }
  if (params.num_rows == 0) {
    return cudaSuccess;
  }
  const int64_t bytes = is_half ? 2 : 4;
  if (fits_packs(params.x, params.x_stride * bytes) && fits_packs(params.y, params.size * bytes)) {
    return copy<uint4>(params, bytes, site);
  }
  return is_half ? copy<uint16_t>(params, bytes, site) : copy<uint32_t>(params, bytes, site);
}

}  // namespace zonda::kernels::cuda
