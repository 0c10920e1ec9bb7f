// The token that a fused decode rotates and appends itself, with the arithmetic of rope_append.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/cuda/attention_math.cuh"
#include "kernels/attention/cuda/decode_device.cuh"

namespace zonda::kernels::cuda {

// 16-bit activations to floats.
__device__ __forceinline__ void unpack_eight(float (&x)[8], const uint4& bits, DType activation) {
  const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 v =
        activation == DType::kBFloat16 ? Bf16Math::floats(words[i]) : Fp16Math::floats(words[i]);
    x[2 * i] = v.x;
    x[2 * i + 1] = v.y;
  }
}

__device__ __forceinline__ uint4 pack_eight(const float (&x)[8], DType dtype) {
  return {activation_pair(x[0], x[1], dtype), activation_pair(x[2], x[3], dtype),
          activation_pair(x[4], x[5], dtype), activation_pair(x[6], x[7], dtype)};
}

// Four floats as e4m3; the cache has no scale, so they saturate.
__device__ __forceinline__ uint32_t fp8_word(const float* x) {
  uint32_t word = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    word |= uint32_t{__nv_cvt_float_to_fp8(x[i], __NV_SATFINITE, __NV_E4M3)} << (8 * i);
  }
  return word;
}

// In shared memory, of one block: turn(), a barrier, take() and rotated_query(), a barrier. `head`
// is a head of the token in qkv or a copy of it.
template <DType kKv, int kHead>
struct NewToken {
  static constexpr int kBytes = KvType<kKv>::kBytes;

  float2 cos_sin[kHead / 2];
  uint4 key[kHead * kBytes / 16];  // as in the cache, zeros beyond head_size
  uint4 value[kHead * kBytes / 16];

  __device__ __forceinline__ void turn(const RopeAppendParams& p, int64_t token, int position) {
    const int half = p.style == RopeStyle::kNone ? 0 : p.rotary_dim / 2;
    if (static_cast<int>(threadIdx.x) < half) {
      const int64_t set = p.frequency_sets == nullptr ? 0 : p.frequency_sets[token];
      const float angle =
          __fmul_rn(static_cast<float>(position), p.inv_freq[set * half + threadIdx.x]);
      float sine;
      float cosine;
      sincosf(angle, &sine, &cosine);
      cos_sin[threadIdx.x] = {cosine * p.attention_factor, sine * p.attention_factor};
    }
  }

  // The elements [element, element + 8) of a head, element a multiple of 8.
  __device__ __forceinline__ void rotated(float (&x)[8], const RopeAppendParams& p,
                                          const char* head, int element) const {
    unpack_eight(x, *reinterpret_cast<const uint4*>(head + element * 2), p.activation);
    if (p.style == RopeStyle::kNone || element >= p.rotary_dim) {
      return;
    }
    if (p.style == RopeStyle::kGptj) {
#pragma unroll
      for (int i = 0; i < 8; i += 2) {
        const float2 turn = cos_sin[(element + i) / 2];
        const float first = fmaf(x[i], turn.x, -(x[i + 1] * turn.y));
        x[i + 1] = fmaf(x[i + 1], turn.x, x[i] * turn.y);
        x[i] = first;
      }
      return;
    }
    const int half = p.rotary_dim / 2;
    const bool first = element < half;
    const int pair = first ? element : element - half;
    float other[8];
    unpack_eight(other, *reinterpret_cast<const uint4*>(head + (first ? element + half : pair) * 2),
                 p.activation);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float2 turn = cos_sin[pair + i];
      x[i] = fmaf(x[i], turn.x, first ? -(other[i] * turn.y) : other[i] * turn.y);
    }
  }

  // Rounded to the activation's type, as rope_append leaves it in qkv.
  __device__ __forceinline__ uint4 rotated_query(const RopeAppendParams& p, const char* head,
                                                 int element) const {
    float x[8];
    rotated(x, p, head, element);
    return pack_eight(x, p.activation);
  }

  // Makes the elements [element, element + 8) of `key` (kind 0) or `value` (kind 1) from the
  // token's `head` of qkv, and with a slot that is not negative writes them to the cache.
  __device__ __forceinline__ void take(const RopeAppendParams& p, const char* head, int kind,
                                       int kv_head, int element, int64_t slot) {
    const PagedKv& kv = p.kv;
    const bool inside = element < kv.head_size;
    float x[8] = {};
    if (inside && kind == 0) {
      rotated(x, p, head, element);
    } else if (inside) {
      unpack_eight(x, *reinterpret_cast<const uint4*>(head + element * 2), p.activation);
    }
    const int64_t block = slot >> log2_of(kv.block_size);
    const int64_t head_index = int64_t{kind} * kv.num_kv_heads + kv_head;
    const int64_t in_block = head_index * kv.block_size + (slot & (kv.block_size - 1));
    char* to = static_cast<char*>(kv.base) +
               (block * kv.block_stride + in_block * kv.head_size + element) * kBytes;
    put((kind == 0 ? key : value), element, x, slot >= 0 && inside ? to : nullptr);
  }

  static __device__ __forceinline__ void put(uint4* chunks, int element, const float (&x)[8],
                                             char* to) {
    char* at = reinterpret_cast<char*>(chunks) + element * kBytes;
    if constexpr (kBytes == 1) {
      const uint2 bits = {fp8_word(x), fp8_word(x + 4)};
      *reinterpret_cast<uint2*>(at) = bits;
      if (to != nullptr) {
        *reinterpret_cast<uint2*>(to) = bits;
      }
    } else {
      const uint4 bits = pack_eight(x, kKv);
      *reinterpret_cast<uint4*>(at) = bits;
      if (to != nullptr) {
        *reinterpret_cast<uint4*>(to) = bits;
      }
    }
  }
};

}  // namespace zonda::kernels::cuda
