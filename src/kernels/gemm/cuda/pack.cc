// Packing of row-major matrices for a CUDA device, on the host.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "base/dtype.h"
#include "base/error.h"
#include "kernels/gemm/cuda/linear.h"
#include "kernels/gemm/cuda/packed_layout.h"
#include "kernels/gemm/pack_sources.h"

namespace zonda::kernels::cuda {
namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 30;

void pack_float_row(const SourceRow& source, const PackedLayout& layout, TileRow at,
                    std::byte* out) {
  const auto* in = static_cast<const uint16_t*>(source.view->data) + source.row * layout.cols;
  std::memcpy(out + float_place(layout, at, 0) * 2, in, static_cast<size_t>(layout.cols) * 2);
}

void pack_int8_row(const SourceRow& source, const PackedLayout& layout, TileRow at,
                   std::byte* out) {
  const auto* in = static_cast<const uint8_t*>(source.view->data) + source.row * layout.cols;
  const uint8_t flip = layout.has_minimum ? 0x80 : 0;
  for (int32_t k = 0; k < layout.cols; ++k) {
    out[integer_place(layout, at, k)] = std::byte{static_cast<uint8_t>(in[k] ^ flip)};
  }
}

void pack_int4_row(const SourceRow& source, const PackedLayout& layout, TileRow at,
                   std::byte* out) {
  const int64_t pitch = (layout.cols + 1) / 2;
  const auto* in = static_cast<const uint8_t*>(source.view->data) + source.row * pitch;
  for (int32_t k = 0; k < layout.cols; ++k) {
    const uint32_t nibble = k % 2 == 0 ? in[k / 2] & 0x0fu : in[k / 2] >> 4;
    const int shift = int4_shift(at.row, k);
    out[integer_place(layout, at, k) + shift / 8] |= static_cast<std::byte>(nibble << (shift % 8));
  }
}

void pack_fp8_row(const SourceRow& source, const PackedLayout& layout, TileRow at, std::byte* out) {
  const auto* in = static_cast<const std::byte*>(source.view->data) + source.row * layout.cols;
  std::byte* to = out + fp8_place(layout, at, 0);
  for (int32_t k = 0; k < layout.cols; ++k) {
    to[fp8_position(k)] = in[k];
  }
  const float scale = source.view->row_scale(source.row);
  std::memcpy(out + fp8_scale_place(layout, at), &scale, sizeof(scale));
}

void pack_scales(const SourceRow& source, const PackedLayout& layout, TileRow at, std::byte* out) {
  const WeightView& view = *source.view;
  const int64_t groups = view.type.groups();
  for (int64_t group = 0; group < groups; ++group) {
    const auto k = static_cast<int32_t>(group * view.type.group_size);
    std::byte* scale = out + scale_place(layout, at, k);
    std::memcpy(scale, view.scales + source.row * groups + group, 2);
    if (layout.has_minimum) {
      std::memcpy(scale + 4, view.minima + source.row * groups + group, 2);
    }
  }
}

void pack_row(const SourceRow& source, const PackedLayout& layout, TileRow at, std::byte* out) {
  switch (layout.format) {
    case WeightFormat::kFloat32:
      break;
    case WeightFormat::kFloat16:
    case WeightFormat::kBFloat16:
      pack_float_row(source, layout, at, out);
      break;
    case WeightFormat::kInt8:
      pack_scales(source, layout, at, out);
      pack_int8_row(source, layout, at, out);
      break;
    case WeightFormat::kInt4:
      pack_scales(source, layout, at, out);
      pack_int4_row(source, layout, at, out);
      break;
    case WeightFormat::kFloat8E4M3:
      pack_fp8_row(source, layout, at, out);
      break;
  }
}

}  // namespace

int64_t packed_bytes(const PackedType& packed) { return packed_layout(packed).bytes; }

Result<void> pack_weights(const PackedType& packed, std::span<const WeightView> sources,
                          std::byte* out) {
  if (packed.type.format == WeightFormat::kFloat32) {
    return unsupported("[pack_weights] CUDA linears take no float32 weights; convert to bfloat16.");
  }
  if (Result<void> checked = check_pack_sources(packed, sources); !checked) {
    return checked;
  }
  if (packed.type.rows > kMaxExtent || packed.type.cols > kMaxExtent) {
    return unsupported("[pack_weights] a matrix of {} x {} is larger than {} a side.",
                       packed.type.rows, packed.type.cols, kMaxExtent);
  }
  const PackedLayout layout = packed_layout(packed);
  std::memset(out, 0, static_cast<size_t>(layout.bytes));
  for (int64_t row = 0; row < packed.type.rows; ++row) {
    pack_row(source_row(sources, row), layout, find_row(layout, row), out);
  }
  return {};
}

}  // namespace zonda::kernels::cuda
