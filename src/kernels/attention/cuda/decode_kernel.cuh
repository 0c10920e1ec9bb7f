// Decode attention: a block takes one KV head of a sequence and one share of its keys; the last
// block to arrive joins the shares. Keys and values go from memory to the registers that the tensor
// cores read. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/cuda/dependent.cuh"
#include "kernels/attention/cuda/attention_launch.h"
#include "kernels/attention/cuda/attention_math.cuh"
#include "kernels/attention/cuda/new_token.cuh"

namespace zonda::kernels::cuda {

// Lane l of a warp is (g, c) = (l / 4, l % 4). Keys and head elements are permuted inside the
// products, so that each lane loads 16 consecutive bytes:
//   scores^T [16 keys, 8 heads] = K [16 keys, e] * q^T [e, 8 heads]: lane (g, c) holds bytes
//     [64 j + 16 c, + 16) of the keys g and g + 8 and of query head g.
//   out^T [e, 8 heads] += V^T [e, 16 keys] * p^T [16 keys, 8 heads]: lane (g, c) holds bytes
//     [128 j + 16 g, + 16) of the values of keys 2c, 2c + 1, 2c + 8 and 2c + 9.
// kHead: head_size, or with !kExact at least head_size; the elements beyond head_size are zeros.
template <DType kKv, int kHead, bool kExact>
struct DecodeWarp {
  using Math = typename KvType<kKv>::Math;
  static constexpr int kBytes = KvType<kKv>::kBytes;
  static constexpr int kPerChunk = 16 / kBytes;
  static constexpr int kKeyChunks = kHead * kBytes / 64;
  static constexpr int kValueChunks = kHead * kBytes / 128;
  static constexpr int kQueryChunks = kHead / 32;

  uint32_t q;                // shared memory: this lane's part of the first query chunk
  float out[kHead / 16][4];  // row tile i: elements d, d, d + 1, d + 1 of heads 2c, 2c + 1, ...
  float max[2];              // of heads 2c and 2c + 1
  float sum[2];              // this lane's keys only, until finish()
  uint4 k[2][kKeyChunks];
  uint4 v[4][kValueChunks];

  // First of the eight elements of a query head that are this lane's operands of two steps.
  static __device__ __forceinline__ int query_element(int chunk, int c) {
    return 32 * (2 / kBytes) * (chunk / (kPerChunk / 8)) + kPerChunk * c +
           8 * (chunk % (kPerChunk / 8));
  }
  static __device__ __forceinline__ uint4 query_chunk(const uint4& bits, DType activation) {
    return {pair_of_activations<Math>(bits.x, activation),
            pair_of_activations<Math>(bits.y, activation),
            pair_of_activations<Math>(bits.z, activation),
            pair_of_activations<Math>(bits.w, activation)};
  }

  __device__ __forceinline__ void start(const uint4* queries) {
    q = static_cast<uint32_t>(__cvta_generic_to_shared(queries));
#pragma unroll
    for (int i = 0; i < kHead / 16; ++i) {
      out[i][0] = out[i][1] = out[i][2] = out[i][3] = 0.0f;
    }
    max[0] = max[1] = kMinusInfinity;
    sum[0] = sum[1] = 0.0f;
  }

