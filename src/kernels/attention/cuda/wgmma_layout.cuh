// What the warpgroups of prefill attention on architecture 90 share: a block's shared memory, its
// barriers and the tile of queries in work. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/cuda/prefill_tile.cuh"
#include "kernels/attention/cuda/tile_walk.cuh"
#include "kernels/attention/cuda/wgmma.cuh"

namespace zonda::kernels::cuda {

constexpr int kWgmmaKeys = 128;  // keys of a tile, aligned to position 0
constexpr int kWgmmaGroups = 2;  // warpgroups that multiply
constexpr int kWgmmaRows = 64 * kWgmmaGroups;
constexpr int kWgmmaStages = 2;  // tiles of keys, and of values, in shared memory

// What the multiplying warpgroups must know of a tile of queries.
struct WgmmaTile {
  int rows;  // -1: there are no more tiles
  int position;
  int head;
  int begin;  // keys
  int end;
  int64_t token;

  __device__ __forceinline__ static WgmmaTile make(const AttentionParams& p,
                                                   const QueryTile& tile) {
    WgmmaTile t;
    t.rows = min(kWgmmaRows, p.num_tokens[tile.sequence] - tile.row);
    t.position = p.start_position[tile.sequence] + tile.row;
    t.head = tile.head;
    t.begin = p.window > 0 ? max(0, t.position - p.window + 1) : 0;
    t.end = t.position + t.rows;
    t.token = int64_t{p.token_begin[tile.sequence]} + tile.row;
    return t;
  }
  __device__ __forceinline__ int first() const { return begin / kWgmmaKeys; }
  __device__ __forceinline__ int last() const { return (end + kWgmmaKeys - 1) / kWgmmaKeys; }
};

// Tiles of kHead columns lie as kHead / 64 columns of rows of 128 bytes. An fp8 cache is copied to
// raw tiles, [kWgmmaKeys, kHead] bytes, which a further warpgroup spreads to 16 bits.
template <DType kKv, int kHead>
struct WgmmaLayout {
  static constexpr bool kConverts = KvType<kKv>::kBytes == 1;
  static constexpr int kThreads = 128 * (1 + kWgmmaGroups + (kConverts ? 1 : 0));
  static constexpr int kHalves = kHead / 64;
  static constexpr int kQueryColumn = kWgmmaRows * 128;  // bytes
  static constexpr int kKeyColumn = kWgmmaKeys * 128;
  static constexpr int kQueryBytes = kHalves * kQueryColumn;
  static constexpr int kKeyBytes = kHalves * kKeyColumn;
  static constexpr int kRawBytes = kConverts ? kWgmmaKeys * kHead : 0;

  static constexpr int kKeysAt = 2 * kQueryBytes;
  static constexpr int kValuesAt = kKeysAt + kWgmmaStages * kKeyBytes;
  static constexpr int kRawAt = kValuesAt + kWgmmaStages * kKeyBytes;
  static constexpr int kBarriersAt = kRawAt + 2 * kRawBytes;
  static constexpr int kBarriers = 4 * kWgmmaStages + 4 + 1 + 4;
  static constexpr int kTilesAt = kBarriersAt + (kBarriers * 8 + 15) / 16 * 16;
  static constexpr int kSharedBytes = kTilesAt + 2 * int{sizeof(WgmmaTile)};

  uint32_t base;

  __device__ __forceinline__ uint32_t queries(int slot) const { return base + slot * kQueryBytes; }
  __device__ __forceinline__ uint32_t keys(int stage) const {
    return base + kKeysAt + stage * kKeyBytes;
  }
  __device__ __forceinline__ uint32_t values(int stage) const {
    return base + kValuesAt + stage * kKeyBytes;
  }
  __device__ __forceinline__ uint32_t raw(int slot) const {
    return base + kRawAt + slot * kRawBytes;
  }
  __device__ __forceinline__ uint32_t barrier(int i) const { return base + kBarriersAt + i * 8; }
  __device__ __forceinline__ uint32_t keys_full(int stage) const { return barrier(stage); }
  __device__ __forceinline__ uint32_t keys_free(int stage) const {
    return barrier(kWgmmaStages + stage);
  }
  __device__ __forceinline__ uint32_t values_full(int stage) const {
    return barrier(2 * kWgmmaStages + stage);
  }
  __device__ __forceinline__ uint32_t values_free(int stage) const {
    return barrier(3 * kWgmmaStages + stage);
  }
  __device__ __forceinline__ uint32_t queries_full(int slot) const {
    return barrier(4 * kWgmmaStages + slot);
  }
  __device__ __forceinline__ uint32_t queries_free(int slot) const {
    return barrier(4 * kWgmmaStages + 2 + slot);
  }
  __device__ __forceinline__ uint32_t edge_full() const { return barrier(4 * kWgmmaStages + 4); }
  __device__ __forceinline__ uint32_t raw_full(int slot) const {
    return barrier(4 * kWgmmaStages + 5 + slot);
  }
  __device__ __forceinline__ uint32_t raw_free(int slot) const {
    return barrier(4 * kWgmmaStages + 7 + slot);
  }

  // 16-byte chunk `chunk` of row `row` of a tile whose columns are `column` bytes.
  static __device__ __forceinline__ uint32_t offset(int row, int chunk, int column) {
    return chunk / 8 * column + row * 128 + ((chunk % 8 ^ (row & 7)) << 4);
  }

  __device__ __forceinline__ void start_barriers() const {
    for (int i = 0; i < kWgmmaStages; ++i) {
      init_barrier(keys_full(i), kConverts ? 4 : 1);
      init_barrier(values_full(i), kConverts ? 4 : 1);
      init_barrier(keys_free(i), 4 * kWgmmaGroups);
      init_barrier(values_free(i), 4 * kWgmmaGroups);
    }
    for (int i = 0; i < 2; ++i) {
      init_barrier(queries_full(i), 3);
      init_barrier(queries_free(i), 4 * kWgmmaGroups);
      init_barrier(raw_full(i), 1);
      init_barrier(raw_free(i), 4);
    }
    init_barrier(edge_full(), 1);
    publish_barriers();
  }
};

// A place in a ring of kCount; parity() is that of its current round.
template <int kCount>
struct Ring {
  int count = 0;
  __device__ __forceinline__ int place() const { return count % kCount; }
  __device__ __forceinline__ uint32_t parity() const { return count / kCount & 1; }
};

}  // namespace zonda::kernels::cuda
