// What one instruction set supplies for attention: reducing one range of keys for a tile of query
// rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace zonda::kernels {

// The arithmetic of one query row, which no tiling, batch or thread count changes. Range r is the
// keys at positions [64 r, 64 r + 64), of which the row sees some. For each range in order of r:
//   s[k] = scale * (q[0] * key[0] + q[1] * key[1] + ...), one fma chain from 0 in order of the
//          dimension; then cap * tanh(s / cap) if there is a cap
//   m_r  = max s;  p[k] = exp(s[k] - m_r)
//   l_r  = sum of p: key k to lane k mod 16 in order, lanes added as a tree (Lanes16::tree_sum)
//   o_r  = one fma chain from 0 over the keys in order, per dimension
// and the range joins the row's state, which starts as m = -infinity, l = 0, o = 0:
//   m' = max(m, m_r);  a = exp(m - m');  b = exp(m_r - m');  l = fma(l, a, l_r * b);
//   o = fma(o, a, o_r * b);  m = m'
// At the end out = o * (1 / l).
inline constexpr int kRangeKeys = 64;
// Query rows (token, head) that share a loaded range.
inline constexpr int kTileRows = 120;
// Room for vectors that start at the last row.
inline constexpr int kPaddedTileRows = 144;

static inline int64_t padded_head_size(int64_t head_size) { return (head_size + 15) / 16 * 16; }

// The keys of a range that some row of the tile sees, by their place in the cache. Entries outside
// [begin, end) repeat the nearest one inside: readable, and their scores are not used.
struct KeyRange {
  const std::byte* keys[kRangeKeys];    // [head_size] of dtype each
  const std::byte* values[kRangeKeys];  // [head_size] of dtype each
  int begin;
  int end;
};

// Consecutive rows that see the same keys [key_begin, key_end) of the range.
struct RowRun {
  int first_row;
  int num_rows;
  int key_begin;
  int key_end;
};

// Scratch of one thread; 64-byte aligned, all float32.
struct TileScratch {
  float* keys;    // [4 groups of 16 keys][head_size][16]
  float* values;  // [padded head_size / 16][64 keys][16]
  float* scores;  // [kTileRows][64]
  float* max;     // [kPaddedTileRows]
  float* sum;     // [kPaddedTileRows]
  float* out;     // [kTileRows][padded head_size]: the running o, not yet divided
};

struct RangeArgs {
  const KeyRange* range = nullptr;
  const KeyRange* next = nullptr;  // reduced after this one: its cache lines are asked for; or null
  std::span<const RowRun> runs;
  const float* const* q = nullptr;  // [rows] pointers to [head_size]
  TileScratch scratch;
  int32_t head_size = 0;
  DType dtype = DType::kFloat32;
  float scale = 1.0f;
  float soft_cap = 0.0f;
};

// State of one row outside a tile.
struct RowState {
  float* max;
  float* sum;
  float* out;  // [padded head_size]
};

struct AttentionKernel {
  // Joins the range to the state of the rows in args.runs.
  void (*reduce_range)(const RangeArgs& args);
  // Joins a range that was reduced on its own to the state of a row; `size` is padded.
  void (*join)(const RowState& state, const RowState& range, int64_t size);
};

extern const AttentionKernel kAttentionAvx2;
extern const AttentionKernel kAttentionAvx512;

}  // namespace zonda::kernels
