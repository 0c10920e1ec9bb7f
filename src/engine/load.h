// The decisions of loading an engine: which tactics run here, and how many cache blocks fit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "engine/backend.h"

namespace zonda::engine {

// Afterwards every linear of the plan names tactics that `device` has. An engine timed on another
// device is timed again, with a log line, or refused if `strict`.
Result<void> resolve_tactics(EngineFile& file, OpenDevice& device, bool strict);

// Blocks by kv_cache_bytes, or by the fraction of `free_bytes` of the device's memory but no more
// than max_batch_size full sequences need. kCapacity if not even one block fits.
Result<int32_t> kv_cache_blocks(const EnginePlan& plan, const EngineOptions& options,
                                int64_t free_bytes);

// The packed copies of all linears of a plan, one sample for each distinct (type, epilogue,
// after_norm); index by call.
struct SampledLinears {
  std::vector<LinearSample> samples;
  std::vector<int32_t> sample_of_call;  // -1 for other calls
};
SampledLinears collect_linears(const EnginePlan& plan, const std::byte* weights);

// Writes the chosen tactics, one entry a sample, into the linears of a plan.
void set_tactics(EnginePlan& plan, const SampledLinears& linears,
                 const std::vector<BucketTimes>& times);

}  // namespace zonda::engine
