// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/cuda/quantize_tokens.h"

#include <cuda_fp8.h>

#include "device/cuda/dependent.cuh"
#include "kernels/gemm/cuda/element.cuh"
#include "kernels/gemm/cuda/packed_layout.h"

namespace zonda::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kUnit = 8;  // values of a thread's load
constexpr int kStride = kThreads * kUnit;

// Eight values from k on, zeros behind cols, times norm weights if there are any.
template <class Element>
struct TokenRow {
  const typename Element::Value* x;
  const float* norm_weight;
  int cols;

  __device__ __forceinline__ void load(int k, float (&v)[kUnit], float& squares) const {
    uint32_t pairs[kUnit / 2] = {};
    if (k + kUnit <= cols) {
      const uint4 loaded = *reinterpret_cast<const uint4*>(x + k);
      pairs[0] = loaded.x;
      pairs[1] = loaded.y;
      pairs[2] = loaded.z;
      pairs[3] = loaded.w;
    } else {
#pragma unroll
      for (int i = 0; i < kUnit; ++i) {
        const uint32_t bits = k + i < cols ? reinterpret_cast<const uint16_t*>(x)[k + i] : 0u;
        pairs[i / 2] |= bits << (i % 2 * 16);
      }
    }
#pragma unroll
    for (int i = 0; i < kUnit / 2; ++i) {
      const float2 pair = Element::unpack(pairs[i]);
      v[2 * i] = pair.x;
      v[2 * i + 1] = pair.y;
    }
    if (norm_weight != nullptr) {
      float weights[kUnit] = {};
      if (k + kUnit <= cols) {
        const float4 low = *reinterpret_cast<const float4*>(norm_weight + k);
        const float4 high = *reinterpret_cast<const float4*>(norm_weight + k + 4);
        const float loaded[kUnit] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (int i = 0; i < kUnit; ++i) {
          weights[i] = loaded[i];
        }
      } else {
#pragma unroll
        for (int i = 0; i < kUnit; ++i) {
          weights[i] = k + i < cols ? norm_weight[k + i] : 0.0f;
        }
      }
#pragma unroll
      for (int i = 0; i < kUnit; ++i) {
        squares = fmaf(v[i], v[i], squares);
        v[i] *= weights[i];
      }
    }
  }
};

// In the order k0 k2 k1 k3.
__device__ __forceinline__ uint32_t four_codes(const float* v, float inverse) {
  const auto pair = [&](float a, float b) -> uint32_t {
    return __nv_cvt_float2_to_fp8x2({a * inverse, b * inverse}, __NV_SATFINITE, __NV_E4M3);
  };
  return pair(v[0], v[2]) | pair(v[1], v[3]) << 16;
}

// Block x: a token. Of up to kUnits loads a thread values are kept between the search for the
// largest and the rounding; 0: they are loaded twice.
template <class Element, int kUnits>
__global__ void __launch_bounds__(kThreads)
    quantize_kernel(const __grid_constant__ QuantizeTokensParams params) {
  __shared__ float partial[2][kThreads / 32];
  device::cuda::allow_next();
  device::cuda::wait_for_previous();
  const int64_t token = blockIdx.x;
  const TokenRow<Element> row{
      static_cast<const typename Element::Value*>(params.x) + token * params.x_stride,
      params.norm_weight, static_cast<int>(params.cols)};
  float largest = 0.0f;
  float squares = 0.0f;
  const int first = static_cast<int>(threadIdx.x) * kUnit;
  const auto pitch = static_cast<int>(params.pitch);
  float held[kUnits > 0 ? kUnits : 1][kUnit] = {};
  const auto look = [&](const float(&v)[kUnit]) {
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      largest = fmaxf(largest, fabsf(v[i]));
    }
  };
#pragma unroll
  for (int unit = 0; unit < kUnits; ++unit) {
    if (first + unit * kStride < row.cols) {
      row.load(first + unit * kStride, held[unit], squares);
      look(held[unit]);
    }
  }
  if constexpr (kUnits == 0) {
    for (int k = first; k < row.cols; k += kStride) {
      row.load(k, held[0], squares);
      look(held[0]);
    }
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
    squares += __shfl_xor_sync(0xffffffffu, squares, distance);
  }
  if (threadIdx.x % 32 == 0) {
    partial[0][threadIdx.x / 32] = largest;
    partial[1][threadIdx.x / 32] = squares;
  }
  __syncthreads();
  largest = squares = 0.0f;
#pragma unroll
  for (int warp = 0; warp < kThreads / 32; ++warp) {
    largest = fmaxf(largest, partial[0][warp]);
    squares += partial[1][warp];
  }
  if (threadIdx.x == 0) {
    // The reciprocal root mean square is one factor of the whole token.
    const float rms = params.norm_weight == nullptr
                          ? 1.0f
                          : rsqrtf(squares / static_cast<float>(row.cols) + params.norm_eps);
    params.scales[token] = largest / 448.0f * rms;
  }
  const float inverse = largest > 0.0f ? 448.0f / largest : 0.0f;
  std::byte* const codes = params.codes + token * params.pitch;
  const auto store = [&](int k, const float(&v)[kUnit]) {
    *reinterpret_cast<uint2*>(codes + fp8_position(k)) = {four_codes(v, inverse),
                                                          four_codes(v + 4, inverse)};
  };
#pragma unroll
  for (int unit = 0; unit < kUnits; ++unit) {
    if (first + unit * kStride < pitch) {
      store(first + unit * kStride, held[unit]);
    }
  }
  if constexpr (kUnits == 0) {
    for (int k = first; k < pitch; k += kStride) {
      row.load(k, held[0], squares);
      store(k, held[0]);
    }
  }
}

}  // namespace

QuantizeTokensParams tokens_of(const LinearParams& params, const QuantizedTokens& tokens) {
  QuantizeTokensParams out;
  out.x = params.x;
  out.norm_weight = params.norm_weight;
  out.norm_eps = params.norm_eps;
  out.num_tokens = params.num_tokens;
  out.cols = params.packed.type.cols;
  out.x_stride = params.x_stride;
  out.pitch = packed_layout(params.packed).padded_cols;
  out.codes = tokens.codes;
  out.scales = tokens.scales;
  out.activation = params.activation;
  return out;
}

cudaError_t quantize_tokens(const QuantizeTokensParams& params,
                            const device::cuda::LaunchSite& site) {
  const bool is_bf16 = params.activation == DType::kBFloat16;
  const auto kernel = params.pitch <= 2 * kStride
                          ? (is_bf16 ? quantize_kernel<Bf16, 2> : quantize_kernel<Fp16, 2>)
                      : params.pitch <= 8 * kStride
                          ? (is_bf16 ? quantize_kernel<Bf16, 8> : quantize_kernel<Fp16, 8>)
                          : (is_bf16 ? quantize_kernel<Bf16, 0> : quantize_kernel<Fp16, 0>);
  return device::cuda::launch(kernel, dim3(static_cast<unsigned>(params.num_tokens)),
                              dim3(kThreads), 0, site, params);
}

}  // namespace zonda::kernels::cuda