  // `half`: address of the first key of each half of the tile. Keys outside of [begin, end) are
  // zeros.
  __device__ __forceinline__ void load_keys(const char* const (&half)[2], const KvHead& kv, int g,
                                            int c, int first, int begin, int end) {
    const int row_bytes = kExact ? kHead * kBytes : kv.row_bytes;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int key = first + 8 * r + g;
      const bool seen = key >= begin && key < end;
#pragma unroll
      for (int j = 0; j < kKeyChunks; ++j) {
        k[r][j] = {0, 0, 0, 0};
        if (seen) {
          k[r][j] = load_chunk<kExact>(half[r] + g * row_bytes, 64 * j + 16 * c, row_bytes);
        }
      }
    }
  }
  __device__ __forceinline__ void load_values(const char* const (&half)[2], const KvHead& kv, int g,
                                              int c, int first, int begin, int end) {
    const int row_bytes = kExact ? kHead * kBytes : kv.row_bytes;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int in_half = 2 * c + r % 2;
      const int key = first + 8 * (r / 2) + in_half;
      const bool seen = key >= begin && key < end;
#pragma unroll
      for (int j = 0; j < kValueChunks; ++j) {
        v[r][j] = {0, 0, 0, 0};
        if (seen) {
          v[r][j] = load_chunk<kExact>(half[r / 2] + kv.value_offset + in_half * row_bytes,
                                       128 * j + 16 * g, row_bytes);
        }
      }
    }
  }

  // Puts a key and its value that are not in the cache yet at row `row` of the tile.
  __device__ __forceinline__ void place_key(const uint4* key, int g, int c, int row) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (row == 8 * r + g) {
#pragma unroll
        for (int j = 0; j < kKeyChunks; ++j) {
          k[r][j] = key[4 * j + c];
        }
      }
    }
  }
  __device__ __forceinline__ void place_value(const uint4* value, int g, int c, int row) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      if (row == 8 * (r / 2) + 2 * c + r % 2) {
#pragma unroll
        for (int j = 0; j < kValueChunks; ++j) {
          v[r][j] = value[8 * j + g];
        }
      }
    }
  }

  static __device__ __forceinline__ uint32_t word(const uint4& chunk, int i) {
    return i == 0 ? chunk.x : i == 1 ? chunk.y : i == 2 ? chunk.z : chunk.w;
  }

  // s: scores of keys g, g, g + 8, g + 8 for heads 2c, 2c + 1, 2c, 2c + 1.
  __device__ __forceinline__ void multiply_keys(float (&s)[4]) const {
    s[0] = s[1] = s[2] = s[3] = 0.0f;
#pragma unroll
    for (int chunk = 0; chunk < kQueryChunks; ++chunk) {
      // Volatile: the queries shall not be kept in registers.
      uint4 b;
      asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(b.x), "=r"(b.y), "=r"(b.z), "=r"(b.w)
                   : "r"(q + chunk * 512)
                   : "memory");
      const uint4& low = k[0][chunk / (kPerChunk / 8)];
      const uint4& high = k[1][chunk / (kPerChunk / 8)];
      if constexpr (kBytes == 1) {
        const int i = chunk % 2 * 2;
        multiply_fp8(s, word(low, i), word(high, i), b.x, b.y);
        multiply_fp8(s, word(low, i + 1), word(high, i + 1), b.z, b.w);
      } else {
        Math::mma(s, low.x, high.x, low.y, high.y, b.x, b.y);
        Math::mma(s, low.z, high.z, low.w, high.w, b.z, b.w);
      }
    }
  }
  static __device__ __forceinline__ void multiply_fp8(float (&s)[4], uint32_t low, uint32_t high,
                                                      uint32_t b0, uint32_t b1) {
    Math::mma(s, fp16_pair_of_fp8(low), fp16_pair_of_fp8(high), fp16_pair_of_fp8(low >> 16),
              fp16_pair_of_fp8(high >> 16), b0, b1);
  }

  // The same element of two keys, side by side.
  static __device__ __forceinline__ uint32_t lows(uint32_t a, uint32_t b) {
    return __byte_perm(a, b, 0x5410);
  }
  static __device__ __forceinline__ uint32_t highs(uint32_t a, uint32_t b) {
    return __byte_perm(a, b, 0x7632);
  }

  __device__ __forceinline__ void add_products(int tile, uint32_t v0, uint32_t v1, uint32_t v2,
                                               uint32_t v3, uint32_t p0, uint32_t p1) {
    Math::mma(out[tile], lows(v0, v1), highs(v0, v1), lows(v2, v3), highs(v2, v3), p0, p1);
  }

  __device__ __forceinline__ void multiply_values(uint32_t p0, uint32_t p1) {
#pragma unroll
    for (int j = 0; j < kValueChunks; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t v0 = word(v[0][j], i);
        const uint32_t v1 = word(v[1][j], i);
        const uint32_t v2 = word(v[2][j], i);
        const uint32_t v3 = word(v[3][j], i);
        if constexpr (kBytes == 1) {
          add_products(8 * j + 2 * i, fp16_pair_of_fp8(v0), fp16_pair_of_fp8(v1),
                       fp16_pair_of_fp8(v2), fp16_pair_of_fp8(v3), p0, p1);
          add_products(8 * j + 2 * i + 1, fp16_pair_of_fp8(v0 >> 16), fp16_pair_of_fp8(v1 >> 16),
                       fp16_pair_of_fp8(v2 >> 16), fp16_pair_of_fp8(v3 >> 16), p0, p1);
        } else {
          add_products(4 * j + i, v0, v1, v2, v3, p0, p1);
        }
      }
    }
  }

  // Turns scores into weights relative to the new maximum, and what was summed so far with it.
  __device__ __forceinline__ void rescale(float (&s)[4]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float tile_max = fmaxf(s[h], s[h + 2]);
      tile_max = fmaxf(tile_max, __shfl_xor_sync(~0u, tile_max, 4));
      tile_max = fmaxf(tile_max, __shfl_xor_sync(~0u, tile_max, 8));
      tile_max = fmaxf(tile_max, __shfl_xor_sync(~0u, tile_max, 16));
      const float new_max = fmaxf(max[h], tile_max);
      const float origin = new_max == kMinusInfinity ? 0.0f : new_max;
      const float shrink = exp2_fast(max[h] - origin);
      max[h] = new_max;
      s[h] = exp2_fast(s[h] - origin);
      s[h + 2] = exp2_fast(s[h + 2] - origin);
      sum[h] = fmaf(sum[h], shrink, s[h] + s[h + 2]);
#pragma unroll
      for (int i = 0; i < kHead / 16; ++i) {
        out[i][h] *= shrink;
        out[i][h + 2] *= shrink;
      }
    }
  }

  // 8 x 8 transpose: from lanes that hold a key's heads to lanes that hold a head's keys.
  static __device__ __forceinline__ uint32_t transposed(uint32_t pair) {
    uint32_t result;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(pair));
    return result;
  }

  __device__ __forceinline__ void finish() {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      sum[h] += __shfl_xor_sync(~0u, sum[h], 4);
      sum[h] += __shfl_xor_sync(~0u, sum[h], 8);
      sum[h] += __shfl_xor_sync(~0u, sum[h], 16);
    }
  }

  // Writes out to rows [head][kHead] of shared memory.
  __device__ __forceinline__ void store(float* rows, int g, int c, int heads) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (2 * c + h < heads) {
#pragma unroll
        for (int i = 0; i < kHead / 16; i += 2) {
          const int chunk = i / (kPerChunk / 2);
          const int d = chunk * 8 * kPerChunk + g * kPerChunk + i % (kPerChunk / 2) * 2;
          *reinterpret_cast<float4*>(rows + (2 * c + h) * kHead + d) = {
              out[i][h], out[i][h + 2], out[i + 1][h], out[i + 1][h + 2]};
        }
      }
    }
  }
};

