// One warp's part of decode attention: 16 keys in shared memory against up to eight query heads on
// the tensor cores. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/cuda/attention_math.cuh"
#include "kernels/attention/cuda/decode_device.cuh"
#include "kernels/attention/cuda/decode_split.h"

namespace zonda::kernels::cuda {

// A tile in shared memory: 16 keys, then their 16 values, rows of kRowBytes. The 16-byte chunk `at`
// of row r is at place at ^ (r % 8), so that the 8 rows of a matrix lie in different banks.
template <DType kKv, int kHead>
struct DecodeTileShape {
  static constexpr int kBytes = KvType<kKv>::kBytes;
  static constexpr int kRowBytes = kHead * kBytes;
  static constexpr int kRowChunks = kRowBytes / 16;
  static constexpr int kValues = 16 * kRowBytes;  // from the keys to the values
  static constexpr int kTileBytes = 2 * kValues;
  static constexpr int kQueryChunks = kHead / 32;
  static_assert(kRowChunks >= 8);

  static __device__ __forceinline__ int place(int row, int chunk) {
    return row * kRowBytes + ((chunk ^ (row & 7)) << 4);
  }
};

template <int kTiles>
__device__ __forceinline__ void scale_scores(float (&s)[kTiles][4], const ScoreScale& scale) {
  if (scale.cap == 0.0f) {
#pragma unroll
    for (int i = 0; i < 4 * kTiles; ++i) {
      s[i / 4][i % 4] *= scale.scale;
    }
  } else {
#pragma unroll
    for (int i = 0; i < 4 * kTiles; ++i) {
      s[i / 4][i % 4] = scale.capped(s[i / 4][i % 4]);
    }
  }
}

// Lane l is (g, c) = (l / 4, l % 4).
//   scores^T [16 keys, 8 heads] = K [16 keys, e] * q^T [e, 8 heads]
//   out^T [e, 8 heads] += V^T [e, 16 keys] * p^T [16 keys, 8 heads]
// fp8: a 16-bit item of a matrix is two neighbouring elements. Elements 4c to 4c + 3 of 16 take the
// places 2c, 2c + 1, 2c + 8 and 2c + 9 of a product over e; rows g and g + 8 of an out tile are the
// elements 2g and 2g + 1.
template <DType kKv, int kHead>
struct DecodeWarp {
  using Shape = DecodeTileShape<kKv, kHead>;
  using Math = typename KvType<kKv>::Math;
  static constexpr bool kFp8 = Shape::kBytes == 1;

  float out[kHead / 16][4];  // tile i, rows g, g, g + 8, g + 8 of heads 2c, 2c + 1, 2c, 2c + 1
  float max[2];              // of heads 2c and 2c + 1
  float sum[2];              // this lane's keys only, until finish()

  __device__ __forceinline__ void start() {
#pragma unroll
    for (int i = 0; i < kHead / 16; ++i) {
      out[i][0] = out[i][1] = out[i][2] = out[i][3] = 0.0f;
    }
    max[0] = max[1] = kMinusInfinity;
    sum[0] = sum[1] = 0.0f;
  }

  // The word of `queries`, [kQueryChunks][32 lanes][4], that holds elements 2 * pair and 2 * pair +
  // 1 of the eight from 8 * eight on of query head g.
  static __device__ __forceinline__ int query_word(int g, int eight, int pair) {
    const int chunk = eight / 4;
    const int c = kFp8 ? eight % 2 * 2 + pair / 2 : pair;
    const int word = kFp8 ? eight / 2 % 2 * 2 + pair % 2 : eight % 4;
    return (chunk * 32 + g * 4 + c) * 4 + word;
  }

