// Prefill attention in the manner of FlashAttention-3 (Shah et al. 2024, arXiv 2407.08608) for
// architecture 90: a warpgroup fetches keys and values through the copy engine while two others,
// taking turns at the tensor cores, multiply them with 64 queries each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/cuda/dependent.cuh"
#include "kernels/attention/cuda/prefill_wgmma.h"
#include "kernels/attention/cuda/wgmma_fetch.cuh"
#include "kernels/attention/cuda/wgmma_layout.cuh"

namespace zonda::kernels::cuda {

// A warpgroup with 64 queries; thread l of warp w holds of rows 16 w + l / 4 and 8 further what
// wgmma.cuh says.
template <DType kKv, int kHead>
struct WgmmaWorker {
  using Layout = WgmmaLayout<kKv, kHead>;
  using Math = typename KvType<kKv>::Math;
  using Product = Products<Math>;
  static constexpr int kThreads = 128;
  static constexpr int kScores = kWgmmaKeys / 2;
  static constexpr int kOut = kHead / 2;

  const AttentionParams& p;
  const Layout shared;
  const WgmmaTile* tiles;  // [2]
  const int group;         // of kWgmmaGroups
  const ScoreScale scale;
  const float factor;
  const int warp;
  const int lane;

  float out[kOut];
  float s[kScores];                      // scores, then weights
  uint32_t weights[kWgmmaKeys / 16][4];  // as the tensor cores take them
  float max[2];
  float sum[2];  // this thread's keys only
  float shrink[2];
  int count = 0;  // tiles of keys so far

  __device__ __forceinline__ WgmmaWorker(const AttentionParams& params, Layout layout,
                                         const WgmmaTile* query_tiles)
      : p(params),
        shared(layout),
        tiles(query_tiles),
        group(static_cast<int>(threadIdx.x / 128) - 1),
        scale(params),
        factor(scale.cap > 0.0f ? 1.0f : scale.scale),
        warp(threadIdx.x / 32 % 4),
        lane(threadIdx.x % 32) {}

  __device__ __forceinline__ int stage(int tile) const { return tile % kWgmmaStages; }
  __device__ __forceinline__ uint32_t parity(int tile) const { return tile / kWgmmaStages & 1; }
  __device__ __forceinline__ void release(uint32_t barrier) const {
    __syncwarp();
    if (lane == 0) {
      arrive(barrier);
    }
  }

  // s = queries keys, not waited for.
  __device__ __forceinline__ void multiply_keys(uint32_t queries, int tile) {
    const uint32_t keys = shared.keys(stage(tile));
    const uint64_t a = swizzled_matrix(queries, 16);
    const uint64_t b = swizzled_matrix(keys, 16);
    begin_products();
#pragma unroll
    for (int step = 0; step < kHead / 16; ++step) {
      const int half = step / 4;
      const uint64_t a_at = a + ((half * Layout::kQueryColumn + step % 4 * 32) >> 4);
      const uint64_t b_at = b + ((half * Layout::kKeyColumn + step % 4 * 32) >> 4);
      if (step == 0) {
        Product::template multiply<false>(s, a_at, b_at);
      } else {
        Product::template multiply<true>(s, a_at, b_at);
      }
    }
    commit_products();
  }

  // out += weights values, not waited for.
  __device__ __forceinline__ void multiply_values(int tile) {
    const uint64_t b = swizzled_matrix(shared.values(stage(tile)), Layout::kKeyColumn);
    begin_products();
#pragma unroll
    for (int step = 0; step < kWgmmaKeys / 16; ++step) {
      Product::multiply_transposed(out, weights[step], b + (step * 16 * 128 >> 4));
    }
    commit_products();
  }

  __device__ __forceinline__ void mask(int row, int first) {
    if (scale.cap > 0.0f) {
#pragma unroll
      for (int i = 0; i < kScores; ++i) {
        s[i] = scale.capped(s[i]);
      }
    }
    const int last_row = row + 63;
    const bool all_seen =
        first + kWgmmaKeys - 1 <= row && (p.window == 0 || first > last_row - p.window);
    if (all_seen) {
      return;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int own = row + warp * 16 + lane / 4 + half * 8;
      const int newest = own - first - lane % 4 * 2;
      const int oldest = p.window > 0 ? newest - p.window + 1 : -(1 << 30);
#pragma unroll
      for (int n = 0; n < kWgmmaKeys / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& x = s[n * 4 + half * 2 + i];
          x = n * 8 + i <= newest && n * 8 + i >= oldest ? x : kMinusInfinity;
        }
      }
    }
  }

