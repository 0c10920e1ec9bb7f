// SPDX-License-Identifier: Apache-2.0
#include "engine/load.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "engine/fusions.h"

namespace zonda::engine {
namespace {

// Times the linears of `file` on this device and writes the chosen names into its plan.
Result<void> time_again(EngineFile& file, OpenDevice& device) {
  TimingCache cache;
  TacticTimer timer(device, cache);
  const SampledLinears linears = collect_linears(file.plan, file.weights.data());
  std::vector<BucketTimes> times;
  for (const LinearSample& sample : linears.samples) {
    Result<BucketTimes> chosen = timer.choose(sample, file.plan.limits.max_num_tokens);
    if (!chosen.ok()) {
      return chosen.error();
    }
    times.push_back(std::move(*chosen));
  }
  set_tactics(file.plan, linears, times);
  return {};
}

}  // namespace

void set_tactics(EnginePlan& plan, const SampledLinears& linears,
                 const std::vector<BucketTimes>& times) {
  for (size_t i = 0; i < plan.calls.size(); ++i) {
    if (auto* linear = std::get_if<LinearCall>(&plan.calls[i].call)) {
      const BucketTimes& chosen = times[static_cast<size_t>(linears.sample_of_call[i])];
      std::transform(chosen.begin(), chosen.end(), linear->tactics.begin(),
                     [](const TacticTime& time) { return time.tactic; });
    }
  }
}

SampledLinears collect_linears(const EnginePlan& plan, const std::byte* weights) {
  SampledLinears out;
  const std::vector<int32_t> norms = fusable_norms(plan);
  for (size_t i = 0; i < plan.calls.size(); ++i) {
    const auto* linear = std::get_if<LinearCall>(&plan.calls[i].call);
    if (linear == nullptr) {
      out.sample_of_call.push_back(-1);
      continue;
    }
    const PlanMatrix& matrix = plan.matrices[static_cast<size_t>(linear->matrix)];
    // The CPU's kernels have no norms inside.
    const bool after_norm = plan.device != device::DeviceKind::kCpu && norms[i] >= 0;
    const auto found =
        std::find_if(out.samples.begin(), out.samples.end(), [&](const LinearSample& sample) {
          return sample.packed == matrix.packed && sample.epilogue == linear->epilogue &&
                 sample.after_norm == after_norm;
        });
    out.sample_of_call.push_back(static_cast<int32_t>(found - out.samples.begin()));
    if (found == out.samples.end()) {
      out.samples.push_back(
          {matrix.packed, linear->epilogue, {weights + matrix.offset}, after_norm});
    } else {
      found->copies.push_back(weights + matrix.offset);
    }
  }
  return out;
}

Result<void> resolve_tactics(EngineFile& file, OpenDevice& device, bool strict) {
  const std::string& here = device.facts().fingerprint;
  if (here != file.plan.device_fingerprint) {
    if (strict) {
      return unsupported(
          "[engine] {} was timed on \"{}\"; this device is \"{}\" and --strict_device is set.",
          file.file.path(), file.plan.device_fingerprint, here);
    }
    log_info("engine timed on \"{}\"; timing its tactics again for \"{}\"",
             file.plan.device_fingerprint, here);
    if (const Result<void> timed = time_again(file, device); !timed.ok()) {
      return timed.error();
    }
  }
  for (const PlanCall& call : file.plan.calls) {
    const auto* linear = std::get_if<LinearCall>(&call.call);
    for (size_t bucket = 0; linear != nullptr && bucket < linear->tactics.size(); ++bucket) {
      const WeightType& type = file.plan.matrices[static_cast<size_t>(linear->matrix)].packed.type;
      if (!device.has_tactic(type, linear->tactics[bucket])) {
        return corrupt("[engine] {}: call {} names tactic \"{}\", which \"{}\" does not have.",
                       file.file.path(), call.name, linear->tactics[bucket], here);
      }
    }
  }
  return {};
}

Result<int32_t> kv_cache_blocks(const EnginePlan& plan, const EngineOptions& options,
                                int64_t free_bytes) {
  const int64_t block_bytes = plan.kv.block_bytes();
  const int64_t blocks_a_sequence =
      (plan.limits.max_seq_len + plan.kv.tokens_per_block - 1) / plan.kv.tokens_per_block;
  int64_t blocks = 0;
  if (options.kv_cache_bytes > 0) {
    blocks = options.kv_cache_bytes / block_bytes;
  } else {
    const double free = static_cast<double>(free_bytes);
    blocks = std::min(static_cast<int64_t>(free * options.kv_cache_free_fraction) / block_bytes,
                      blocks_a_sequence * plan.limits.max_batch_size);
  }
  if (blocks < 1) {
    return over_capacity(
        "[kv_cache] one block needs {} bytes; kv_cache_bytes is {} and {} bytes are free.",
        block_bytes, options.kv_cache_bytes, free_bytes);
  }
  return static_cast<int32_t>(std::min<int64_t>(blocks, INT32_MAX / 2));
}

}  // namespace zonda::engine
