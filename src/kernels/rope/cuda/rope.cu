// Rotation and cache append: a block takes one token, its sines and cosines computed once for all
// heads. SPDX-License-Identifier: Apache-2.0
#include "kernels/rope/cuda/rope.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "device/cuda/dependent.cuh"

namespace zonda::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxPairs = 256;

struct Bf16 {
  static __device__ float to_float(uint16_t bits) {
    return __uint_as_float(static_cast<uint32_t>(bits) << 16);
  }
  static __device__ uint16_t from_float(float x) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(x));
  }
};

struct Fp16 {
  static __device__ float to_float(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
  static __device__ uint16_t from_float(float x) { return __half_as_ushort(__float2half_rn(x)); }
};

// kSize values side by side, aligned to their size.
template <int kSize, class T>
struct alignas(kSize * sizeof(T)) Values {
  T at[kSize];
};

// Writes floats to the cache; fp8 saturates, as the cache has no scale.
template <int kSize>
__device__ __forceinline__ void store_cache(void* base, int64_t at, const float (&x)[kSize],
                                            DType dtype) {
  if (dtype == DType::kFloat8E4M3) {
    Values<kSize, uint8_t> v;
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      v.at[i] = __nv_cvt_float_to_fp8(x[i], __NV_SATFINITE, __NV_E4M3);
    }
    *reinterpret_cast<Values<kSize, uint8_t>*>(static_cast<uint8_t*>(base) + at) = v;
    return;
  }
  Values<kSize, uint16_t> v;
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    v.at[i] = dtype == DType::kBFloat16 ? Bf16::from_float(x[i]) : Fp16::from_float(x[i]);
  }
  *reinterpret_cast<Values<kSize, uint16_t>*>(static_cast<uint16_t*>(base) + at) = v;
}

// One token's part of the parameters.
struct Token {
  uint16_t* qkv;
  int64_t cache_at;     // first element of the slot's first key head; -1: none
  int64_t cache_head;   // elements from one head to the next
  int64_t cache_value;  // elements from a key to its value
};

__device__ __forceinline__ Token locate(const RopeAppendParams& p, int64_t token) {
  const PagedKv& kv = p.kv;
  const int64_t slot = p.slots[token];
  const int64_t head = int64_t{kv.block_size} * kv.head_size;
  const int64_t block = slot / kv.block_size;
  return {static_cast<uint16_t*>(p.qkv) + token * p.qkv_stride,
          slot < 0 ? -1 : block * kv.block_stride + (slot - block * kv.block_size) * kv.head_size,
          head, kv.num_kv_heads * head};
}

template <class Activation, int kSize>
__device__ __forceinline__ void load(float (&x)[kSize], const uint16_t* from) {
  const auto v = *reinterpret_cast<const Values<kSize, uint16_t>*>(from);
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    x[i] = Activation::to_float(v.at[i]);
  }
}

template <class Activation, int kSize>
__device__ __forceinline__ void store(uint16_t* to, const float (&x)[kSize]) {
  Values<kSize, uint16_t> v;
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    v.at[i] = Activation::from_float(x[i]);
  }
  *reinterpret_cast<Values<kSize, uint16_t>*>(to) = v;
}

// Rotates kSize pairs from pair `first` of q and k head `head`, and appends them if it is a k head.
template <class Activation, int kSize>
__device__ __forceinline__ void rotate(const RopeAppendParams& p, const Token& token, int head,
                                       int first, const float2 (&cos_sin)[kMaxPairs]) {
  const int head_size = p.kv.head_size;
  const int half = p.rotary_dim / 2;
  const bool neox = p.style == RopeStyle::kNeox;
  const int a_at = neox ? first : 2 * first;
  const int b_at = neox ? first + half : 2 * first + kSize;
  uint16_t* row = token.qkv + int64_t{head} * head_size;
  float a[kSize];
  float b[kSize];
  load<Activation, kSize>(a, row + a_at);
  load<Activation, kSize>(b, row + b_at);
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    const float2 turn = cos_sin[first + i];
    // GPT-J's pairs are neighbours: the first kSize values are in a, the others in b.
    float& x = neox ? a[i] : 2 * i < kSize ? a[2 * i % kSize] : b[2 * i % kSize];
    float& y = neox ? b[i] : 2 * i + 1 < kSize ? a[(2 * i + 1) % kSize] : b[(2 * i + 1) % kSize];
    const float rotated = fmaf(x, turn.x, -(y * turn.y));
    y = fmaf(y, turn.x, x * turn.y);
    x = rotated;
  }
  store<Activation, kSize>(row + a_at, a);
  store<Activation, kSize>(row + b_at, b);
  const int kv_head = head - p.num_heads;
  if (kv_head >= 0 && token.cache_at >= 0) {
    const int64_t at = token.cache_at + kv_head * token.cache_head;
    store_cache<kSize>(p.kv.base, at + a_at, a, p.kv.dtype);
    store_cache<kSize>(p.kv.base, at + b_at, b, p.kv.dtype);
  }
}

