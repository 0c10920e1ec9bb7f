// How decode attention divides a sequence's keys among blocks. Depends on the model's shape and the
// sequence's own length alone, so that results do not depend on the batch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>

namespace zonda::kernels::cuda {

inline constexpr int kDecodeWarps = 4;
inline constexpr int kDecodeThreads = 32 * kDecodeWarps;
inline constexpr int kDecodeTile = 16 * kDecodeWarps;  // keys that a block takes at a time
inline constexpr int kDecodeHeads = 8;                 // query heads of a block
inline constexpr int kMinDecodeShares = 4;
inline constexpr int kMaxDecodeShares = 64;

struct DecodeSplit {
  int32_t shares;       // at most, of a sequence
  int32_t group_tiles;  // blocks that share a KV head's keys, kDecodeHeads query heads each
  int32_t heads;        // most query heads of a block
};

// Shares for at most about 256 blocks from one sequence.
constexpr DecodeSplit decode_split(int32_t num_heads, int32_t num_kv_heads) {
  const int32_t group = num_heads / num_kv_heads;
  const int32_t group_tiles = (group + kDecodeHeads - 1) / kDecodeHeads;
  const int32_t shares = 256 / (num_kv_heads * group_tiles);
  return {shares < kMinDecodeShares   ? kMinDecodeShares
          : shares > kMaxDecodeShares ? kMaxDecodeShares
                                      : shares,
          group_tiles, group < kDecodeHeads ? group : kDecodeHeads};
}

// Least tiles of a share by the tiles of a sequence: a block of one tile spends most of its time on
// starting and joining.
inline constexpr int32_t kMediumTiles = 48;
inline constexpr int32_t kManyTiles = 256;
constexpr int32_t least_tiles(int32_t tiles) {
  return tiles < kMediumTiles ? 2 : tiles < kManyTiles ? 4 : 8;
}

// Tiles [first_tile, last_tile) of one share of the keys [begin, end); `used` shares have any.
struct DecodeShare {
  int32_t first_tile;
  int32_t last_tile;
  int32_t used;
};

constexpr DecodeShare decode_share(const DecodeSplit& split, int32_t begin, int32_t end,
                                   int32_t share) {
  const int32_t first = begin / kDecodeTile;
  const int32_t last = (end + kDecodeTile - 1) / kDecodeTile;
  const int32_t even = (last - first + split.shares - 1) / split.shares;
  const int32_t least = least_tiles(last - first);
  const int32_t each = even > least ? even : least;
  const int32_t from = first + share * each;
  return {from, from + each < last ? from + each : last, (last - first + each - 1) / each};
}

// Shares that a launch needs for sequences of up to max_kv_length keys.
constexpr int32_t decode_blocks(const DecodeSplit& split, int32_t max_kv_length) {
  const int32_t tiles = (max_kv_length + kDecodeTile - 1) / kDecodeTile;
  // A sequence just below a step of least_tiles may need more than a longer one.
  int32_t most = 0;
  for (const int32_t longest : {tiles, kManyTiles - 1, kMediumTiles - 1}) {
    const int32_t most_here = longest < tiles ? longest : tiles;
    const int32_t used = (most_here + least_tiles(most_here) - 1) / least_tiles(most_here);
    most = used > most ? used : most;
  }
  return most < split.shares ? most : split.shares;
}

}  // namespace zonda::kernels::cuda
