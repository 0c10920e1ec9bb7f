// The tiles of queries of a launch, dealt to a fixed number of blocks without talking: those that
// see the most keys first. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/cuda/attention.h"

namespace zonda::kernels::cuda {

struct QueryTile {
  int sequence;
  int row;  // first token of the tile in its sequence's chunk
  int head;
};

// The state of a whole warp. Tiles are numbered by the level at which they end, in tiles of kRows
// tokens from position 0, the highest first; then by sequence; then by head, so that heads of one
// KV head follow each other.
template <int kRows>
class TileWalk {
 public:
  __device__ __forceinline__ explicit TileWalk(const AttentionParams& p)
      : groups_((p.num_sequences + 31) / 32) {
    level_ = -1;
    for (group_ = 0; group_ < groups_; ++group_) {
      load(p);
      level_ = max(level_, first_level_ + tiles_ - 1);
    }
    level_ = __reduce_max_sync(~0u, level_);
    group_ = 0;
    load(p);
  }

  // The tile of the block's `turn`-th turn; turns must rise. Every other turn goes through the
  // blocks backwards, so that none always takes the longer tiles.
  __device__ __forceinline__ bool find(const AttentionParams& p, int turn, QueryTile& tile) {
    const int blocks = gridDim.x;
    const int block = blockIdx.x;
    const int index = turn * blocks + (turn % 2 == 0 ? block : blocks - 1 - block);
    while (level_ >= 0) {
      const int row_tile = level_ - first_level_;
      const bool lives = row_tile >= 0 && row_tile < tiles_;
      const uint32_t live = __ballot_sync(~0u, lives);
      const int count = __popc(live) * p.num_heads;
      if (index < passed_ + count) {
        const int place = index - passed_;
        const uint32_t below = (1u << (threadIdx.x % 32)) - 1;
        const uint32_t chosen =
            __ballot_sync(~0u, lives && __popc(live & below) == place / p.num_heads);
        const int lane = __ffs(static_cast<int>(chosen)) - 1;
        tile.sequence = group_ * 32 + lane;
        tile.row = __shfl_sync(~0u, row_tile, lane) * kRows;
        tile.head = place % p.num_heads;
        return true;
      }
      passed_ += count;
      if (++group_ == groups_) {
        group_ = 0;
        --level_;
      }
      if (groups_ > 1) {
        load(p);
      }
    }
    return false;
  }

 private:
  // One sequence a lane.
  __device__ __forceinline__ void load(const AttentionParams& p) {
    const int sequence = group_ * 32 + static_cast<int>(threadIdx.x % 32);
    const bool inside = sequence < p.num_sequences;
    tiles_ = inside ? (p.num_tokens[sequence] + kRows - 1) / kRows : 0;
    first_level_ = inside ? p.start_position[sequence] / kRows : 0;
  }

  int groups_;  // of 32 sequences
  int group_;
  int level_;
  int passed_ = 0;  // tiles of the levels and groups before
  int first_level_;
  int tiles_;
};

}  // namespace zonda::kernels::cuda
