// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/cuda/matrix_ops.h"

#include "device/cuda/dependent.cuh"
#include "kernels/gemm/cuda/element.cuh"
#include "kernels/gemm/cuda/output.cuh"
#include "kernels/gemm/cuda/weight_value.cuh"

namespace zonda::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// Eight values of one row at k, rounded; `q` gives the stored integers, already signed.
template <class Element, class Integers>
__device__ __forceinline__ void store_eight(const PackedLayout& layout, const std::byte* weights,
                                            TileRow at, int32_t k, const Integers& q,
                                            typename Element::Value* out) {
  const std::byte* scale_at = weights + scale_place(layout, at, k);  // groups hold whole eights
  const float scale = half_at(scale_at);
  const float minimum = layout.has_minimum ? half_at(scale_at + 4) : 0.0f;
  const auto value = [&](int i) {
    const float scaled = scale * static_cast<float>(q(i));
    return layout.has_minimum ? scaled + minimum : scaled;
  };
  uint32_t pairs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    pairs[i] = Element::pack(value(2 * i), value(2 * i + 1));
  }
  *reinterpret_cast<uint4*>(out + (int64_t{at.tile} * kTileRows + at.row) * layout.padded_cols +
                            k) = {pairs[0], pairs[1], pairs[2], pairs[3]};
}

// A warp unpacks one of its 16-byte loads: 64 k (int4) or 32 k (int8) of a tile.
template <class Element, bool kIsInt4>
__global__ void __launch_bounds__(kThreads)
    dequantize_kernel(const __grid_constant__ PackedLayout layout, const std::byte* weights,
                      typename Element::Value* out) {
  constexpr int kLoads = kIsInt4 ? 2 : 4;
  constexpr int kSpan = kChunk / kLoads;
  device::cuda::allow_next();
  const int64_t load = int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  const int64_t chunk = load / kLoads;
  const auto tile = static_cast<int32_t>(chunk / layout.chunks);
  if (tile >= layout.tiles) {
    return;
  }
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  const uint4 loaded = *reinterpret_cast<const uint4*>(weights + load * kLoadBytes + lane * 16);
  const uint32_t words[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
  const int32_t first_k = static_cast<int32_t>(chunk % layout.chunks) * kChunk +
                          static_cast<int32_t>(load % kLoads) * kSpan + lane % 4 * 8;
  // The workspace may still be in use by the kernel ahead.
  device::cuda::wait_for_previous();
#pragma unroll
  for (int m = 0; m < 2; ++m) {
    const TileRow at{tile, lane / 4 + 8 * m};
    if constexpr (kIsInt4) {
      const int zero = layout.has_minimum ? 0 : 8;
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        store_eight<Element>(
            layout, weights, at, first_k + 32 * s,
            [&](int i) {
              const int shift = i % 2 * 16 + i % 4 / 2 * 8 + 4 * m;
              return static_cast<int>(words[2 * s + i / 4] >> shift & 15u) - zero;
            },
            out);
      }
    } else {
      const int offset = layout.has_minimum ? 128 : 0;
      store_eight<Element>(
          layout, weights, at, first_k,
          [&](int i) {
            const uint32_t byte = words[2 * m + i / 4] >> (i % 4 * 8) & 255u;
            return static_cast<int>(static_cast<int8_t>(byte)) + offset;
          },
          out);
    }
  }
}

// A thread makes 16 weights of a row: what one lane of m16n8k16 takes of 64 k.
template <class Element>
__global__ void __launch_bounds__(kThreads)
    dequantize_fp8_kernel(const __grid_constant__ PackedLayout layout, const std::byte* weights,
                          typename Element::Value* out) {
  device::cuda::allow_next();
  const int32_t column = (static_cast<int32_t>(blockIdx.y) * kThreads + threadIdx.x) * 16;
  if (column >= layout.padded_cols) {
    return;
  }
  const TileRow at{static_cast<int32_t>(blockIdx.x) / kTileRows,
                   static_cast<int32_t>(blockIdx.x) % kTileRows};
  const int64_t row = float_place(layout, at, 0);
  const float scale = fp8_scale(layout, weights, at);
  const uint4 loaded = *reinterpret_cast<const uint4*>(weights + row + column);
  const uint32_t words[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
  device::cuda::wait_for_previous();
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t codes = words[2 * s + i / 2] >> (i % 2 * 8);
      pairs[i] = Element::pack(scale * fp8_to_float(codes), scale * fp8_to_float(codes >> 16));
    }
    const int64_t to = row + column / 64 * 64 + s * 32 + column % 64 / 16 * 8;
    *reinterpret_cast<uint4*>(out + to) = {pairs[0], pairs[1], pairs[2], pairs[3]};
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
  if (layout.format == WeightFormat::kFloat8E4M3) {
    const dim3 grid(static_cast<unsigned>(layout.tiles * kTileRows),
                    blocks_for(layout.padded_cols, kThreads * 16));
    return activation == DType::kBFloat16
               ? device::cuda::launch(dequantize_fp8_kernel<Bf16>, grid, dim3(kThreads), 0, site,
                                      layout, weights, static_cast<__nv_bfloat16*>(out))
               : device::cuda::launch(dequantize_fp8_kernel<Fp16>, grid, dim3(kThreads), 0, site,
                                      layout, weights, static_cast<__half*>(out));
  }
  const int64_t loads = int64_t{layout.tiles} * layout.chunks * chunk_loads(layout.format);
  const dim3 grid(blocks_for(loads, kThreads / 32));
  const bool is_int4 = layout.format == WeightFormat::kInt4;
  if (activation == DType::kBFloat16) {
    const auto kernel = is_int4 ? dequantize_kernel<Bf16, true> : dequantize_kernel<Bf16, false>;
    return device::cuda::launch(kernel, grid, dim3(kThreads), 0, site, layout, weights,
                                static_cast<__nv_bfloat16*>(out));
  }
  const auto kernel = is_int4 ? dequantize_kernel<Fp16, true> : dequantize_kernel<Fp16, false>;
  return device::cuda::launch(kernel, grid, dim3(kThreads), 0, site, layout, weights,
                              static_cast<__half*>(out));
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
