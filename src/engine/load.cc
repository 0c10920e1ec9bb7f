// SPDX-License-Identifier: Apache-2.0
#include "engine/load.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "device/host_memory.h"
#include "engine/fingerprint.h"
#include "engine/tactics.h"

namespace zonda::engine {
namespace {

const kernels::LinearTactic* find_tactic(const WeightType& type, device::CpuIsa isa,
                                         const std::string& name) {
  for (const kernels::LinearTactic& tactic : kernels::linear_tactics(type, isa)) {
    if (tactic.name == name) {
      return &tactic;
    }
  }
  return nullptr;
}

// Times the linears of `file` on this device and writes the chosen names into its plan.
Result<void> time_again(EngineFile& file, device::Stream& stream) {
  TimingCache cache;
  TacticTimer timer(stream, cache);
  const SampledLinears linears = collect_linears(file.plan, file.weights.data());
  std::vector<BucketTimes> times;
  for (const LinearSample& sample : linears.samples) {
    Result<BucketTimes> chosen = timer.choose(sample, file.plan.limits.max_num_tokens);
    if (!chosen.ok()) {
      return chosen.error();
    }
    times.push_back(std::move(*chosen));
  }
  for (size_t i = 0; i < file.plan.calls.size(); ++i) {
    if (auto* linear = std::get_if<LinearCall>(&file.plan.calls[i].call)) {
      const BucketTimes& chosen = times[static_cast<size_t>(linears.sample_of_call[i])];
      std::transform(chosen.begin(), chosen.end(), linear->tactics.begin(),
                     [](const TacticTime& time) { return time.tactic; });
    }
  }
  return {};
}

}  // namespace

SampledLinears collect_linears(const EnginePlan& plan, const std::byte* weights) {
  SampledLinears out;
  for (const PlanCall& call : plan.calls) {
    const auto* linear = std::get_if<LinearCall>(&call.call);
    if (linear == nullptr) {
      out.sample_of_call.push_back(-1);
      continue;
    }
    const PlanMatrix& matrix = plan.matrices[static_cast<size_t>(linear->matrix)];
    const auto found =
        std::find_if(out.samples.begin(), out.samples.end(), [&](const LinearSample& sample) {
          return sample.packed == matrix.packed && sample.epilogue == linear->epilogue;
        });
    out.sample_of_call.push_back(static_cast<int32_t>(found - out.samples.begin()));
    if (found == out.samples.end()) {
      out.samples.push_back({matrix.packed, linear->epilogue, {weights + matrix.offset}});
    } else {
      found->copies.push_back(weights + matrix.offset);
    }
  }
  return out;
}

Result<std::vector<TacticTable>> resolve_tactics(EngineFile& file, device::Stream& stream,
                                                 bool strict) {
  const std::string here = device_fingerprint(stream);
  if (here != file.plan.device_fingerprint) {
    if (strict) {
      return unsupported(
          "[engine] {} was timed on \"{}\"; this device is \"{}\" and --strict_device is set.",
          file.file.path(), file.plan.device_fingerprint, here);
    }
    log_info("engine timed on \"{}\"; timing its tactics again for \"{}\"",
             file.plan.device_fingerprint, here);
    if (const Result<void> timed = time_again(file, stream); !timed.ok()) {
      return timed.error();
    }
  }
  std::vector<TacticTable> tables(file.plan.calls.size());
  for (size_t i = 0; i < tables.size(); ++i) {
    tables[i].fill(nullptr);
    const auto* linear = std::get_if<LinearCall>(&file.plan.calls[i].call);
    for (size_t bucket = 0; linear != nullptr && bucket < tables[i].size(); ++bucket) {
      const WeightType& type = file.plan.matrices[static_cast<size_t>(linear->matrix)].packed.type;
      tables[i][bucket] = find_tactic(type, stream.isa(), linear->tactics[bucket]);
      if (tables[i][bucket] == nullptr) {
        return corrupt("[engine] {}: call {} names tactic \"{}\", which \"{}\" does not have.",
                       file.file.path(), file.plan.calls[i].name, linear->tactics[bucket], here);
      }
    }
  }
  return tables;
}

Result<int32_t> kv_cache_blocks(const EnginePlan& plan, const EngineOptions& options) {
  const int64_t block_bytes = plan.kv.block_bytes();
  const int64_t blocks_a_sequence =
      (plan.limits.max_seq_len + plan.kv.tokens_per_block - 1) / plan.kv.tokens_per_block;
  int64_t blocks = 0;
  if (options.kv_cache_bytes > 0) {
    blocks = options.kv_cache_bytes / block_bytes;
  } else {
    const double free = static_cast<double>(device::available_host_memory());
    blocks = std::min(static_cast<int64_t>(free * options.kv_cache_free_fraction) / block_bytes,
                      blocks_a_sequence * plan.limits.max_batch_size);
  }
  if (blocks < 1) {
    return over_capacity(
        "[kv_cache] one block needs {} bytes; kv_cache_bytes is {} and {} bytes are free.",
        block_bytes, options.kv_cache_bytes, device::available_host_memory());
  }
  return static_cast<int32_t>(std::min<int64_t>(blocks, INT32_MAX / 2));
}

}  // namespace zonda::engine
