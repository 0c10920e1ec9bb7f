// Where the values of a packed matrix lie on a CUDA device; usable on host and device alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/gemm/linear.h"

namespace zonda::kernels::cuda {

// Rows are kept in tiles of 16 (the M of m16n8k16), padded with zero rows: tile t of stacked order
// holds rows 16t .. 16t + 15, of interleaved order rows 16(t/2) .. of source t % 2.
//   bfloat16, float16   row-major [16 * tiles][cols padded to 32], zeros behind cols
//   int8, int4          prepacked as fragments, k in chunks of 128. A warp's 16-byte loads are
//                       [tile][chunk][load][lane][16 bytes], lane = 4 * (row % 8) + (k % 32) / 8:
//     int8  load = 32 k: bytes 0-7 are row r, bytes 8-15 row r + 8; each q, or u - 128 with minimum
//     int4  load = 64 k: word 2s + h holds k = 32s + 4h + {0, 1, 2, 3} of the lane's eight; value
//           2i + j (of four) of row r + 8m is the nibble at bit 16j + 8i + 4m: u, that is q + 8
//   then, 256-byte aligned, float16 scales as words (row r low, row r + 8 high):
//     groups       [tile][chunk][8 rows][groups of a chunk][scale, minimum if any]
//     per channel  [tile][8 rows][scale, minimum if any]
//   fp8                 row-major [16 * tiles][cols padded to 128] bytes, zeros behind cols, then
//                       float32 [16 * tiles] scales of the rows. Within each 64 k bytes stand in
//                       the order in which a lane of m16n8k16 takes them: byte 16t + 8s + i holds
//                       k = 32s + 8t + i with the middle two of each four exchanged. Tokens in fp8
//                       take the same order, so that products over k are those of any order.
inline constexpr int kTileRows = 16;
inline constexpr int kChunk = 128;
inline constexpr int kLoadBytes = 512;  // 16 bytes from each lane of a warp

struct PackedLayout {
  WeightFormat format = WeightFormat::kBFloat16;
  bool has_minimum = false;
  int32_t rows = 0;
  int32_t source_rows = 0;  // of one source; 0: stacked order
  int32_t cols = 0;
  int32_t padded_cols = 0;  // formats that are no integers: row pitch in elements
  int32_t tiles = 0;
  int32_t chunks = 0;
  int32_t chunk_groups = 0;  // groups of a chunk: 1, 2, 4; 0: per channel
  int64_t scale_offset = 0;  // bytes
  int64_t bytes = 0;
};

constexpr int64_t padded_to(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Loads of a tile's chunk.
constexpr int chunk_loads(WeightFormat format) { return format == WeightFormat::kInt4 ? 2 : 4; }

constexpr PackedLayout packed_layout(const PackedType& packed) {
  const WeightType& type = packed.type;
  PackedLayout layout;
  layout.format = type.format;
  layout.has_minimum = type.has_minimum;
  layout.rows = static_cast<int32_t>(type.rows);
  layout.cols = static_cast<int32_t>(type.cols);
  layout.chunks = static_cast<int32_t>(padded_to(type.cols, kChunk) / kChunk);
  if (packed.order == RowOrder::kInterleaved) {
    layout.source_rows = layout.rows / 2;
    layout.tiles = static_cast<int32_t>(2 * padded_to(layout.source_rows, kTileRows) / kTileRows);
  } else {
    layout.tiles = static_cast<int32_t>(padded_to(type.rows, kTileRows) / kTileRows);
  }
  if (type.format == WeightFormat::kFloat8E4M3) {
    layout.padded_cols = layout.chunks * kChunk;
    layout.scale_offset = int64_t{layout.tiles} * kTileRows * layout.padded_cols;
    layout.bytes = padded_to(layout.scale_offset + int64_t{layout.tiles} * kTileRows * 4, 256);
    return layout;
  }
  if (!is_integer(type.format)) {
    layout.padded_cols = static_cast<int32_t>(padded_to(type.cols, 32));
    layout.bytes = padded_to(int64_t{layout.tiles} * kTileRows * layout.padded_cols * 2, 256);
    return layout;
  }
  layout.padded_cols = layout.chunks * kChunk;
  layout.chunk_groups = type.group_size == 0 ? 0 : kChunk / type.group_size;
  layout.scale_offset =
      int64_t{layout.tiles} * layout.chunks * chunk_loads(type.format) * kLoadBytes;
  const int64_t groups = type.group_size == 0 ? 1 : layout.chunks * layout.chunk_groups;
  const int64_t words = layout.tiles * 8 * groups * (type.has_minimum ? 2 : 1);
  layout.bytes = padded_to(layout.scale_offset + words * 4, 256);
  return layout;
}

// Column in y (source row order) of row `row` of a tile, or -1 for a padding row.
constexpr int32_t row_column(const PackedLayout& layout, int32_t tile, int32_t row) {
  if (layout.source_rows == 0) {
    const int32_t column = tile * kTileRows + row;
    return column < layout.rows ? column : -1;
  }
  const int32_t in_source = tile / 2 * kTileRows + row;
  return in_source < layout.source_rows ? tile % 2 * layout.source_rows + in_source : -1;
}

struct TileRow {
  int32_t tile;
  int32_t row;
};

// The inverse of row_column.
constexpr TileRow find_row(const PackedLayout& layout, int64_t column) {
  if (layout.source_rows == 0) {
    return {static_cast<int32_t>(column / kTileRows), static_cast<int32_t>(column % kTileRows)};
  }
  const auto source = static_cast<int32_t>(column / layout.source_rows);
  const auto in_source = static_cast<int32_t>(column % layout.source_rows);
  return {in_source / kTileRows * 2 + source, in_source % kTileRows};
}

// Element index of a float weight.
constexpr int64_t float_place(const PackedLayout& layout, TileRow at, int32_t k) {
  return (int64_t{at.tile} * kTileRows + at.row) * layout.padded_cols + k;
}

// Where k of fp8 stands within its row.
constexpr int32_t fp8_position(int32_t k) {
  const int32_t in_four = k % 2 * 2 + k % 4 / 2;
  return k / 64 * 64 + k % 32 / 8 * 16 + k % 64 / 32 * 8 + k % 8 / 4 * 4 + in_four;
}

// Byte of an fp8 weight, and of the float32 scale of its row.
constexpr int64_t fp8_place(const PackedLayout& layout, TileRow at, int32_t k) {
  return float_place(layout, at, 0) + fp8_position(k);
}
constexpr int64_t fp8_scale_place(const PackedLayout& layout, TileRow at) {
  return layout.scale_offset + (int64_t{at.tile} * kTileRows + at.row) * 4;
}

// Byte of an int8 weight, and byte of the word of an int4 weight.
constexpr int64_t integer_place(const PackedLayout& layout, TileRow at, int32_t k) {
  const int32_t in_chunk = k % kChunk;
  const int32_t lane = at.row % 8 * 4 + k % 32 / 8;
  const int64_t chunk = int64_t{at.tile} * layout.chunks + k / kChunk;
  if (layout.format == WeightFormat::kInt8) {
    return (chunk * 4 + in_chunk / 32) * kLoadBytes + lane * 16 + at.row / 8 * 8 + k % 8;
  }
  const int32_t word = in_chunk % 64 / 32 * 2 + k % 8 / 4;
  return (chunk * 2 + in_chunk / 64) * kLoadBytes + lane * 16 + word * 4;
}

// Bit of an int4 weight in its word.
constexpr int int4_shift(int32_t row, int32_t k) {
  return k % 2 * 16 + k % 4 / 2 * 8 + row / 8 * 4;
}

// Byte of the float16 scale; the minimum lies 4 bytes behind it.
constexpr int64_t scale_place(const PackedLayout& layout, TileRow at, int32_t k) {
  const int32_t planes = layout.has_minimum ? 2 : 1;
  int64_t word = int64_t{at.tile} * 8 + at.row % 8;
  if (layout.chunk_groups != 0) {
    const int32_t group_size = kChunk / layout.chunk_groups;
    const int64_t chunk = int64_t{at.tile} * layout.chunks + k / kChunk;
    word = (chunk * 8 + at.row % 8) * layout.chunk_groups + k % kChunk / group_size;
  }
  return layout.scale_offset + word * planes * 4 + at.row / 8 * 2;
}

}  // namespace zonda::kernels::cuda
