// Which recorded graph serves a decode step: padded batch sizes and context lengths.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "engine/cuda/step_inputs.h"

namespace zonda::engine::cuda {

struct GraphLimits {
  int64_t max_batch = 0;   // sequences
  int64_t max_tokens = 0;  // tokens a step
  int32_t max_blocks = 0;  // of a sequence
};

// The padded shape of a step in which every sequence has one token whose logits are wanted: batches
// of 1 to 8, then multiples of 8 up to 64, of 16 up to 256, of 64 above; block tables of a power of
// two of at least 16 blocks. None for other steps, and where the padding exceeds a limit.
std::optional<StepShapeKey> graph_shape(const StepShapeKey& step, const GraphLimits& limits);

}  // namespace zonda::engine::cuda
