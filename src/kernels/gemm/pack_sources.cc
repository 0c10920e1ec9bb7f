// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/pack_sources.h"

#include "base/error.h"

namespace zonda::kernels {

Result<void> check_pack_sources(const PackedType& packed, std::span<const WeightView> sources) {
  if (sources.empty()) {
    return invalid_argument("[pack_weights] there is no source matrix.");
  }
  int64_t rows = 0;
  for (const WeightView& source : sources) {
    const WeightType& type = source.type;
    if (type.format != packed.type.format) {
      return invalid_argument("[pack_weights] source format {} differs from packed format {}.",
                              weight_format_name(type.format),
                              weight_format_name(packed.type.format));
    }
    if (type.cols != packed.type.cols) {
      return invalid_argument("[pack_weights] source cols {} differ from packed cols {}.",
                              type.cols, packed.type.cols);
    }
    if (type.group_size != packed.type.group_size) {
      return invalid_argument("[pack_weights] source group_size {} differs from packed {}.",
                              type.group_size, packed.type.group_size);
    }
    if (type.has_minimum != packed.type.has_minimum) {
      return invalid_argument("[pack_weights] source has_minimum {} differs from packed {}.",
                              type.has_minimum, packed.type.has_minimum);
    }
    rows += type.rows;
  }
  if (rows != packed.type.rows) {
    return invalid_argument("[pack_weights] the sources' rows {} differ from packed rows {}.", rows,
                            packed.type.rows);
  }
  if (packed.order == RowOrder::kInterleaved &&
      (sources.size() != 2 || sources[0].type.rows != sources[1].type.rows)) {
    return invalid_argument(
        "[pack_weights] interleaved order needs two sources of equal rows, found {} sources.",
        sources.size());
  }
  const int32_t group = packed.type.group_size;
  if (is_quantized(packed.type.format) && group != 0 && group != 32 && group != 64 &&
      group != 128) {
    return invalid_argument("[pack_weights] group_size {} is none of 0, 32, 64, 128.", group);
  }
  return {};
}

SourceRow source_row(std::span<const WeightView> sources, int64_t row) {
  for (const WeightView& source : sources) {
    if (row < source.type.rows) {
      return {&source, row};
    }
    row -= source.type.rows;
  }
  CHECK(false);
  return {};
}

}  // namespace zonda::kernels
