// Device helpers that decode and prefill attention share: tensor core products of 16-bit values,
// number conversions, scores and addresses of the paged cache. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "kernels/attention/cuda/attention.h"

namespace zonda::kernels::cuda {

constexpr float kLog2e = 1.4426950408889634f;
constexpr float kMinusInfinity = -__builtin_huge_valf();

// What the tensor cores multiply. A pair holds its first value in the low half.
struct Bf16Math {
  static constexpr DType kDType = DType::kBFloat16;
  static __device__ __forceinline__ uint32_t pair(float first, float second) {
    uint32_t bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
    return bits;
  }
  static __device__ __forceinline__ float2 floats(uint32_t bits) {
    return {__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u)};
  }
  // d += a * b for a 16 x 16 row-major a and a 16 x 8 b.
  static __device__ __forceinline__ void mma(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                             uint32_t a3, uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
};

struct Fp16Math {
  static constexpr DType kDType = DType::kFloat16;
  static __device__ __forceinline__ uint32_t pair(float first, float second) {
    uint32_t bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
    return bits;
  }
  static __device__ __forceinline__ float2 floats(uint32_t bits) {
    return __half22float2(*reinterpret_cast<const __half2*>(&bits));
  }
  static __device__ __forceinline__ void mma(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                             uint32_t a3, uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
};

// The cache's element type and the arithmetic it is multiplied in. fp8 is exact in fp16.
template <DType kKv>
struct KvType {
  using Math = Fp16Math;
  static constexpr int kBytes = kKv == DType::kFloat8E4M3 ? 1 : 2;
};
template <>
struct KvType<DType::kBFloat16> {
  using Math = Bf16Math;
  static constexpr int kBytes = 2;
};

// Two e4m3 bytes as a pair of fp16, exactly.
__device__ __forceinline__ uint32_t fp16_pair_of_fp8(uint32_t bytes) {
  const __half2_raw pair =
      __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(bytes & 0xffffu), __NV_E4M3);
  return uint32_t{pair.x} | (uint32_t{pair.y} << 16);
}

// A pair of activations as a pair of Math; bf16 beyond fp16's range saturates.
template <class Math>
__device__ __forceinline__ uint32_t pair_of_activations(uint32_t bits, DType activation) {
  if (activation == Math::kDType) {
    return bits;
  }
  if constexpr (Math::kDType == DType::kFloat16) {
    const float2 v = Bf16Math::floats(bits);
    return Fp16Math::pair(fminf(fmaxf(v.x, -65504.0f), 65504.0f),
                          fminf(fmaxf(v.y, -65504.0f), 65504.0f));
  } else {
    const float2 v = Fp16Math::floats(bits);
    return Bf16Math::pair(v.x, v.y);
  }
}

__device__ __forceinline__ uint32_t activation_pair(float first, float second, DType activation) {
  return activation == DType::kBFloat16 ? Bf16Math::pair(first, second)
                                        : Fp16Math::pair(first, second);
}

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Score of a dot product in units of log2: exp2 of differences gives the softmax weights.
// `scale`: params.scale * log2(e) without a cap, params.scale / cap with one.
struct ScoreScale {
  float scale;
  float cap;  // soft_cap * log2(e); 0: none

  __device__ __forceinline__ explicit ScoreScale(const AttentionParams& p)
      : scale(p.soft_cap > 0.0f ? p.scale / p.soft_cap : p.scale * kLog2e),
        cap(p.soft_cap > 0.0f ? p.soft_cap * kLog2e : 0.0f) {}
  __device__ __forceinline__ float operator()(float dot) const {
    return cap == 0.0f ? dot * scale : capped(dot);
  }
  // With a cap: tanh s = 1 - 2 / (e^2s + 1).
  __device__ __forceinline__ float capped(float dot) const {
    return cap * (1.0f - __fdividef(2.0f, exp2_fast(dot * scale * (2.0f * kLog2e)) + 1.0f));
  }
};

// Addresses of one KV head of a sequence.
struct KvHead {
  const char* base;      // of the head's keys in block 0
  int64_t block_bytes;   // from one block to the next
  int64_t value_offset;  // bytes from a key to the value of its slot
  const int32_t* table;
  int32_t block_shift;
  int32_t row_bytes;

  template <int kBytes>
  static __device__ __forceinline__ KvHead make(const AttentionParams& p, int sequence,
                                                int kv_head) {
    const int64_t head_bytes = int64_t{p.kv.block_size} * p.kv.head_size * kBytes;
    return {static_cast<const char*>(p.kv.base) + kv_head * head_bytes,
            p.kv.block_stride * kBytes,
            p.kv.num_kv_heads * head_bytes,
            p.block_tables + sequence * p.table_stride,
            31 - __clz(p.kv.block_size),
            p.kv.head_size * kBytes};
  }
  // First byte of the key of `position`.
  __device__ __forceinline__ const char* key(int32_t position) const {
    const int32_t slot = position & ((1 << block_shift) - 1);
    return base + table[position >> block_shift] * block_bytes + slot * row_bytes;
  }
};

}  // namespace zonda::kernels::cuda
