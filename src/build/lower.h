// A verified graph -> the kernel calls of an EnginePlan, with its tables of packed matrices and
// vectors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "build/weight_source.h"
#include "engine/backend.h"
#include "graph/graph.h"

namespace zonda::build {

// `model`: the dtype of its unquantised weights. Fills calls, slots, matrices, vectors,
// logits_slot, num_heads and vocab_size of `plan`; offsets and tactics stay open. kUnsupported if a
// node changes a value in place that is still read, or merged parts are stored differently.
Result<void> lower(const graph::Graph& graph, const WeightSource& weights,
                   const engine::Backend& backend, DType model, engine::EnginePlan& plan);

}  // namespace zonda::build
