// Prefill attention in the manner of FlashAttention-2 (Dao 2023, arXiv 2307.08691): a block takes a
// tile of queries of one head and walks over tiles of keys, loading the next while it multiplies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/cuda/dependent.cuh"
#include "kernels/attention/cuda/attention_launch.h"
#include "kernels/attention/cuda/attention_math.cuh"
#include "kernels/attention/cuda/prefill_tile.cuh"

namespace zonda::kernels::cuda {

// The queries of a warp, kRowTiles times 16 rows; lane l holds rows l / 4 and l / 4 + 8 of each.
template <class Math, int kHead>
struct PrefillWarp {
  static constexpr int kRowTiles = kHead <= 128 ? 2 : 1;
  static constexpr int kRows = 16 * kRowTiles;
  static constexpr int kKeyTiles = kPrefillKeys / 8;
  using Layout = TileLayout<kHead>;

  float out[kRowTiles][kHead / 8][4];
  float s[kRowTiles][kKeyTiles][4];     // scores, then weights
  uint32_t p[kRowTiles][kKeyTiles][2];  // weights as the tensor cores take them
  float max[kRowTiles][2];
  float sum[kRowTiles][2];  // this lane's keys only

  __device__ __forceinline__ void start() {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kHead / 8; ++n) {
        out[m][n][0] = out[m][n][1] = out[m][n][2] = out[m][n][3] = 0.0f;
      }
      max[m][0] = max[m][1] = kMinusInfinity;
      sum[m][0] = sum[m][1] = 0.0f;
    }
  }

  // `queries`: the warp's first row; `keys`: a tile; shared memory.
  __device__ __forceinline__ void multiply_keys(uint32_t queries, uint32_t keys) {
    const int lane = threadIdx.x % 32;
    const uint32_t q_at = recomputed(queries + Layout::offset(lane % 16, lane / 16));
    const uint32_t k_at = recomputed(keys + Layout::offset(lane / 16 * 8 + lane % 8, lane / 8 % 2));
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
        s[m][n][0] = s[m][n][1] = s[m][n][2] = s[m][n][3] = 0.0f;
      }
    }
#pragma unroll
    for (int step = 0; step < kHead / 16; ++step) {
      uint4 a[kRowTiles];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        a[m] = load_matrices((q_at ^ (step * 32)) + m * Layout::bytes(16));
      }
#pragma unroll
      for (int n = 0; n < kKeyTiles; n += 2) {
        const uint4 b = load_matrices((k_at ^ (step * 32)) + n * Layout::bytes(8));
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          Math::mma(s[m][n], a[m].x, a[m].y, a[m].z, a[m].w, b.x, b.y);
          Math::mma(s[m][n + 1], a[m].x, a[m].y, a[m].z, a[m].w, b.z, b.w);
        }
      }
    }
  }

  __device__ __forceinline__ void cap(const ScoreScale& scale) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          s[m][n][i] = scale(s[m][n][i]);
        }
      }
    }
  }

  // `position`: of the warp's first row; `first`: of the tile's first key.
  __device__ __forceinline__ void mask(int position, int first, int window) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = position + m * 16 + lane / 4 + i / 2 * 8;
        const int oldest = window > 0 ? row - window + 1 : 0;
#pragma unroll
        for (int n = 0; n < kKeyTiles; ++n) {
          const int key = first + n * 8 + lane % 4 * 2 + i % 2;
          s[m][n][i] = key <= row && key >= oldest ? s[m][n][i] : kMinusInfinity;
        }
      }
    }
  }

  // Turns scores into weights exp2(factor * (s - max)), and what was summed so far with them. A
  // tile without a visible key leaves a row's values as they are, to the bit.
  __device__ __forceinline__ void rescale(float factor) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float tile_max = max[m][half];
#pragma unroll
        for (int n = 0; n < kKeyTiles; ++n) {
          tile_max = fmaxf(tile_max, fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]));
        }
        tile_max = fmaxf(tile_max, __shfl_xor_sync(~0u, tile_max, 1));
        tile_max = fmaxf(tile_max, __shfl_xor_sync(~0u, tile_max, 2));
        const float origin = tile_max == kMinusInfinity ? 0.0f : __fmul_rn(tile_max, factor);
        // Not fused: an unchanged maximum must give exactly 1.
        const float shrink = exp2_fast(__fsub_rn(__fmul_rn(max[m][half], factor), origin));
        max[m][half] = tile_max;
        float tile_sum = 0.0f;
