// Where the values of a packed matrix lie: panels of 16 rows, blocks of k inside a panel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/gemm/linear.h"

namespace zonda::kernels {

// A panel is 16 output rows by all of k. Inside it, block b (k in [b * block_k, (b + 1) * block_k))
// has its values at header_bytes + b * block_stride:
//   float32   block_k 1, [16 rows]
//   float16   block_k 1, [16 rows]
//   bfloat16  block_k 2, [16 rows][2 k]; k is padded to a multiple of 32 with zeros
//   int8      block_k = group, [group / 4][16 rows][4 k] of u
//   int4      block_k = group, [group / 8][16 rows][4 bytes]: byte t of chunk q holds k = 8q + t in
//             the low nibble and k = 8q + 4 + t in the high one
// u is unsigned: q + zero_point (128 or 8) without minimum, the stored u with (zero point 0). The
// last group is shorter when k (padded to 32) is no multiple of the group.
// Integer scales are float16[16] (then float16[16] minima, if any) at b * scale_stride: before each
// block's values, or once before the panel's first block when a row has one scale.
struct PanelLayout {
  int64_t panels = 0;
  int64_t panel_bytes = 0;  // multiple of 64
  int64_t k = 0;            // padded
  int64_t blocks = 0;
  int64_t block_k = 0;
  int64_t header_bytes = 0;
  int64_t block_stride = 0;
  int64_t scale_stride = 0;
  int32_t zero_point = 0;
  bool has_minimum = false;
};

// Values of k that share one activation scale: the weight group, 128 when a row has one scale.
int64_t activation_group(const WeightType& type);
PanelLayout panel_layout(const PackedType& packed);
// int8 blocks, 64-byte aligned, of the same groups: what an int4 panel is unpacked to.
PanelLayout unpacked_int4_layout(const PackedType& packed);

// Place of panel `panel` in y and bias: its first column and how many of its 16 rows are real.
struct PanelRows {
  int64_t first;
  int64_t count;
};
PanelRows panel_rows(const PackedType& packed, int64_t panel);

}  // namespace zonda::kernels
