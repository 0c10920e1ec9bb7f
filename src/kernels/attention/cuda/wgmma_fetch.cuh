// The warps that bring queries, keys and values to shared memory for prefill attention on
// architecture 90. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/cuda/wgmma_layout.cuh"

namespace zonda::kernels::cuda {

// The warp that fetches keys and values, tile by tile in the order in which they are needed.
template <DType kKv, int kHead>
struct WgmmaFetcher {
  using Layout = WgmmaLayout<kKv, kHead>;
  // Boxes of the copy engine side by side, and the elements of one.
  static constexpr int kBoxes = Layout::kConverts ? 1 : Layout::kHalves;
  static constexpr int kBoxElements = kHead / kBoxes;
  const AttentionParams& p;
  const CUtensorMap& map;
  const Layout shared;
  const int lane;
  int block_shift;
  Ring<kWgmmaStages> keys;
  Ring<kWgmmaStages> values;
  Ring<2> raw;
  uint32_t edges = 0;
  int kv_head = 0;
  const int32_t* table = nullptr;

  __device__ __forceinline__ WgmmaFetcher(const AttentionParams& params,
                                          const CUtensorMap& cache_map, Layout layout)
      : p(params), map(cache_map), shared(layout), lane(threadIdx.x % 32) {
    block_shift = 31 - __clz(params.kv.block_size);
  }

  // This lane's box of a tile; a tile has kWgmmaKeys / block_size * kBoxes of them.
  __device__ __forceinline__ int page() const { return lane / kBoxes; }
  __device__ __forceinline__ bool has_box() const { return page() << block_shift < kWgmmaKeys; }

  // The block of this lane's keys of tile `index`; -1: none of them is seen.
  __device__ __forceinline__ int block_of(const WgmmaTile& tile, int index) const {
    const int key = index * kWgmmaKeys + (page() << block_shift);
    const bool seen = has_box() && key < tile.end && key + (1 << block_shift) > tile.begin;
    return seen ? table[key >> block_shift] : -1;
  }

  // `head`: of the cache's keys, then values.
  __device__ __forceinline__ void copy(uint32_t to, uint32_t barrier, int block, int head) const {
    if (lane == 0) {
      arrive_expecting(barrier, Layout::kConverts ? Layout::kRawBytes : Layout::kKeyBytes);
    }
    __syncwarp();
    if (has_box()) {
      const int box = lane % kBoxes;
      constexpr int kRowBytes = Layout::kConverts ? kHead : 128;
      copy_box(to + box * Layout::kKeyColumn + (page() << block_shift) * kRowBytes, &map, barrier,
               box * kBoxElements, 0, head, block);
    }
  }

  __device__ __forceinline__ void fetch_raw(int block, int head) {
    const int slot = raw.place();
    wait(shared.raw_free(slot), raw.parity() ^ 1);
    copy(shared.raw(slot), shared.raw_full(slot), block, head);
    ++raw.count;
  }

  __device__ __forceinline__ void fetch_keys(int block) {
    if constexpr (Layout::kConverts) {
      return fetch_raw(block, kv_head);
    }
    const int stage = keys.place();
    wait(shared.keys_free(stage), keys.parity() ^ 1);
    copy(shared.keys(stage), shared.keys_full(stage), block, kv_head);
    ++keys.count;
  }

