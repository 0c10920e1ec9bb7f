// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/graph_shape.h"

#include <algorithm>
#include <bit>

namespace zonda::engine::cuda {
namespace {

int64_t padded_batch(int64_t batch) {
  const int64_t multiple = batch <= 8 ? 1 : batch <= 64 ? 8 : batch <= 256 ? 16 : 64;
  return (batch + multiple - 1) / multiple * multiple;
}

}  // namespace

std::optional<StepShapeKey> graph_shape(const StepShapeKey& step, const GraphLimits& limits) {
  if (step.prefilling != 0 || step.decoding == 0 || step.tokens != step.decoding ||
      step.selected != step.tokens) {
    return std::nullopt;
  }
  const int64_t batch = std::min({padded_batch(step.tokens), limits.max_batch, limits.max_tokens});
  if (batch < step.tokens) {
    return std::nullopt;
  }
  StepShapeKey padded;
  padded.tokens = padded.selected = batch;
  padded.decoding = static_cast<int32_t>(batch);
  const uint32_t blocks = std::bit_ceil(static_cast<uint32_t>(std::max(step.table_blocks, 16)));
  padded.table_blocks =
      std::max(step.table_blocks, std::min(static_cast<int32_t>(blocks), limits.max_blocks));
  return padded;
}

}  // namespace zonda::engine::cuda
