// What decode attention copies to shared memory ahead of time: tiles of keys and values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/cuda/decode_tile.cuh"
#include "kernels/attention/cuda/decode_walk.cuh"

namespace zonda::kernels::cuda {

// Copies one warp's 16 keys and values of tile after tile of a block's runs. kHead: head_size, or
// with !kExact at least head_size; what lies beyond it and keys outside of [begin, stored) become
// zeros.
template <DType kKv, int kHead, bool kExact>
class DecodeLoads {
 public:
  using Shape = DecodeTileShape<kKv, kHead>;

  // `unstored`: newest keys that are not in the cache.
  __device__ __forceinline__ DecodeLoads(const AttentionParams& p, int unstored)
      : value_offset_(p.kv.num_kv_heads * head_bytes(p)),
        block_bytes_(static_cast<uint32_t>(p.kv.block_stride) * Shape::kBytes),
        row_bytes_(kExact ? Shape::kRowBytes : p.kv.head_size * Shape::kBytes),
        shift_(log2_of(p.kv.block_size)),
        unstored_(unstored) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = lane / Shape::kRowChunks;
    const int chunk = lane % Shape::kRowChunks;
    from_ = row * row_bytes_ + chunk * 16;
#pragma unroll
    for (int i = 0; i < kPlaces; ++i) {
      to_[i] = Shape::place(i * kRowsAtOnce + row, chunk);
    }
  }

  // With no tiles, as of a block without a share of its row, nothing is looked up.
  __device__ __forceinline__ void enter(const AttentionParams& p, const DecodeRun& run,
                                        const DecodeSplit& split) {
    tile_ = run.first_tile(run.first_share);
    end_tile_ = run.first_tile(run.end_share);
    begin_ = run.begin;
    stored_ = run.end - unstored_;
    head_ = static_cast<const char*>(p.kv.base) + run.place.row / split.group_tiles * head_bytes(p);
    if (run.place.sequence != sequence_ || tile_ < base_tile_ || tile_ >= base_tile_ + 32) {
      sequence_ = run.place.sequence;
      table_ = p.block_tables + sequence_ * p.table_stride;
      look_up();
    }
  }
  __device__ __forceinline__ bool has_tile() const { return tile_ < end_tile_; }

  // Copies the present tile and turns to the next one of the run.
  __device__ __forceinline__ void copy(uint32_t tile) {
    const int first = first_key();
    const int slot = first & ((1 << shift_) - 1);
    const int32_t block = __shfl_sync(~0u, blocks_, tile_ - base_tile_);
    if (kExact && shift_ >= 4 && first >= begin_ && first + 16 <= stored_) {
      const char* key = head_ + uint64_t{static_cast<uint32_t>(block)} * block_bytes_ +
                        (slot * Shape::kRowBytes + from_);
      const char* value = key + value_offset_;
#pragma unroll
      for (int i = 0; i < 16 / kRowsAtOnce; ++i) {
        const uint32_t to = tile + to_[i % kPlaces] + i / kPlaces * 8 * Shape::kRowBytes;
        copy_16(to, key + i * kRowsAtOnce * Shape::kRowBytes);
        copy_16(to + Shape::kValues, value + i * kRowsAtOnce * Shape::kRowBytes);
      }
    } else {
      copy_edge(tile, block);
    }
    if (++tile_ == base_tile_ + 32 && has_tile()) {
      look_up();
    }
  }

 private:
  static constexpr int kRowsAtOnce = 32 / Shape::kRowChunks;
  static constexpr int kPlaces = 8 / kRowsAtOnce;  // they repeat after eight rows

  static __device__ __forceinline__ int64_t head_bytes(const AttentionParams& p) {
    return int64_t{p.kv.block_size} * p.kv.head_size * Shape::kBytes;
  }
  __device__ __forceinline__ int first_key() const {
    return tile_ * kDecodeTile + static_cast<int>(threadIdx.x) / 32 * 16;
  }
  // Blocks of which no key is seen may be absent from the table.
  __device__ __forceinline__ int32_t block_of(int key, int keys) const {
    return key < stored_ && key + keys > begin_ ? load_early(table_ + (key >> shift_)) : 0;
  }
  // The blocks of 32 tiles at once: a load waits for all copies ahead of it.
  __device__ __forceinline__ void look_up() {
    base_tile_ = tile_;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    blocks_ = shift_ >= 4 ? block_of(first_key() + lane * kDecodeTile, 16) : 0;
  }
  __device__ __forceinline__ void copy_edge(uint32_t tile, int32_t block) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int chunk = lane % Shape::kRowChunks;
    const int32_t low = shift_ >= 4 ? block : block_of(first_key(), 8);
    const int32_t high = shift_ >= 4 ? block : block_of(first_key() + 8, 8);
#pragma unroll 1
    for (int row = lane / Shape::kRowChunks; row < 16; row += kRowsAtOnce) {
      const int key = first_key() + row;
      const int slot = key & ((1 << shift_) - 1);
      const uint32_t of_row = static_cast<uint32_t>(row < 8 ? low : high);
      const char* from = head_ + uint64_t{of_row} * block_bytes_ + slot * row_bytes_ + chunk * 16;
      const bool seen = key >= begin_ && key < stored_;
      copy_chunk(tile + Shape::place(row, chunk), from, chunk * 16, seen);
      copy_chunk(tile + Shape::kValues + Shape::place(row, chunk), from + value_offset_, chunk * 16,
                 seen);
    }
  }
  __device__ __forceinline__ void copy_chunk(uint32_t to, const char* from, int at,
                                             bool seen) const {
    if constexpr (kExact) {
      copy_16_or_zeros(to, from, seen);
    } else {
      // Rows may be aligned to 8 bytes only.
      copy_8_or_zeros(to, from, seen && at < row_bytes_);
      copy_8_or_zeros(to + 8, from + 8, seen && at + 8 < row_bytes_);
    }
  }

  int64_t value_offset_;  // from a key to the value of its slot
  uint32_t block_bytes_;  // from one block to the next
  int row_bytes_;
  int shift_;
  int unstored_;
  int from_;              // this lane's place in the rows that are copied at once
  uint32_t to_[kPlaces];  // and in the tile
  const char* head_;      // keys of the KV head in block 0
  const int32_t* table_;
  int tile_;
  int end_tile_;
  int begin_;
  int stored_;
  int sequence_ = -1;  // of the table
  int base_tile_ = 0;
  int32_t blocks_;  // of tile base_tile_ + lane, where blocks have 16 keys or more
};

}  // namespace zonda::kernels::cuda
