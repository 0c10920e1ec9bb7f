// One tile: consecutive tokens of a sequence and query heads that share a KV head, with the scratch
// to reduce ranges of keys for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention_checks.h"
#include "kernels/attention/cpu/attention_range.h"

namespace zonda::kernels {

// How query heads and tokens are cut into tiles of at most kTileRows rows.
struct TileShape {
  int32_t group;       // query heads of a KV head
  int32_t heads;       // query heads of a tile; the last tile of a group may have fewer
  int32_t head_tiles;  // tiles that a group's heads are cut into
  int32_t tokens;      // tokens of a tile
  static TileShape of(int32_t num_heads, int32_t num_kv_heads);

  int32_t token_tiles(const AttentionRow& row) const {
    return (row.num_tokens + tokens - 1) / tokens;
  }
};

struct Tile {
  const AttentionRow* row = nullptr;
  int32_t token_begin = 0;  // in the row
  int32_t num_tokens = 0;
  int32_t kv_head = 0;
  int32_t head_begin = 0;
  int32_t num_heads = 0;

  // `index` counts the KV heads and head tiles of a token tile.
  static Tile of(const TileShape& shape, const AttentionRow& row, int32_t token_tile,
                 int32_t index);
};

// Ranges of keys [begin, end) that some token of the tile sees.
struct RangeSpan {
  int32_t begin;
  int32_t end;
};
RangeSpan visible_ranges(const AttentionParams& params, const Tile& tile);

// Bytes of one thread's scratch; a multiple of 64.
int64_t tile_scratch_bytes(int32_t head_size);

// Reduces ranges for one tile after another, in the scratch of one thread.
class TileWorker {
 public:
  // `scratch`: tile_scratch_bytes(...), 64-byte aligned.
  TileWorker(const AttentionParams& params, const AttentionKernel& kernel, std::byte* scratch);

  // Starts a tile: its rows have seen no key yet.
  void begin(const Tile& tile);
  // Joins the keys of one range; `end` is the end of the ranges that will be reduced one by one.
  void reduce(int32_t range, int32_t end);
  // The state of a row (token of the tile, head of the tile); joined over all reduced ranges.
  RowState state(int32_t token, int32_t head) const;
  // Writes params.out for all rows.
  void finish() const;

 private:
  void locate_keys(int32_t range, KeyRange* keys) const;
  int fill_runs(int32_t range);

  const AttentionParams& params_;
  const AttentionKernel& kernel_;
  TileScratch scratch_;
  Tile tile_;
  const float* q_[kTileRows];
  RowRun runs_[kTileRows];
  KeyRange located_[2];         // of ranges with even and odd index
  int32_t located_range_ = -1;  // the last one located for this tile
};

// out = o / l of one row.
void finish_row(const RowState& state, int32_t head_size, float* out);

}  // namespace zonda::kernels
