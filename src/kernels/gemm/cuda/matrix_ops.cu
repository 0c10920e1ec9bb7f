// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/cuda/matrix_ops.h"

#include "device/cuda/dependent.cuh"
#include "kernels/gemm/cuda/element.cuh"
#include "kernels/gemm/cuda/output.cuh"
#include "kernels/gemm/cuda/weight_value.cuh"

namespace zonda::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// A thread writes eight k of one row: block x covers 2048 k, block y a row.
template <class Element>
__global__ void __launch_bounds__(kThreads)
    dequantize_kernel(const __grid_constant__ PackedLayout layout, const std::byte* weights,
                      typename Element::Value* out) {
  device::cuda::allow_next();
  const int32_t k = (static_cast<int32_t>(blockIdx.y) * kThreads + threadIdx.x) * 8;
  if (k < layout.padded_cols) {
    const TileRow at{static_cast<int32_t>(blockIdx.x) / kTileRows,
                     static_cast<int32_t>(blockIdx.x) % kTileRows};
    uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      pairs[i] = Element::pack(integer_weight(layout, weights, at, k + 2 * i),
                               integer_weight(layout, weights, at, k + 2 * i + 1));
    }
    // The workspace may still be in use by the kernel ahead.
    device::cuda::wait_for_previous();
    *reinterpret_cast<uint4*>(out + int64_t{blockIdx.x} * layout.padded_cols + k) = {
        pairs[0], pairs[1], pairs[2], pairs[3]};
  }
}

template <class Element>
__global__ void __launch_bounds__(kThreads)
    finish_kernel(const __grid_constant__ PackedLayout layout,
                  const __grid_constant__ Output output, const float* sums, int64_t first_token) {
  device::cuda::allow_next();
  device::cuda::wait_for_previous();
  const bool gated = is_gated_output(output);
  const int32_t column = static_cast<int32_t>(blockIdx.y) * kThreads + threadIdx.x;
  const int32_t tile = column / kTileRows;
  const int32_t row = column % kTileRows;
  const float* from = sums + int64_t{blockIdx.x} * layout.tiles * kTileRows;
  const int64_t token = first_token + blockIdx.x;
  if (!gated && tile < layout.tiles) {
    store_sum<Element>(output, layout, token, tile, row, from[column]);
  }
  if (gated && 2 * tile < layout.tiles) {
    const float* pair = from + 2 * tile * kTileRows + row;
    store_gated<Element>(output, layout, token, tile, row, pair[0], pair[kTileRows]);
  }
}

// A thread makes eight columns of y: half a tile's rows.
template <class Element>
__global__ void __launch_bounds__(kThreads)
    gate_kernel(const __grid_constant__ PackedLayout layout, const __grid_constant__ Output output,
                const std::byte* products, int64_t first_token) {
  device::cuda::allow_next();
  device::cuda::wait_for_previous();
  const int32_t column = (static_cast<int32_t>(blockIdx.y) * kThreads + threadIdx.x) * 8;
  if (column >= layout.source_rows) {
    return;
  }
  const int64_t from = int64_t{blockIdx.x} * layout.tiles * kTileRows +
                       column / kTileRows * 2 * kTileRows + column % kTileRows;
  const uint4 a = *reinterpret_cast<const uint4*>(products + from * 2);
  const uint4 b = *reinterpret_cast<const uint4*>(products + (from + kTileRows) * 2);
  const auto pair = [&](uint32_t a_pair, uint32_t b_pair) {
    const float2 a2 = Element::unpack(a_pair);
    const float2 b2 = Element::unpack(b_pair);
    return Element::pack(gate(output.epilogue, a2.x, b2.x), gate(output.epilogue, a2.y, b2.y));
  };
  const int64_t to = (first_token + blockIdx.x) * output.y_stride + column;
  *reinterpret_cast<uint4*>(static_cast<std::byte*>(output.y) + to * 2) = {
      pair(a.x, b.x), pair(a.y, b.y), pair(a.z, b.z), pair(a.w, b.w)};
}

bool is_gated(const LinearParams& params) {
  return params.epilogue == Epilogue::kGatedSilu || params.epilogue == Epilogue::kGatedGeluTanh;
}

unsigned blocks_for(int64_t count, int64_t unit) {
  return static_cast<unsigned>((count + unit - 1) / unit);
}

}  // namespace

cudaError_t dequantize(const PackedType& packed, const std::byte* weights, DType activation,
                       void* out, const device::cuda::LaunchSite& site) {
  const PackedLayout layout = packed_layout(packed);
  const dim3 grid(static_cast<unsigned>(layout.tiles * kTileRows),
                  blocks_for(layout.padded_cols, kThreads * 8));
  if (activation == DType::kBFloat16) {
    return device::cuda::launch(dequantize_kernel<Bf16>, grid, dim3(kThreads), 0, site, layout,
                                weights, static_cast<__nv_bfloat16*>(out));
  }
  return device::cuda::launch(dequantize_kernel<Fp16>, grid, dim3(kThreads), 0, site, layout,
                              weights, static_cast<__half*>(out));
}

bool can_gate_pairs(const LinearParams& params) {
  return is_gated(params) && params.bias == nullptr && !params.float32_output &&
         params.packed.type.rows / 2 % 8 == 0 && params.y_stride % 8 == 0 &&
         reinterpret_cast<uintptr_t>(params.y) % 16 == 0;
}

cudaError_t gate_pairs(const LinearParams& params, const void* products, int64_t first_token,
                       int64_t count, const device::cuda::LaunchSite& site) {
  const PackedLayout layout = packed_layout(params.packed);
  const dim3 grid(static_cast<unsigned>(count), blocks_for(layout.source_rows, kThreads * 8));
  const auto kernel = params.activation == DType::kBFloat16 ? gate_kernel<Bf16> : gate_kernel<Fp16>;
  return device::cuda::launch(kernel, grid, dim3(kThreads), 0, site, layout, output_of(params),
                              static_cast<const std::byte*>(products), first_token);
}

cudaError_t finish_sums(const LinearParams& params, const float* sums, int64_t first_token,
                        int64_t count, const device::cuda::LaunchSite& site) {
  const PackedLayout layout = packed_layout(params.packed);
  const Output output = output_of(params);
  const int64_t columns = int64_t{layout.tiles} * kTileRows / (is_gated(params) ? 2 : 1);
  const dim3 grid(static_cast<unsigned>(count), blocks_for(columns, kThreads));
  const auto kernel =
      params.activation == DType::kBFloat16 ? finish_kernel<Bf16> : finish_kernel<Fp16>;
  return device::cuda::launch(kernel, grid, dim3(kThreads), 0, site, layout, output, sums,
                              first_token);
}

}  // namespace zonda::kernels::cuda