// Shares of one (sequence, group tile) in the workspace.
struct DecodeShares {
  float* out;       // [shares, split.heads, head_size]
  float2* max_sum;  // [shares, kDecodeHeads]
};

__device__ __forceinline__ DecodeShares decode_shares(const AttentionParams& p,
                                                      const DecodeSplit& split, int sequence,
                                                      int row) {
  const int64_t rows = int64_t{p.num_sequences} * gridDim.y;
  const int64_t index = int64_t{sequence} * gridDim.y + row;
  float2* max_sum = reinterpret_cast<float2*>(p.workspace);
  float* out = reinterpret_cast<float*>(max_sum + rows * split.shares * kDecodeHeads);
  return {out + index * split.shares * split.heads * p.kv.head_size,
          max_sum + index * split.shares * kDecodeHeads};
}

__device__ __forceinline__ void store_four(void* out, int64_t at, float4 x, DType activation) {
  const uint2 bits = {activation_pair(x.x, x.y, activation), activation_pair(x.z, x.w, activation)};
  *reinterpret_cast<uint2*>(static_cast<char*>(out) + at * 2) = bits;
}

__device__ __forceinline__ void add_scaled(float4& sum, const float4& x, float scale) {
  sum.x = fmaf(x.x, scale, sum.x);
  sum.y = fmaf(x.y, scale, sum.y);
  sum.z = fmaf(x.z, scale, sum.z);
  sum.w = fmaf(x.w, scale, sum.w);
}