  // Turns scores into weights exp2(factor * (s - max)). A tile without a visible key leaves a row's
  // values as they are, to the bit.
  __device__ __forceinline__ void weigh() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float tile_max = max[half];
#pragma unroll
      for (int n = 0; n < kWgmmaKeys / 8; ++n) {
        tile_max = fmaxf(tile_max, fmaxf(s[n * 4 + half * 2], s[n * 4 + half * 2 + 1]));
      }
      tile_max = fmaxf(tile_max, __shfl_xor_sync(~0u, tile_max, 1));
      tile_max = fmaxf(tile_max, __shfl_xor_sync(~0u, tile_max, 2));
      const float origin = tile_max == kMinusInfinity ? 0.0f : __fmul_rn(tile_max, factor);
      // Not fused: an unchanged maximum must give exactly 1.
      shrink[half] = exp2_fast(__fsub_rn(__fmul_rn(max[half], factor), origin));
      max[half] = tile_max;
      float tile_sum = 0.0f;
#pragma unroll
      for (int n = 0; n < kWgmmaKeys / 8; ++n) {
        float& a = s[n * 4 + half * 2];
        float& b = s[n * 4 + half * 2 + 1];
        a = exp2_fast(fmaf(a, factor, -origin));
        b = exp2_fast(fmaf(b, factor, -origin));
        tile_sum += a + b;
      }
      sum[half] = fmaf(sum[half], shrink[half], tile_sum);
    }
  }

  __device__ __forceinline__ void pack() {
#pragma unroll
    for (int step = 0; step < kWgmmaKeys / 16; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        weights[step][i] = Math::pair(s[step * 8 + i * 2], s[step * 8 + i * 2 + 1]);
      }
    }
  }

  __device__ __forceinline__ void rescale() {
#pragma unroll
    for (int i = 0; i < kOut; ++i) {
      out[i] *= shrink[i / 2 % 2];
    }
  }

  // Over the queries, which are done with, so that whole rows go out.
  __device__ __forceinline__ void store(const WgmmaTile& tile, uint32_t queries) {
    constexpr int kChunks = kHead / 8;
    sync_named(3 + group, kThreads);
    const uint32_t to = queries + warp * 16 * 128;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float total = sum[half];
      total += __shfl_xor_sync(~0u, total, 1);
      total += __shfl_xor_sync(~0u, total, 2);
      const float inverse = 1.0f / total;
#pragma unroll
      for (int n = 0; n < kChunks; ++n) {
        const float* x = &out[n * 4 + half * 2];
        const uint32_t at =
            to + Layout::offset(lane / 4 + half * 8, n, Layout::kQueryColumn) + lane % 4 * 4;
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(at),
                     "r"(activation_pair(x[0] * inverse, x[1] * inverse, p.activation))
                     : "memory");
      }
    }
    __syncwarp();
    const int first_row = group * 64 + warp * 16;
    char* out_at = static_cast<char*>(p.out) +
                   ((tile.token + first_row) * p.out_stride + int64_t{tile.head} * kHead) * 2;