// Copies values of k or v head `head` from element `first` to the cache as they are.
template <class Activation, int kSize>
__device__ __forceinline__ void append(const RopeAppendParams& p, const Token& token, int head,
                                       int first) {
  float x[kSize];
  load<Activation, kSize>(x, token.qkv + int64_t{head} * p.kv.head_size + first);
  const int kv_head = head - p.num_heads;
  const int64_t at =
      kv_head < p.kv.num_kv_heads
          ? token.cache_at + kv_head * token.cache_head
          : token.cache_at + token.cache_value + (kv_head - p.kv.num_kv_heads) * token.cache_head;
  store_cache<kSize>(p.kv.base, at + first, x, p.kv.dtype);
}

// kSize divides head_size and rotary_dim / 2, and qkv_stride and the block stride.
template <class Activation, int kSize>
__global__ void __launch_bounds__(kThreads)
    rope_append_kernel(const __grid_constant__ RopeAppendParams p) {
  __shared__ float2 cos_sin[kMaxPairs];
  device::cuda::wait_for_previous();
  device::cuda::allow_next();
  const int64_t index = blockIdx.x;
  const int half = p.style == RopeStyle::kNone ? 0 : p.rotary_dim / 2;
  if (threadIdx.x < half) {
    const int64_t set = p.frequency_sets == nullptr ? 0 : p.frequency_sets[index];
    // One rounding of the product, as the reference has it.
    const float angle =
        __fmul_rn(static_cast<float>(p.positions[index]), p.inv_freq[set * half + threadIdx.x]);
    float sine;
    float cosine;
    sincosf(angle, &sine, &cosine);
    cos_sin[threadIdx.x] = {cosine * p.attention_factor, sine * p.attention_factor};
  }
  const Token token = locate(p, index);
  __syncthreads();
  const int rotated_heads = p.num_heads + p.kv.num_kv_heads;
  const int pairs = half / kSize;
  for (int i = threadIdx.x; i < rotated_heads * pairs; i += kThreads) {
    rotate<Activation, kSize>(p, token, i / pairs, i % pairs * kSize, cos_sin);
  }
  if (token.cache_at < 0) {
    return;
  }
  const int rest = (p.kv.head_size - 2 * half) / kSize;  // of a k head, not rotated
  for (int i = threadIdx.x; i < p.kv.num_kv_heads * rest; i += kThreads) {
    append<Activation, kSize>(p, token, p.num_heads + i / rest, 2 * half + i % rest * kSize);
  }
  const int chunks = p.kv.head_size / kSize;
  for (int i = threadIdx.x; i < p.kv.num_kv_heads * chunks; i += kThreads) {
    append<Activation, kSize>(p, token, rotated_heads + i / chunks, i % chunks * kSize);
  }
}

template <class Activation>
cudaError_t launch_rope(const RopeAppendParams& p, const device::cuda::LaunchSite& site) {
  constexpr int kWide = 8;
  const int half = p.style == RopeStyle::kNone ? 0 : p.rotary_dim / 2;
  const bool wide = p.kv.head_size % kWide == 0 && half % kWide == 0 && p.qkv_stride % kWide == 0 &&
                    p.kv.block_stride % kWide == 0;
  const auto kernel =
      wide ? rope_append_kernel<Activation, kWide> : rope_append_kernel<Activation, 1>;
  return device::cuda::launch(kernel, dim3(static_cast<unsigned>(p.num_tokens)), dim3(kThreads), 0,
                              site, p);
}

}  // namespace

cudaError_t rope_append(const RopeAppendParams& params, const device::cuda::LaunchSite& site) {
  const PagedKv& kv = params.kv;
  const int64_t width = int64_t{params.num_heads + 2 * kv.num_kv_heads} * kv.head_size;
  const bool rotary = params.style == RopeStyle::kNone ||
                      (params.rotary_dim % 2 == 0 && params.rotary_dim <= kv.head_size &&
                       params.rotary_dim / 2 <= kMaxPairs);
  const bool cache =
      kv.dtype == DType::kBFloat16 || kv.dtype == DType::kFloat16 || kv.dtype == DType::kFloat8E4M3;
  if (width <= 0 || params.qkv_stride < width || !rotary || !cache || kv.block_size <= 0) {
    return cudaErrorInvalidValue;
  }
  if (params.num_tokens == 0) {
    return cudaSuccess;
  }
  switch (params.activation) {
    case DType::kBFloat16:
      return launch_rope<Bf16>(params, site);
    case DType::kFloat16:
      return launch_rope<Fp16>(params, site);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace zonda::kernels::cuda