__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    x = fmaxf(x, __shfl_xor_sync(~0u, x, mask));
  }
  return x;
}
__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    x += __shfl_xor_sync(~0u, x, mask);
  }
  return x;
}

// Joins `used` shares in order, called by a whole block. `share_size`: floats from one share's out
// to the next. `weights`: shared, [kMaxDecodeShares, kDecodeHeads].
__device__ __forceinline__ void join_shares(const AttentionParams& p, const DecodeShares& shares,
                                            int64_t share_size, int used, int heads, int64_t out_at,
                                            float* weights) {
  const int head_size = p.kv.head_size;
  static_assert(kMaxDecodeShares == 64);
  const int lane = threadIdx.x % 32;
  for (int head = threadIdx.x / 32; head < heads; head += kDecodeWarps) {
    float2 part[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int s = lane + 32 * i;
      part[i] = s < used ? __ldcg(&shares.max_sum[s * kDecodeHeads + head])
                         : float2{kMinusInfinity, 0.0f};
    }
    const float max = warp_max(fmaxf(part[0].x, part[1].x));
    const float weight[2] = {exp2_fast(part[0].x - max), exp2_fast(part[1].x - max)};
    const float sum = warp_sum(fmaf(part[0].y, weight[0], part[1].y * weight[1]));
    const float inverse = 1.0f / sum;
    weights[lane * kDecodeHeads + head] = weight[0] * inverse;
    weights[(lane + 32) * kDecodeHeads + head] = weight[1] * inverse;
  }
  __syncthreads();
  const int quads = head_size / 4;
  for (int i = threadIdx.x; i < heads * quads; i += kDecodeThreads) {
    const int head = i / quads;
    float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 8
    for (int s = 0; s < used; ++s) {
      const float* row = shares.out + s * share_size;
      add_scaled(sum, __ldcg(reinterpret_cast<const float4*>(row) + i),
                 weights[s * kDecodeHeads + head]);
    }
    store_four(p.out, out_at + i * 4, sum, p.activation);
  }
}

