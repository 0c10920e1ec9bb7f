// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/panel_layout.h"

#include <algorithm>

namespace zonda::kernels {
namespace {

constexpr int64_t kScaleBytes = kPanelRows * 2;
constexpr int64_t kPerChannelGroup = 128;

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

int64_t panel_count(const PackedType& packed) {
  if (packed.order == RowOrder::kInterleaved) {
    return 2 * ((packed.type.rows / 2 + kPanelRows - 1) / kPanelRows);
  }
  return (packed.type.rows + kPanelRows - 1) / kPanelRows;
}

// Fills the integer part; `k_bytes` panel bytes hold the values of 32 k, headers are a multiple of
// `header_unit`.
void set_integer_layout(const WeightType& type, int64_t k_bytes, int64_t header_unit,
                        PanelLayout& layout) {
  layout.k = round_up(type.cols, 32);
  layout.block_k = activation_group(type);
  layout.blocks = (layout.k + layout.block_k - 1) / layout.block_k;
  layout.has_minimum = type.has_minimum;
  const int64_t scales = round_up(kScaleBytes * (type.has_minimum ? 2 : 1), header_unit);
  const int64_t values = layout.block_k / 32 * k_bytes;
  if (type.group_size == 0) {
    layout.header_bytes = round_up(scales, 64);
    layout.block_stride = values;
    layout.panel_bytes = layout.header_bytes + layout.k / 32 * k_bytes;
  } else {
    layout.header_bytes = scales;
    layout.block_stride = scales + values;
    layout.scale_stride = layout.block_stride;
    layout.panel_bytes = layout.blocks * scales + layout.k / 32 * k_bytes;
  }
  layout.panel_bytes = round_up(layout.panel_bytes, 64);
}

void set_float_layout(int64_t k, int64_t block_k, int64_t element_bytes, PanelLayout& layout) {
  layout.k = k;
  layout.block_k = block_k;
  layout.blocks = k / block_k;
  layout.block_stride = block_k * kPanelRows * element_bytes;
  layout.panel_bytes = round_up(layout.blocks * layout.block_stride, 64);
}

}  // namespace

int64_t activation_group(const WeightType& type) {
  return type.group_size == 0 ? kPerChannelGroup : type.group_size;
}

PanelLayout panel_layout(const PackedType& packed) {
  const WeightType& type = packed.type;
  PanelLayout layout;
  layout.panels = panel_count(packed);
  switch (type.format) {
    case WeightFormat::kFloat32:
      set_float_layout(type.cols, 1, 4, layout);
      break;
    case WeightFormat::kFloat16:
      set_float_layout(type.cols, 1, 2, layout);
      break;
    case WeightFormat::kBFloat16:
      set_float_layout(round_up(type.cols, 32), 2, 2, layout);
      break;
    case WeightFormat::kInt8:
      set_integer_layout(type, 32 * kPanelRows, kScaleBytes, layout);
      layout.zero_point = type.has_minimum ? 0 : 128;
      break;
    case WeightFormat::kInt4:
      set_integer_layout(type, 16 * kPanelRows, kScaleBytes, layout);
      layout.zero_point = type.has_minimum ? 0 : 8;
      break;
    case WeightFormat::kFloat8E4M3:  // not packed for processors
      break;
  }
  return layout;
}

PanelLayout unpacked_int4_layout(const PackedType& packed) {
  PanelLayout layout;
  layout.panels = panel_count(packed);
  set_integer_layout(packed.type, 32 * kPanelRows, 64, layout);
  layout.zero_point = packed.type.has_minimum ? 0 : 8;
  return layout;
}

PanelRows panel_rows(const PackedType& packed, int64_t panel) {
  if (packed.order == RowOrder::kStacked) {
    const int64_t first = panel * kPanelRows;
    return {first, std::min(kPanelRows, packed.type.rows - first)};
  }
  const int64_t source_rows = packed.type.rows / 2;
  const int64_t row = panel / 2 * kPanelRows;
  return {panel % 2 * source_rows + row, std::min(kPanelRows, source_rows - row)};
}

int64_t packed_bytes(const PackedType& packed) {
  const PanelLayout layout = panel_layout(packed);
  return layout.panels * layout.panel_bytes;
}

}  // namespace zonda::kernels