  // Values of keys beyond the end may be anything: they become zeros, as 0 * NaN is not 0.
  __device__ __forceinline__ void fetch_values(const WgmmaTile& tile, int index, int block) {
    if constexpr (Layout::kConverts) {
      return fetch_raw(block, kv_head + p.kv.num_kv_heads);
    }
    const int stage = values.place();
    wait(shared.values_free(stage), values.parity() ^ 1);
    const int seen = tile.end - index * kWgmmaKeys;
    const int fetched = (seen + (1 << block_shift) - 1) >> block_shift << block_shift;
    const bool edge = seen < kWgmmaKeys && seen < fetched;
    const uint32_t full = edge ? shared.edge_full() : shared.values_full(stage);
    copy(shared.values(stage), full, block, kv_head + p.kv.num_kv_heads);
    if (edge) {
      wait(full, edges & 1);
      ++edges;
      for (int i = seen * kHead / 8 + lane; i < fetched * kHead / 8; i += 32) {
        store_shared_16(shared.values(stage) +
                            Layout::offset(i / (kHead / 8), i % (kHead / 8), Layout::kKeyColumn),
                        {0, 0, 0, 0});
      }
      publish_to_async();
      __syncwarp();
      if (lane == 0) {
        arrive(shared.values_full(stage));
      }
    }
    ++values.count;
  }

  __device__ __forceinline__ void run() {
    TileWalk<kWgmmaRows> walk(p);
    QueryTile place;
    for (int turn = 0; walk.find(p, turn, place); ++turn) {
      const WgmmaTile tile = WgmmaTile::make(p, place);
      kv_head = tile.head / (p.num_heads / p.kv.num_kv_heads);
      table = p.block_tables + place.sequence * p.table_stride;
      int block = block_of(tile, tile.first());
      fetch_keys(block);
      for (int i = tile.first(); i < tile.last(); ++i) {
        const int next = i + 1 < tile.last() ? block_of(tile, i + 1) : -1;
        if (i + 1 < tile.last()) {
          fetch_keys(next);
        }
        fetch_values(tile, i, block);
        block = next;
      }
    }
  }
};

// The three warps that bring the queries, and tell what tile they are of.
template <DType kKv, int kHead>
struct WgmmaQueryLoader {
  using Layout = WgmmaLayout<kKv, kHead>;
  using Math = typename KvType<kKv>::Math;
  static constexpr int kThreads = 96;
  const AttentionParams& p;
  const Layout shared;
  WgmmaTile* tiles;  // [2]

  __device__ __forceinline__ void load(const WgmmaTile& tile, int thread, uint32_t to) const {
    constexpr int kChunks = kHead / 8;
    const char* from =
        static_cast<const char*>(p.q) + (tile.token * p.q_stride + int64_t{tile.head} * kHead) * 2;
    const int64_t stride = p.q_stride * 2;
    if (p.activation == Math::kDType) {
#pragma unroll 2
      for (int i = thread; i < kWgmmaRows * kChunks; i += kThreads) {
        const int row = i / kChunks;
        const int chunk = i % kChunks;
        copy_async_16(to + Layout::offset(row, chunk, Layout::kQueryColumn),
                      from + min(row, tile.rows - 1) * stride + chunk * 16,
                      row < tile.rows ? 16 : 0);
      }
      wait_for_copies();
    } else {
#pragma unroll 1
      for (int i = thread; i < kWgmmaRows * kChunks; i += kThreads) {
        const int row = i / kChunks;
        const int chunk = i % kChunks;
        uint4 v = {0, 0, 0, 0};
        if (row < tile.rows) {
          v = *reinterpret_cast<const uint4*>(from + row * stride + chunk * 16);
          v = {pair_of_activations<Math>(v.x, p.activation),
               pair_of_activations<Math>(v.y, p.activation),
               pair_of_activations<Math>(v.z, p.activation),
               pair_of_activations<Math>(v.w, p.activation)};
        }
        store_shared_16(to + Layout::offset(row, chunk, Layout::kQueryColumn), v);
      }
    }
    publish_to_async();
  }

