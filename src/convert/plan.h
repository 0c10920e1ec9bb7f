// Which type every weight of the checkpoint gets, and whether the source has what that needs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "convert/source.h"
#include "zonda/convert.h"

namespace zonda::convert {

struct PlannedPart {
  models::WeightPart part;
  SourceTensor tensor;
};

struct PlannedWeight {
  models::WeightSpec spec;
  std::vector<PlannedPart> parts;  // in row order
  WeightType type;                 // vectors: float32 [1, rows]
  bool exact = false;              // what is quantised already is kept, values do not change
  float tensor_scale = 0.0f;       // fp8 made here with one scale: set by find_tensor_scales()
};

struct ConvertPlan {
  std::vector<PlannedWeight> weights;
  models::ModelConfig config;  // dtype and quantization as the checkpoint states them
};

// Errors list missing and unused tensors, and name wrong shapes and dtypes with expected and found.
// A tied lm_head in the source that equals the embedding is noted in source.remarks.
Result<ConvertPlan> make_plan(Source& source, const ConvertOptions& options);

// `pattern` with "*" for any characters.
bool matches_pattern(std::string_view pattern, std::string_view text);

}  // namespace zonda::convert
