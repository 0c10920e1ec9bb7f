// How decode attention divides a sequence's keys among blocks. Depends on the model's shape and the
// sequence's own length alone, so that results do not depend on the batch; which block takes which
// shares depends on the batch and changes nothing in them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace zonda::kernels::cuda {

inline constexpr int kDecodeWarps = 4;
inline constexpr int kDecodeThreads = 32 * kDecodeWarps;
inline constexpr int kDecodeTile = 16 * kDecodeWarps;  // keys that a block takes at a time
inline constexpr int kDecodeHeads = 8;                 // query heads of a row
inline constexpr int kMinDecodeShares = 8;
inline constexpr int kMaxDecodeShares = 64;
inline constexpr int kMaxDecodeCluster = 8;
inline constexpr int kSharesOfClusterBlock = 2;
inline constexpr int kTilesOfClusterBlock = 4;

// A row: up to kDecodeHeads query heads of one KV head of one sequence.
struct DecodeSplit {
  int32_t shares;       // at most, of a sequence
  int32_t group_tiles;  // rows of a KV head
  int32_t heads;        // most query heads of a row
};

// Shares for about 256 blocks from one long sequence.
constexpr DecodeSplit decode_split(int32_t num_heads, int32_t num_kv_heads) {
  const int32_t group = num_heads / num_kv_heads;
  const int32_t group_tiles = (group + kDecodeHeads - 1) / kDecodeHeads;
  const int32_t shares = 256 / (num_kv_heads * group_tiles);
  return {shares < kMinDecodeShares   ? kMinDecodeShares
          : shares > kMaxDecodeShares ? kMaxDecodeShares
                                      : shares,
          group_tiles, group < kDecodeHeads ? group : kDecodeHeads};
}

// Least tiles of a share by the tiles of a sequence: short shares end early, long ones are joined
// less often. An exchange for less than kFewTiles takes longer than it spares.
inline constexpr int32_t kFewTiles = 4;
inline constexpr int32_t kMediumTiles = 8;
constexpr int32_t least_tiles(int32_t tiles) {
  return tiles > kFewTiles && tiles <= kMediumTiles ? 2 : 4;
}

// The shares of the keys [begin, end): share i has the tiles [first + i * each, first + (i + 1) *
// each) below `last`.
struct DecodeShares {
  int32_t first;
  int32_t last;
  int32_t each;
  int32_t count;
};

constexpr DecodeShares decode_shares(const DecodeSplit& split, int32_t begin, int32_t end) {
  const int32_t first = begin / kDecodeTile;
  const int32_t last = (end + kDecodeTile - 1) / kDecodeTile;
  const int32_t even = (last - first + split.shares - 1) / split.shares;
  const int32_t least = least_tiles(last - first);
  const int32_t each = even > least ? even : least;
  return {first, last, each, (last - first + each - 1) / each};
}

// At least the shares of any sequence of up to max_kv_length keys.
constexpr int32_t most_decode_shares(const DecodeSplit& split, int32_t max_kv_length) {
  const int32_t tiles = (max_kv_length + kDecodeTile - 1) / kDecodeTile;
  if (tiles <= kFewTiles) {
    return 1;
  }
  const int32_t medium = ((tiles < kMediumTiles ? tiles : kMediumTiles) + 1) / 2;
  const int32_t many = (tiles + 3) / 4;
  const int32_t most = many > medium ? many : medium;
  return most < split.shares ? most : split.shares;
}

// Who takes the shares. `cluster` > 0: the blocks of a cluster have one row. 0: `blocks` blocks
// take equal numbers of shares of the whole batch, in order.
struct DecodePlan {
  DecodeSplit split;
  int32_t cluster;
  int32_t blocks;
};

// `multiprocessors` of the device, each with room for `blocks_each` blocks.
constexpr DecodePlan decode_plan(const DecodeSplit& split, int32_t rows, int32_t max_kv_length,
                                 int32_t multiprocessors, int32_t blocks_each, bool clusters) {
  const int32_t shares = most_decode_shares(split, max_kv_length);
  int32_t cluster = kMaxDecodeCluster;
  while (cluster > 1 && (cluster / 2 >= shares || int64_t{rows} * cluster > multiprocessors)) {
    cluster /= 2;
  }
  // A long row has more use for the whole device than for a quick exchange.
  const bool is_short = shares <= cluster * kSharesOfClusterBlock &&
                        max_kv_length <= cluster * kTilesOfClusterBlock * kDecodeTile;
  if (clusters && cluster > 1 && is_short) {
    return {split, cluster, rows * cluster};
  }
  const int64_t all = int64_t{rows} * shares;
  const int32_t room = multiprocessors * blocks_each;
  return {split, 0, all < room ? static_cast<int32_t>(all) : room};
}

}  // namespace zonda::kernels::cuda
