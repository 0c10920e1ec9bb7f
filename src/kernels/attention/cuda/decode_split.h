// How decode attention divides a sequence's keys among blocks. Depends on the model's shape and the
// sequence's own length alone, so that results do not depend on the batch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

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
};

// Shares for about 128 blocks from one sequence.
constexpr DecodeSplit decode_split(int32_t num_heads, int32_t num_kv_heads) {
  const int32_t group_tiles = (num_heads / num_kv_heads + kDecodeHeads - 1) / kDecodeHeads;
  const int32_t shares = 128 / (num_kv_heads * group_tiles);
  return {shares < kMinDecodeShares   ? kMinDecodeShares
          : shares > kMaxDecodeShares ? kMaxDecodeShares
                                      : shares,
          group_tiles};
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
  const int32_t each = (last - first + split.shares - 1) / split.shares;
  const int32_t from = first + share * each;
  return {from, from + each < last ? from + each : last, (last - first + each - 1) / each};
}

// Shares that a launch needs for sequences of up to max_kv_length keys.
constexpr int32_t decode_blocks(const DecodeSplit& split, int32_t max_kv_length) {
  const int32_t tiles = (max_kv_length + kDecodeTile - 1) / kDecodeTile;
  return tiles < split.shares ? tiles : split.shares;
}

}  // namespace zonda::kernels::cuda
