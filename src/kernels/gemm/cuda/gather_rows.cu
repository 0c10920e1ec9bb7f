// Rows of a packed matrix by index: the embedding lookup.
// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/dependent.cuh"
#include "kernels/gemm/cuda/element.cuh"
#include "kernels/gemm/cuda/linear.h"
#include "kernels/gemm/cuda/weight_value.cuh"

namespace zonda::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kElements = 8;  // of a thread

struct GatherArgs {
  const std::byte* weights;
  const int32_t* ids;
  std::byte* y;
  int64_t y_stride;
  PackedLayout layout;
  bool copies;  // 16 bytes at a time: weights of the activation's type, aligned rows
};

template <class Element>
__global__ void __launch_bounds__(kThreads)
    gather_rows_kernel(const __grid_constant__ GatherArgs args) {
  device::cuda::allow_next();
  device::cuda::wait_for_previous();
  const int32_t first = (static_cast<int32_t>(blockIdx.y) * kThreads + threadIdx.x) * kElements;
  if (first >= args.layout.cols) {
    return;
  }
  const TileRow at = find_row(args.layout, args.ids[blockIdx.x]);
  auto* y = reinterpret_cast<typename Element::Value*>(args.y) + blockIdx.x * args.y_stride;
  if (args.copies && first + kElements <= args.layout.cols) {
    *reinterpret_cast<uint4*>(y + first) =
        *reinterpret_cast<const uint4*>(args.weights + float_place(args.layout, at, first) * 2);
    return;
  }
  for (int32_t k = first; k < min(first + kElements, args.layout.cols); ++k) {
    y[k] = Element::from_float(weight_value(args.layout, args.weights, at, k));
  }
}

}  // namespace

cudaError_t gather_rows(const GatherRowsParams& params, const device::cuda::LaunchSite& site) {
  GatherArgs args;
  args.weights = params.weights;
  args.ids = params.ids;
  args.y = static_cast<std::byte*>(params.y);
  args.y_stride = params.y_stride;
  args.layout = packed_layout(params.packed);
  const bool is_bf16 = params.activation == DType::kBFloat16;
  args.copies =
      args.layout.format == (is_bf16 ? WeightFormat::kBFloat16 : WeightFormat::kFloat16) &&
      params.y_stride % kElements == 0 && reinterpret_cast<uintptr_t>(params.y) % 16 == 0;
  const int64_t unit = kThreads * kElements;
  const dim3 grid(static_cast<unsigned>(params.num_tokens),
                  static_cast<unsigned>((args.layout.cols + unit - 1) / unit));
  const auto kernel = is_bf16 ? gather_rows_kernel<Bf16> : gather_rows_kernel<Fp16>;
  return device::cuda::launch(kernel, grid, dim3(kThreads), 0, site, args);
}

}  // namespace zonda::kernels::cuda
