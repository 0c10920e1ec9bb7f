// Matrices in a 16-bit float format, for kernels that do not take the one they are stored in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/weight_format.h"

namespace zonda::engine {

// Views of the sources, or of converted copies owned here.
struct ConvertedWeights {
  std::vector<WeightView> views;
  std::vector<std::vector<uint16_t>> copies;
};

// Rounds sources of other formats to `format` (float16 or bfloat16), each value once from float32;
// those of `format` stay, whatever it is. kInvalidArgument if a value exceeds what float16 holds.
Result<ConvertedWeights> convert_weights(std::span<const WeightView> sources, WeightFormat format);

}  // namespace zonda::engine