  // s: scores of keys g, g, g + 8, g + 8 of each tile for heads 2c, 2c + 1, 2c, 2c + 1.
  template <int kTiles>
  static __device__ __forceinline__ void multiply_keys(float (&s)[kTiles][4],
                                                       const uint32_t (&tiles)[kTiles],
                                                       const uint4* queries, int lane) {
    float odd[kTiles][4];
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      s[t][0] = s[t][1] = s[t][2] = s[t][3] = 0.0f;
      odd[t][0] = odd[t][1] = odd[t][2] = odd[t][3] = 0.0f;
    }
    const uint32_t row = (lane & 15) * Shape::kRowBytes;
    const uint32_t first = ((lane >> 4) ^ (lane & 7)) << 4;
#pragma unroll
    for (int chunk = 0; chunk < Shape::kQueryChunks; ++chunk) {
      const uint4 q = queries[chunk * 32 + lane];
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        uint32_t k[4];
        if constexpr (kFp8) {
          load_matrices(k, tiles[t] + row + (first ^ (chunk << 5)));
          Math::mma(s[t], fp16_pair_of_fp8(k[0]), fp16_pair_of_fp8(k[1]),
                    fp16_pair_of_fp8(k[0] >> 16), fp16_pair_of_fp8(k[1] >> 16), q.x, q.y);
          Math::mma(odd[t], fp16_pair_of_fp8(k[2]), fp16_pair_of_fp8(k[3]),
                    fp16_pair_of_fp8(k[2] >> 16), fp16_pair_of_fp8(k[3] >> 16), q.z, q.w);
        } else {
          load_matrices(k, tiles[t] + row + (first ^ (chunk << 6)));
          Math::mma(s[t], k[0], k[1], k[2], k[3], q.x, q.y);
          load_matrices(k, tiles[t] + row + (first ^ (chunk << 6 | 32)));
          Math::mma(odd[t], k[0], k[1], k[2], k[3], q.z, q.w);
        }
      }
    }
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        s[t][i] += odd[t][i];
      }
    }
  }

  // Turns scores into weights relative to the new maximum, and what was summed so far with it.
  template <int kTiles>
  __device__ __forceinline__ void rescale(float (&s)[kTiles][4]) {
    float shrink[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float most = max[h];
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        most = fmaxf(most, fmaxf(s[t][h], s[t][h + 2]));
      }
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 4));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 8));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 16));
      const float origin = most == kMinusInfinity ? 0.0f : most;
      shrink[h] = exp2_fast(max[h] - origin);
      max[h] = most;
      sum[h] *= shrink[h];
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        s[t][h] = exp2_fast(s[t][h] - origin);
        s[t][h + 2] = exp2_fast(s[t][h + 2] - origin);
        sum[h] += s[t][h] + s[t][h + 2];
      }
    }
    if (__any_sync(~0u, shrink[0] != 1.0f || shrink[1] != 1.0f)) {
#pragma unroll
      for (int i = 0; i < kHead / 16; ++i) {
        out[i][0] *= shrink[0];
        out[i][1] *= shrink[1];
        out[i][2] *= shrink[0];
        out[i][3] *= shrink[1];
      }
    }
  }

  // 8 x 8 transpose: from lanes that hold a key's heads to lanes that hold a head's keys.
  static __device__ __forceinline__ uint32_t transposed(uint32_t pair) {
    uint32_t result;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(pair));
    return result;
  }
  // Two keys' element 2g in the low half and 2g + 1 in the high one, from each key's elements.
  static __device__ __forceinline__ uint32_t by_element(uint32_t v) {
    return __byte_perm(v, 0, 0x3120);
  }

  // `weights`: what rescale() left in s.
  __device__ __forceinline__ void multiply_values(const float (&weights)[4], uint32_t values,
                                                  int lane) {
    const uint32_t p0 = transposed(Math::pair(weights[0], weights[1]));
    const uint32_t p1 = transposed(Math::pair(weights[2], weights[3]));
    uint32_t v[4];
    if constexpr (kFp8) {
      const uint32_t row = values + (lane & 15) * Shape::kRowBytes;
      const uint32_t first = ((lane >> 4) ^ (lane & 7)) << 4;
#pragma unroll
      for (int i = 0; i < kHead / 16; i += 2) {
        load_transposed(v, row + (first ^ (i << 4)));
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const uint32_t low = by_element(v[2 * j]);
          const uint32_t high = by_element(v[2 * j + 1]);
          Math::mma(out[i + j], fp16_pair_of_fp8(low), fp16_pair_of_fp8(low >> 16),
                    fp16_pair_of_fp8(high), fp16_pair_of_fp8(high >> 16), p0, p1);
        }
      }
    } else {
      const uint32_t row = values + ((lane & 7) + (lane >> 4) * 8) * Shape::kRowBytes;
      const uint32_t first = ((lane >> 3 & 1) ^ (lane & 7)) << 4;
#pragma unroll
      for (int i = 0; i < kHead / 16; ++i) {
        load_transposed(v, row + (first ^ (i << 5)));
        Math::mma(out[i], v[0], v[1], v[2], v[3], p0, p1);
      }
    }
  }

  __device__ __forceinline__ void finish() {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      sum[h] += __shfl_xor_sync(~0u, sum[h], 4);
      sum[h] += __shfl_xor_sync(~0u, sum[h], 8);
      sum[h] += __shfl_xor_sync(~0u, sum[h], 16);
    }
  }

  // Where store() puts element e of a head: the lanes of a warp write to different banks.
  static __device__ __forceinline__ int stored_at(int head, int e) {
    return head * kHead + (e ^ ((head >> 1 & 3) << 3));
  }
  __device__ __forceinline__ void store(float* rows, int g, int c, int heads) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int head = 2 * c + h;
      if (head < heads) {
#pragma unroll
        for (int i = 0; i < kHead / 16; ++i) {
          if constexpr (kFp8) {
            *reinterpret_cast<float2*>(rows + stored_at(head, 16 * i + 2 * g)) = {out[i][h],
                                                                                  out[i][h + 2]};
          } else {
            rows[stored_at(head, 16 * i + g)] = out[i][h];
            rows[stored_at(head, 16 * i + 8 + g)] = out[i][h + 2];
          }
        }
      }
    }
  }
};

}  // namespace zonda::kernels::cuda
