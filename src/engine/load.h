// The decisions of loading an engine: which tactics run here, and how many cache blocks fit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <vector>

#include "device/stream.h"
#include "engine/engine.h"
#include "engine/engine_file.h"
#include "engine/tactics.h"
#include "kernels/gemm/linear.h"

namespace zonda::engine {

using TacticTable = std::array<const kernels::LinearTactic*, kBucketTokens.size()>;

// One table a call (null entries for calls that are not linears). An engine timed on another device
// is timed again, with a log line, or refused if `strict`. Changes the plan's tactic names to those
// in use.
Result<std::vector<TacticTable>> resolve_tactics(EngineFile& file, device::Stream& stream,
                                                 bool strict);

// Blocks by kv_cache_bytes, or by the fraction of free memory but no more than max_batch_size full
// sequences need. kCapacity if not even one sequence of one block fits.
Result<int32_t> kv_cache_blocks(const EnginePlan& plan, const EngineOptions& options);

// The packed copies of all linears of a plan, one sample for each distinct (type, epilogue); index
// by call.
struct SampledLinears {
  std::vector<LinearSample> samples;
  std::vector<int32_t> sample_of_call;  // -1 for other calls
};
SampledLinears collect_linears(const EnginePlan& plan, const std::byte* weights);

}  // namespace zonda::engine