#pragma unroll
        for (int n = 0; n < kKeyTiles; ++n) {
          float& a = s[m][n][2 * half];
          float& b = s[m][n][2 * half + 1];
          a = exp2_fast(fmaf(a, factor, -origin));
          b = exp2_fast(fmaf(b, factor, -origin));
          tile_sum += a + b;
        }
        sum[m][half] = fmaf(sum[m][half], shrink, tile_sum);
#pragma unroll
        for (int n = 0; n < kHead / 8; ++n) {
          out[m][n][2 * half] *= shrink;
          out[m][n][2 * half + 1] *= shrink;
        }
      }
    }
  }

  // Halves the registers that the weights take, before the next copies need some.
  __device__ __forceinline__ void pack() {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n) {
        p[m][n][0] = Math::pair(s[m][n][0], s[m][n][1]);
        p[m][n][1] = Math::pair(s[m][n][2], s[m][n][3]);
      }
    }
  }

  __device__ __forceinline__ void multiply_values(uint32_t values) {
    const int lane = threadIdx.x % 32;
    const uint32_t v_at = recomputed(values + Layout::offset(lane % 16, lane / 16));
#pragma unroll
    for (int step = 0; step < kPrefillKeys / 16; ++step) {
#pragma unroll
      for (int n = 0; n < kHead / 8; n += 2) {
        const uint4 b = load_matrices_transposed((v_at ^ (n * 16)) + step * Layout::bytes(16));
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          const uint32_t(&low)[2] = p[m][2 * step];
          const uint32_t(&high)[2] = p[m][2 * step + 1];
          Math::mma(out[m][n], low[0], low[1], high[0], high[1], b.x, b.y);
          Math::mma(out[m][n + 1], low[0], low[1], high[0], high[1], b.z, b.w);
        }
      }
    }
  }

  // Writes the first `rows` rows; `to`: the head of the first.
  __device__ __forceinline__ void store(char* to, int64_t stride_bytes, int rows, int head_size,
                                        DType activation) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float total = sum[m][half];
        total += __shfl_xor_sync(~0u, total, 1);
        total += __shfl_xor_sync(~0u, total, 2);
        const float inverse = 1.0f / total;
        const int row = m * 16 + lane / 4 + half * 8;
#pragma unroll
        for (int n = 0; n < kHead / 8; ++n) {
          if (row < rows && n * 8 < head_size) {
            const float* x = &out[m][n][2 * half];
            *reinterpret_cast<uint32_t*>(to + row * stride_bytes + (n * 8 + lane % 4 * 2) * 2) =
                activation_pair(x[0] * inverse, x[1] * inverse, activation);
          }
        }
      }
    }
  }
};

template <DType kKv, int kHead>
struct PrefillShape {
  using Math = typename KvType<kKv>::Math;
  using Warp = PrefillWarp<Math, kHead>;
  using Tile = CacheTile<kKv, kHead>;
  static constexpr int kQueries = kPrefillWarps * Warp::kRows;
  static constexpr int kQueryBytes = TileLayout<kHead>::bytes(kQueries);
  static constexpr int kSharedBytes = kQueryBytes + 2 * Tile::kSharedBytes;
};

// `from`: the head of the tile's first row. Rows from `rows` on become zeros.
template <class Math, int kHead, int kQueries>
__device__ __forceinline__ void load_queries(uint32_t to, const char* from, int64_t stride_bytes,
                                             int rows, int head_size, DType activation) {
  constexpr int kChunks = kHead / 8;
#pragma unroll 4
  for (int i = threadIdx.x; i < kQueries * kChunks; i += kPrefillThreads) {
    const int row = i / kChunks;
    const int chunk = i % kChunks;
    uint4 v = {0, 0, 0, 0};
    if (row < rows && chunk * 8 < head_size) {
      v = *reinterpret_cast<const uint4*>(from + row * stride_bytes + chunk * 16);
      v = {pair_of_activations<Math>(v.x, activation), pair_of_activations<Math>(v.y, activation),
           pair_of_activations<Math>(v.z, activation), pair_of_activations<Math>(v.w, activation)};
    }
    store_shared_16(to + TileLayout<kHead>::offset(row, chunk), v);
  }
}