  __device__ __forceinline__ void run() const {
    const int thread = threadIdx.x - 32;
    TileWalk<kWgmmaRows> walk(p);
    QueryTile place;
    bool more = true;
    for (Ring<2> slot; more; ++slot.count) {
      more = walk.find(p, slot.count, place);
      wait(shared.queries_free(slot.place()), slot.parity() ^ 1);
      WgmmaTile tile;
      tile.rows = -1;
      if (more) {
        tile = WgmmaTile::make(p, place);
        load(tile, thread, shared.queries(slot.place()));
      }
      if (thread == 0) {
        tiles[slot.place()] = tile;
      }
      __syncwarp();
      if (thread % 32 == 0) {
        arrive(shared.queries_full(slot.place()));
      }
    }
  }
};

// The warpgroup that spreads raw tiles of fp8 to tiles of fp16, in the order of the fetcher.
template <DType kKv, int kHead>
struct WgmmaConverter {
  using Layout = WgmmaLayout<kKv, kHead>;
  static constexpr int kThreads = 128;
  static constexpr int kChunks = kHead / 16;  // of a raw row
  const AttentionParams& p;
  const Layout shared;
  Ring<2> raw;

  __device__ __forceinline__ WgmmaConverter(const AttentionParams& params, Layout layout)
      : p(params), shared(layout) {}

  // Keys from `seen` on become zeros, as 0 * NaN is not 0. `full`, `free`: of the tile at `to`.
  __device__ __forceinline__ void convert(uint32_t to, uint32_t full, uint32_t free,
                                          uint32_t free_parity, int seen) {
    const int slot = raw.place();
    const int thread = threadIdx.x % kThreads;
    wait(shared.raw_full(slot), raw.parity());
    wait(free, free_parity);
#pragma unroll 2
    for (int i = thread; i < kWgmmaKeys * kChunks; i += kThreads) {
      const int row = i / kChunks;
      const int chunk = i % kChunks;
      uint4 v = load_shared_16(shared.raw(slot) + i * 16);
      if (row >= seen) {
        v = {0, 0, 0, 0};
      }
      const uint4 low = {fp16_pair_of_fp8(v.x), fp16_pair_of_fp8(v.x >> 16), fp16_pair_of_fp8(v.y),
                         fp16_pair_of_fp8(v.y >> 16)};
      const uint4 high = {fp16_pair_of_fp8(v.z), fp16_pair_of_fp8(v.z >> 16), fp16_pair_of_fp8(v.w),
                          fp16_pair_of_fp8(v.w >> 16)};
      // Of chunks that lie 64 elements apart, in the same banks, one is stored first half first.
      const bool swaps = chunk >= 4;
      const uint32_t first = Layout::offset(row, 2 * chunk + (swaps ? 1 : 0), Layout::kKeyColumn);
      store_shared_16(to + first, swaps ? high : low);
      store_shared_16(to + (first ^ 16), swaps ? low : high);
    }
    publish_to_async();
    __syncwarp();
    if (thread % 32 == 0) {
      arrive(full);
      arrive(shared.raw_free(slot));
    }
    ++raw.count;
  }

  __device__ __forceinline__ void run() {
    Ring<kWgmmaStages> keys;
    Ring<kWgmmaStages> values;
    const auto convert_keys = [&](const WgmmaTile& tile, int index) {
      const int stage = keys.place();
      convert(shared.keys(stage), shared.keys_full(stage), shared.keys_free(stage),
              keys.parity() ^ 1, tile.end - index * kWgmmaKeys);
      ++keys.count;
    };
    TileWalk<kWgmmaRows> walk(p);
    QueryTile place;
    for (int turn = 0; walk.find(p, turn, place); ++turn) {
      const WgmmaTile tile = WgmmaTile::make(p, place);
      convert_keys(tile, tile.first());
      for (int i = tile.first(); i < tile.last(); ++i) {
        if (i + 1 < tile.last()) {
          convert_keys(tile, i + 1);
        }
        const int stage = values.place();
        convert(shared.values(stage), shared.values_full(stage), shared.values_free(stage),
                values.parity() ^ 1, tile.end - i * kWgmmaKeys);
        ++values.count;
      }
    }
  }
};

}  // namespace zonda::kernels::cuda