#pragma unroll 4
    for (int i = lane; i < 16 * kChunks; i += 32) {
      const int row = i / kChunks;
      const int chunk = i % kChunks;
      if (first_row + row < tile.rows) {
        *reinterpret_cast<uint4*>(out_at + row * p.out_stride * 2 + chunk * 16) =
            load_shared_16(to + Layout::offset(row, chunk, Layout::kQueryColumn));
      }
    }
  }

  __device__ __forceinline__ void attend(const WgmmaTile& tile, uint32_t queries) {
    const int row = tile.position + group * 64;
#pragma unroll
    for (int i = 0; i < kOut; ++i) {
      out[i] = 0.0f;
    }
    max[0] = max[1] = kMinusInfinity;
    sum[0] = sum[1] = 0.0f;
    wait(shared.keys_full(stage(count)), parity(count));
    multiply_keys(queries, count);
    wait_for_products<0>();
    pin(s);
    release(shared.keys_free(stage(count)));
    mask(row, tile.first() * kWgmmaKeys);
    weigh();
    pack();
    for (int i = tile.first() + 1; i < tile.last(); ++i) {
      // The other warpgroup multiplies while this one weighs.
      wait(shared.keys_full(stage(count + 1)), parity(count + 1));
      sync_named(1 + group, 2 * kThreads);
      multiply_keys(queries, count + 1);
      wait(shared.values_full(stage(count)), parity(count));
      multiply_values(count);
      arrive_named(2 - group, 2 * kThreads);
      wait_for_products<1>();
      pin(s);
      release(shared.keys_free(stage(count + 1)));
      mask(row, i * kWgmmaKeys);
      weigh();
      wait_for_products<0>();
      pin(out);
      release(shared.values_free(stage(count)));
      rescale();
      pack();
      ++count;
    }
    wait(shared.values_full(stage(count)), parity(count));
    multiply_values(count);
    wait_for_products<0>();
    pin(out);
    release(shared.values_free(stage(count)));
    ++count;
  }

  __device__ __forceinline__ void run() {
    if (group == 1) {
      arrive_named(1, 2 * kThreads);  // the first turn is group 0's
    }
    for (Ring<2> slot;; ++slot.count) {
      wait(shared.queries_full(slot.place()), slot.parity());
      const WgmmaTile tile = tiles[slot.place()];
      if (tile.rows < 0) {
        break;
      }
      const uint32_t queries = shared.queries(slot.place()) + group * 64 * 128;
      attend(tile, queries);
      store(tile, queries);
      release(shared.queries_free(slot.place()));
    }
    if (group == 0) {
      sync_named(1, 2 * kThreads);  // takes the turn that is left
    }
  }
};

// Registers of a thread of each warpgroup; together what the launch gives.
template <bool kConverts>
struct WgmmaRegisters {
  static constexpr int kFetch = 40;
  static constexpr int kWork = kConverts ? 208 : 232;
  static constexpr int kConvert = 56;
};

// grid: as many blocks as the device has multiprocessors; they divide the tiles among them.
template <DType kKv, int kHead>
__global__ void __launch_bounds__(WgmmaLayout<kKv, kHead>::kThreads, 1)
    prefill_wgmma_kernel(const __grid_constant__ AttentionParams p,
                         const __grid_constant__ CUtensorMap map) {
  if constexpr (kHasWgmma) {
    using Layout = WgmmaLayout<kKv, kHead>;
    using Registers = WgmmaRegisters<Layout::kConverts>;
    extern __shared__ __align__(1024) char memory[];
    const Layout shared{shared_address(memory)};
    WgmmaTile* tiles = reinterpret_cast<WgmmaTile*>(memory + Layout::kTilesAt);
    if (threadIdx.x == 0) {
      shared.start_barriers();
    }
    device::cuda::allow_next();
    __syncthreads();
    device::cuda::wait_for_previous();
    if (threadIdx.x < 128) {
      give_registers<Registers::kFetch>();
      if (threadIdx.x < 32) {
        WgmmaFetcher<kKv, kHead>(p, map, shared).run();
      } else {
        WgmmaQueryLoader<kKv, kHead>{p, shared, tiles}.run();
      }
    } else if (!Layout::kConverts || threadIdx.x < 128 * (1 + kWgmmaGroups)) {
      take_registers<Registers::kWork>();
      WgmmaWorker<kKv, kHead>(p, shared, tiles).run();
    } else {
      if constexpr (Layout::kConverts) {
        give_registers<Registers::kConvert>();
        WgmmaConverter<kKv, kHead>(p, shared).run();
      }
    }
  }
}

template <DType kKv, int kHead>
cudaError_t launch_prefill_wgmma(const AttentionParams& p, const CUtensorMap& map, int blocks,
                                 const device::cuda::LaunchSite& site) {
  using Layout = WgmmaLayout<kKv, kHead>;
  const cudaError_t status =
      cudaFuncSetAttribute(prefill_wgmma_kernel<kKv, kHead>,
                           cudaFuncAttributeMaxDynamicSharedMemorySize, Layout::kSharedBytes);
  return status != cudaSuccess
             ? status
             : device::cuda::launch(prefill_wgmma_kernel<kKv, kHead>, dim3(blocks),
                                    dim3(Layout::kThreads), Layout::kSharedBytes, site, p, map);
}

template <DType kKv>
cudaError_t launch_prefill_wgmma(const AttentionParams& p, const CUtensorMap& map, int blocks,
                                 const device::cuda::LaunchSite& site) {
  return p.kv.head_size == 64 ? launch_prefill_wgmma<kKv, 64>(p, map, blocks, site)
                              : launch_prefill_wgmma<kKv, 128>(p, map, blocks, site);
}

}  // namespace zonda::kernels::cuda
