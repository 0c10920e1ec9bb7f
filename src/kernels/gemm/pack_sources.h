// The row-major sources of one packed matrix: what both backends check and how they find a row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kernels/gemm/linear.h"

namespace zonda::kernels {

// One row of one source.
struct SourceRow {
  const WeightView* view;
  int64_t row;
};

// kInvalidArgument names the field in which a source differs from `packed`.
Result<void> check_pack_sources(const PackedType& packed, std::span<const WeightView> sources);
// Row `row` of the sources one after another; `row` is less than their rows together.
SourceRow source_row(std::span<const WeightView> sources, int64_t row);

}  // namespace zonda::kernels
