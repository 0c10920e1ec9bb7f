// Packing of row-major matrices into panels, and reading one row back.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "base/dtype.h"
#include "base/error.h"
#include "kernels/gemm/linear.h"
#include "kernels/gemm/pack_sources.h"
#include "kernels/gemm/panel_layout.h"

namespace zonda::kernels {
namespace {

// The float formats: element k of the row goes to block k / block_k.
template <typename Element>
void pack_float_row(const SourceRow& source, const PanelLayout& layout, int64_t lane,
                    std::byte* panel) {
  const int64_t cols = source.view->type.cols;
  const Element* in = static_cast<const Element*>(source.view->data) + source.row * cols;
  Element* out = reinterpret_cast<Element*>(panel) + lane * layout.block_k;
  const int64_t pairs = layout.block_k;
  for (int64_t k = 0; k < cols; ++k) {
    out[k / pairs * pairs * kPanelRows + k % pairs] = in[k];
  }
}

void pack_scales(const SourceRow& source, const PanelLayout& layout, int64_t lane,
                 std::byte* panel) {
  const WeightView& view = *source.view;
  const int64_t groups = view.type.groups();
  for (int64_t group = 0; group < groups; ++group) {
    std::byte* at = panel + group * layout.scale_stride + lane * 2;
    std::memcpy(at, view.scales + source.row * groups + group, 2);
    if (view.type.has_minimum) {
      std::memcpy(at + kPanelRows * 2, view.minima + source.row * groups + group, 2);
    }
  }
}

void pack_int8_row(const SourceRow& source, const PanelLayout& layout, int64_t lane,
                   std::byte* panel) {
  const WeightType& type = source.view->type;
  const auto* in = static_cast<const uint8_t*>(source.view->data) + source.row * type.cols;
  // q + 128 of a two's complement byte is the byte with its sign bit flipped.
  const uint8_t flip = type.has_minimum ? 0 : 0x80;
  for (int64_t k = 0; k < layout.k; ++k) {
    std::byte* block = panel + layout.header_bytes + k / layout.block_k * layout.block_stride;
    const int64_t in_block = k % layout.block_k;
    const uint8_t u = k < type.cols ? in[k] ^ flip : flip;
    block[in_block / 4 * 64 + lane * 4 + in_block % 4] = std::byte{u};
  }
}

void pack_int4_row(const SourceRow& source, const PanelLayout& layout, int64_t lane,
                   std::byte* panel) {
  const WeightType& type = source.view->type;
  const auto* in =
      static_cast<const uint8_t*>(source.view->data) + source.row * ((type.cols + 1) / 2);
  const auto nibble = [&](int64_t k) -> int {
    if (k >= type.cols) {
      return layout.zero_point;
    }
    return k % 2 == 0 ? in[k / 2] & 0x0f : in[k / 2] >> 4;
  };
  for (int64_t k = 0; k < layout.k; k += 8) {
    std::byte* block = panel + layout.header_bytes + k / layout.block_k * layout.block_stride;
    std::byte* chunk = block + k % layout.block_k / 8 * 64 + lane * 4;
    for (int64_t t = 0; t < 4; ++t) {
      chunk[t] = static_cast<std::byte>(nibble(k + t) | nibble(k + 4 + t) << 4);
    }
  }
}

void pack_row(const SourceRow& source, const PanelLayout& layout, int64_t lane, std::byte* panel) {
  switch (source.view->type.format) {
    case WeightFormat::kFloat32:
      pack_float_row<float>(source, layout, lane, panel);
      break;
    case WeightFormat::kFloat16:
    case WeightFormat::kBFloat16:
      pack_float_row<uint16_t>(source, layout, lane, panel);
      break;
    case WeightFormat::kInt8:
      pack_scales(source, layout, lane, panel);
      pack_int8_row(source, layout, lane, panel);
      break;
    case WeightFormat::kInt4:
      pack_scales(source, layout, lane, panel);
      pack_int4_row(source, layout, lane, panel);
      break;
    case WeightFormat::kFloat8E4M3:
      break;
  }
}

float read_half(const std::byte* at) {
  uint16_t bits;
  std::memcpy(&bits, at, 2);
  return f16_to_float(bits);
}

float unpack_float(WeightFormat format, const std::byte* at) {
  if (format == WeightFormat::kFloat32) {
    float value;
    std::memcpy(&value, at, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, at, 2);
  return format == WeightFormat::kBFloat16 ? bf16_to_float(bits) : f16_to_float(bits);
}

void unpack_float_row(const PackedType& packed, const PanelLayout& layout, const std::byte* panel,
                      int64_t lane, float* out) {
  const int64_t element = packed.type.format == WeightFormat::kFloat32 ? 4 : 2;
  for (int64_t k = 0; k < packed.type.cols; ++k) {
    const std::byte* block = panel + k / layout.block_k * layout.block_stride;
    out[k] = unpack_float(packed.type.format,
                          block + (lane * layout.block_k + k % layout.block_k) * element);
  }
}

void unpack_integer_row(const PackedType& packed, const PanelLayout& layout, const std::byte* panel,
                        int64_t lane, float* out) {
  const bool is_int4 = packed.type.format == WeightFormat::kInt4;
  for (int64_t k = 0; k < packed.type.cols; ++k) {
    const int64_t block = k / layout.block_k;
    const int64_t in_block = k % layout.block_k;
    const std::byte* values = panel + layout.header_bytes + block * layout.block_stride;
    const std::byte* scales = panel + block * layout.scale_stride + lane * 2;
    const int64_t chunk = is_int4 ? in_block / 8 : in_block / 4;
    int u = static_cast<int>(values[chunk * 64 + lane * 4 + in_block % 4]);
    if (is_int4) {
      u = in_block % 8 < 4 ? u & 0x0f : u >> 4;
    }
    const float scaled = read_half(scales) * static_cast<float>(u - layout.zero_point);
    out[k] = layout.has_minimum ? scaled + read_half(scales + kPanelRows * 2) : scaled;
  }
}

}  // namespace

Result<void> pack_weights(const PackedType& packed, std::span<const WeightView> sources,
                          std::byte* out) {
  if (Result<void> checked = check_pack_sources(packed, sources); !checked) {
    return checked;
  }
  if (packed.type.format == WeightFormat::kFloat8E4M3) {
    return unsupported("[pack_weights] CPU linears take no fp8 weights; convert to bfloat16.");
  }
  const PanelLayout layout = panel_layout(packed);
  for (int64_t p = 0; p < layout.panels; ++p) {
    std::byte* panel = out + p * layout.panel_bytes;
    std::memset(panel, 0, static_cast<size_t>(layout.panel_bytes));
    const PanelRows rows = panel_rows(packed, p);
    for (int64_t lane = 0; lane < rows.count; ++lane) {
      pack_row(source_row(sources, rows.first + lane), layout, lane, panel);
    }
  }
  return {};
}

void unpack_row(const PackedType& packed, const std::byte* weights, int64_t row, float* out) {
  const PanelLayout layout = panel_layout(packed);
  int64_t panel = row / kPanelRows;
  int64_t lane = row % kPanelRows;
  if (packed.order == RowOrder::kInterleaved) {
    const int64_t source_rows = packed.type.rows / 2;
    const int64_t source = row / source_rows;
    panel = row % source_rows / kPanelRows * 2 + source;
    lane = row % source_rows % kPanelRows;
  }
  const std::byte* at = weights + panel * layout.panel_bytes;
  if (is_integer(packed.type.format)) {
    unpack_integer_row(packed, layout, at, lane, out);
  } else {
    unpack_float_row(packed, layout, at, lane, out);
  }
}

}  // namespace zonda::kernels