// grid: [heads, query tiles, sequences]; the last query tiles, which see the most keys, come first.
template <DType kKv, int kHead>
__global__ void __launch_bounds__(kPrefillThreads, kHead <= 128 ? 2 : 1)
    prefill_kernel(const __grid_constant__ AttentionParams p) {
  using Shape = PrefillShape<kKv, kHead>;
  using Warp = typename Shape::Warp;
  using Tile = typename Shape::Tile;
  extern __shared__ __align__(1024) char shared[];

  device::cuda::wait_for_previous();
  const int sequence = blockIdx.z;
  const int first_row = static_cast<int>(gridDim.y - 1 - blockIdx.y) * Shape::kQueries;
  const int rows = min(Shape::kQueries, p.num_tokens[sequence] - first_row);
  if (rows <= 0) {
    return;
  }
  const int head = blockIdx.x;
  const int head_size = p.kv.head_size;
  const int position = p.start_position[sequence] + first_row;
  const int64_t token = p.token_begin[sequence] + first_row;
  const uint32_t queries = shared_address(shared);
  load_queries<typename Shape::Math, kHead, Shape::kQueries>(
      queries, static_cast<const char*>(p.q) + (token * p.q_stride + int64_t{head} * head_size) * 2,
      p.q_stride * 2, rows, head_size, p.activation);

  const KvHead kv =
      KvHead::make<Tile::kBytes>(p, sequence, head / (p.num_heads / p.kv.num_kv_heads));
  const Tile keys{queries + Shape::kQueryBytes, 0};
  const Tile values{queries + Shape::kQueryBytes + Tile::kSharedBytes, kv.value_offset};
  const int end = position + rows;
  const int begin = p.window > 0 ? max(0, position - p.window + 1) : 0;
  const int warp_row = threadIdx.x / 32 * Warp::kRows;
  const int warp_position = position + warp_row;

  Warp state;
  state.start();
  const ScoreScale scale(p);
  const float factor = scale.cap > 0.0f ? 1.0f : scale.scale;
  const int start = begin / kPrefillKeys * kPrefillKeys;
  keys.start(kv, start, begin, end);
  for (int first = start; first < end; first += kPrefillKeys) {
    keys.arrive([&] { values.start(kv, first, begin, end); });
    state.multiply_keys(queries + TileLayout<kHead>::bytes(warp_row), keys.place);
    if (scale.cap > 0.0f) {
      state.cap(scale);
    }
    const bool all_seen = first + kPrefillKeys - 1 <= warp_position &&
                          (p.window == 0 || first > warp_position + Warp::kRows - 1 - p.window);
    if (!all_seen) {
      state.mask(warp_position, first, p.window);
    }
    state.rescale(factor);
    state.pack();
    values.arrive([&] {
      if (first + kPrefillKeys < end) {
        keys.start(kv, first + kPrefillKeys, begin, end);
      }
    });
    state.multiply_values(values.place);
  }
  device::cuda::allow_next();
  char* out = static_cast<char*>(p.out) +
              ((token + warp_row) * p.out_stride + int64_t{head} * head_size) * 2;
  state.store(out, p.out_stride * 2, rows - warp_row, head_size, p.activation);
}

template <DType kKv, int kHead>
cudaError_t launch_prefill(const AttentionParams& p, const device::cuda::LaunchSite& site) {
  using Shape = PrefillShape<kKv, kHead>;
  const dim3 grid(p.num_heads, (p.max_tokens + Shape::kQueries - 1) / Shape::kQueries,
                  p.num_sequences);
  const cudaError_t status = cudaFuncSetAttribute(
      prefill_kernel<kKv, kHead>, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kSharedBytes);
  if (status != cudaSuccess) {
    return status;
  }
  return device::cuda::launch(prefill_kernel<kKv, kHead>, grid, dim3(kPrefillThreads),
                              Shape::kSharedBytes, site, p);
}

// For one type of the cache and any head size.
template <DType kKv>
cudaError_t launch_prefill(const AttentionParams& p, const device::cuda::LaunchSite& site) {
  const int head_size = p.kv.head_size;
  if (head_size <= 64) {
    return launch_prefill<kKv, 64>(p, site);
  }
  if (head_size <= 96) {
    return launch_prefill<kKv, 96>(p, site);
  }
  return head_size <= 128 ? launch_prefill<kKv, 128>(p, site) : launch_prefill<kKv, 256>(p, site);
}

}  // namespace zonda::kernels::cuda
