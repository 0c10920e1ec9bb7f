// The two 16-bit activation types: conversion, pairs, and the m16n8k16 product.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace zonda::kernels::cuda {

// std::bit_cast for the toolkit's pair types, which are not trivially copyable.
template <class To, class From>
__device__ __forceinline__ To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

// Bits that make `128 + u` (bfloat16) or `1024 + u` (float16) of a small integer u, as pairs.
struct Bf16 {
  using Value = __nv_bfloat16;
  using Pair = __nv_bfloat162;
  static constexpr bool kTokenScales = false;  // tokens have no scales of their own
  static constexpr uint32_t kOnes = 0x3f803f80u;
  static constexpr uint32_t kNibbleBias = 0x43004300u;  // 128
  static constexpr float kNibbleShift = 128.0f;

  static __device__ __forceinline__ float to_float(Value value) { return __bfloat162float(value); }
  static __device__ __forceinline__ Value from_float(float value) {
    return __float2bfloat16_rn(value);
  }
  static __device__ __forceinline__ float2 unpack(uint32_t pair) {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
  }
  static __device__ __forceinline__ uint32_t pack(float low, float high) {
    return bits_as<uint32_t>(__floats2bfloat162_rn(low, high));
  }
  static __device__ __forceinline__ uint32_t subtract(uint32_t a, uint32_t b) {
    return bits_as<uint32_t>(__hsub2(bits_as<Pair>(a), bits_as<Pair>(b)));
  }
  static __device__ __forceinline__ uint32_t multiply(uint32_t a, uint32_t b) {
    return bits_as<uint32_t>(__hmul2(bits_as<Pair>(a), bits_as<Pair>(b)));
  }
  // d += a * b: a 16 x 16 row-major, b 16 x 8 column-major, d 16 x 8.
  static __device__ __forceinline__ void mma(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                             uint32_t a3, uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
};

struct Fp16 {
  using Value = __half;
  using Pair = __half2;
  static constexpr bool kTokenScales = false;
  static constexpr uint32_t kOnes = 0x3c003c00u;
  static constexpr uint32_t kNibbleBias = 0x64006400u;  // 1024
  static constexpr float kNibbleShift = 1024.0f;

  static __device__ __forceinline__ float to_float(Value value) { return __half2float(value); }
  static __device__ __forceinline__ Value from_float(float value) { return __float2half_rn(value); }
  static __device__ __forceinline__ float2 unpack(uint32_t pair) {
    return __half22float2(bits_as<Pair>(pair));
  }
  static __device__ __forceinline__ uint32_t pack(float low, float high) {
    return bits_as<uint32_t>(__floats2half2_rn(low, high));
  }
  static __device__ __forceinline__ uint32_t subtract(uint32_t a, uint32_t b) {
    return bits_as<uint32_t>(__hsub2(bits_as<Pair>(a), bits_as<Pair>(b)));
  }
  static __device__ __forceinline__ uint32_t multiply(uint32_t a, uint32_t b) {
    return bits_as<uint32_t>(__hmul2(bits_as<Pair>(a), bits_as<Pair>(b)));
  }
  static __device__ __forceinline__ void mma(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                             uint32_t a3, uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
};

}  // namespace zonda::kernels::cuda