// grid: [shares, kv heads * group tiles, sequences]. kFused: q is not rotated yet and the new key
// and value are still in rope.qkv; otherwise rope is not used.
template <DType kKv, int kHead, bool kExact, bool kFused>
__global__ void __launch_bounds__(kDecodeThreads, kHead <= 128 ? 4 : 2)
    decode_kernel(const __grid_constant__ AttentionParams p,
                  const __grid_constant__ DecodeSplit split,
                  const __grid_constant__ RopeAppendParams rope) {
  using Warp = DecodeWarp<kKv, kHead, kExact>;
  __shared__ uint4 queries[Warp::kQueryChunks][32];
  __shared__ float rows[kDecodeWarps][kDecodeHeads * kHead];
  __shared__ float2 row_max_sum[kDecodeWarps][kDecodeHeads];
  __shared__ float weights[kMaxDecodeShares * kDecodeHeads];
  __shared__ bool is_last;
  __shared__ NewToken<kKv, kHead> fresh;  // kFused only

  device::cuda::wait_for_previous();
  const int sequence = blockIdx.z;
  if (p.num_tokens[sequence] == 0) {
    return;
  }
  const int end = p.start_position[sequence] + 1;
  const int begin = p.window > 0 && end > p.window ? end - p.window : 0;
  const DecodeShare share = decode_share(split, begin, end, blockIdx.x);
  if (share.first_tile >= share.last_tile) {
    return;
  }
  const int kv_head = blockIdx.y / split.group_tiles;
  const int group = p.num_heads / p.kv.num_kv_heads;
  const int first_in_group = blockIdx.y % split.group_tiles * kDecodeHeads;
  const int heads = min(kDecodeHeads, group - first_in_group);
  const int first_head = kv_head * group + first_in_group;
  const int64_t token = p.token_begin[sequence];

  const int warp = threadIdx.x / 32;
  const int g = threadIdx.x % 32 / 4;
  const int c = threadIdx.x % 4;
  const KvHead kv = KvHead::make<Warp::kBytes>(p, sequence, kv_head);
  const int first = share.first_tile * kDecodeTile + warp * 16;
  const int stop = min(end, share.last_tile * kDecodeTile);
  const int stored = kFused ? min(end - 1, stop) : stop;  // keys before it are in the cache
  const char* half[2];
  const char* next_half[2];
  const auto locate = [&](const char*(&to)[2], int at) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int key = at + 8 * r;
      // Blocks of which no key is seen may be absent from the table.
      to[r] = key < stored && key + 8 > begin ? kv.key(key) : kv.base;
    }
  };

  Warp state;
  locate(half, first);
  state.load_keys(half, kv, g, c, first, begin, stored);
  state.load_values(half, kv, g, c, first, begin, stored);
  const char* q_token = static_cast<const char*>(p.q) + token * p.q_stride * 2;
  if constexpr (kFused) {
    fresh.turn(rope, token, end - 1);
    __syncthreads();
    if (stop == end) {
      fresh.take(rope, q_token, token, kv_head, first_in_group == 0);
    }
  }
  for (int chunk = warp; chunk < Warp::kQueryChunks; chunk += kDecodeWarps) {
    const int element = Warp::query_element(chunk, c);
    uint4 bits = {0, 0, 0, 0};
    if (g < heads && element < p.kv.head_size) {
      const char* head = q_token + int64_t{first_head + g} * p.kv.head_size * 2;
      if constexpr (kFused) {
        bits = fresh.rotated_query(rope, head, element);
      } else {
        bits = *reinterpret_cast<const uint4*>(head + element * 2);
      }
    }
    queries[chunk][threadIdx.x % 32] = Warp::query_chunk(bits, p.activation);
  }
  __syncthreads();
  state.start(&queries[0][threadIdx.x % 32]);
  const ScoreScale scale(p);
  for (int at = first; at < stop; at += kDecodeTile) {
    const int next = at + kDecodeTile;
    locate(next_half, next);
    float s[4];
    const int new_row = end - 1 - at;  // of the new key, if it is in the tile
    const bool has_new = kFused && new_row < 16 && stop == end;
    if constexpr (kFused) {
      if (has_new) {
        state.place_key(fresh.key, g, c, new_row);
      }
    }
    state.multiply_keys(s);
    state.load_keys(next_half, kv, g, c, next, begin, stored);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = at + g + i / 2 * 8;
      s[i] = key >= begin && key < stop ? scale(s[i]) : kMinusInfinity;
    }
    state.rescale(s);
    if constexpr (kFused) {
      if (has_new) {
        state.place_value(fresh.value, g, c, new_row);
      }
    }
    state.multiply_values(Warp::transposed(Warp::Math::pair(s[0], s[1])),
                          Warp::transposed(Warp::Math::pair(s[2], s[3])));
    state.load_values(next_half, kv, g, c, next, begin, stored);
  }
  // Not earlier: blocks that wait would make the next launch's blocks gather on few
  // multiprocessors.
  device::cuda::allow_next();
  state.finish();
  state.store(rows[warp], g, c, heads);
  if (g == 0) {
    row_max_sum[warp][2 * c] = {state.max[0], state.sum[0]};
    row_max_sum[warp][2 * c + 1] = {state.max[1], state.sum[1]};
  }
  __syncthreads();

  // The warps' parts, in order.
  const int head_size = p.kv.head_size;
  const int quads = head_size / 4;
  const DecodeShares shares = decode_shares(p, split, sequence, blockIdx.y);
  const int64_t share_size = int64_t{split.heads} * head_size;
  const int64_t out_at = token * p.out_stride + int64_t{first_head} * head_size;
  for (int i = threadIdx.x; i < heads * quads; i += kDecodeThreads) {
    const int head = i / quads;
    float max = kMinusInfinity;
#pragma unroll
    for (int w = 0; w < kDecodeWarps; ++w) {
      max = fmaxf(max, row_max_sum[w][head].x);
    }
    float sum = 0.0f;
    float4 out = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int w = 0; w < kDecodeWarps; ++w) {
      const float weight = exp2_fast(row_max_sum[w][head].x - max);
      sum = fmaf(row_max_sum[w][head].y, weight, sum);
      add_scaled(out, *reinterpret_cast<const float4*>(&rows[w][head * kHead + i % quads * 4]),
                 weight);
    }
    if (share.used == 1) {
      const float inverse = 1.0f / sum;
      store_four(p.out, out_at + i * 4,
                 {out.x * inverse, out.y * inverse, out.z * inverse, out.w * inverse},
                 p.activation);
      continue;
    }
    __stcg(reinterpret_cast<float4*>(shares.out + blockIdx.x * share_size) + i, out);
    if (i % quads == 0) {
      __stcg(&shares.max_sum[blockIdx.x * kDecodeHeads + head], float2{max, sum});
    }
  }
  if (share.used == 1) {
    return;
  }

  __threadfence();
  __syncthreads();
  uint32_t* arrivals = p.arrivals + int64_t{sequence} * gridDim.y + blockIdx.y;
  if (threadIdx.x == 0) {
    is_last = atomicAdd(arrivals, 1u) == static_cast<uint32_t>(share.used - 1);
  }
  __syncthreads();
  if (is_last) {
    __threadfence();
    join_shares(p, shares, share_size, share.used, heads, out_at, weights);
    if (threadIdx.x == 0) {
      *arrivals = 0;
    }
  }
}

