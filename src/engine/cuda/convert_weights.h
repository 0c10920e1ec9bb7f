// Float matrices in another float format, for kernels that take only one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/weight_format.h"

namespace zonda::engine::cuda {

// Views of the sources, or of converted copies owned here.
struct ConvertedWeights {
  std::vector<WeightView> views;
  std::vector<std::vector<uint16_t>> copies;
};

// Rounds float sources to `format` (float16 or bfloat16) where they differ; quantised ones stay.
// kInvalidArgument if a value exceeds what float16 holds.
Result<ConvertedWeights> convert_weights(std::span<const WeightView> sources, WeightFormat format);

}  // namespace zonda::engine::cuda