template <DType kKv, int kHead>
cudaError_t launch_decode(const AttentionParams& p, const DecodeSplit& split,
                          const RopeAppendParams* rope, const device::cuda::LaunchSite& site) {
  const dim3 grid(decode_blocks(split, p.max_kv_length), p.kv.num_kv_heads * split.group_tiles,
                  p.num_sequences);
  const bool exact = p.kv.head_size == kHead;
  const auto fused =
      exact ? decode_kernel<kKv, kHead, true, true> : decode_kernel<kKv, kHead, false, true>;
  const auto plain =
      exact ? decode_kernel<kKv, kHead, true, false> : decode_kernel<kKv, kHead, false, false>;
  return device::cuda::launch(rope != nullptr ? fused : plain, grid, dim3(kDecodeThreads), 0, site,
                              p, split, rope != nullptr ? *rope : RopeAppendParams{});
}

// For one type of the cache and any head size.
template <DType kKv>
cudaError_t launch_decode(const AttentionParams& p, const DecodeSplit& split,
                          const RopeAppendParams* rope, const device::cuda::LaunchSite& site) {
  // The lanes of a warp load 128 bytes of a value side by side.
  constexpr int kSmallest = 128 / KvType<kKv>::kBytes;
  if (p.kv.head_size <= kSmallest) {
    return launch_decode<kKv, kSmallest>(p, split, rope, site);
  }
  return p.kv.head_size <= 128 ? launch_decode<kKv, 128>(p, split, rope, site)
                               : launch_decode<kKv, 256>(p, split, rope, site);
}

}  // namespace zonda::kernels::cuda
