// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/linear_timer.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "device/cuda/cuda_status.h"
#include "device/cuda/graph.h"
#include "engine/fusions.h"
#include "kernels/norm/cuda/rms_norm.h"

namespace zonda::engine::cuda {
namespace {

using device::cuda::check;
using device::cuda::DeviceBuffer;

constexpr int kReplays = 5;                        // the fastest counts
constexpr int64_t kMinBytes = int64_t{256} << 20;  // of all copies together
constexpr int64_t kMaxCopies = 16;
constexpr float kWeightDeviation = 0.02f;
constexpr float kEps = 1e-5f;

Result<void> grow(DeviceBuffer& buffer, int64_t bytes) {
  if (static_cast<int64_t>(buffer.size()) >= bytes) {
    return {};
  }
  Result<DeviceBuffer> larger = DeviceBuffer::allocate(static_cast<size_t>(bytes));
  if (!larger) {
    return larger.error();
  }
  buffer = std::move(*larger);
  return {};
}

bool is_gated(kernels::Epilogue epilogue) {
  return epilogue == kernels::Epilogue::kGatedSilu || epilogue == kernels::Epilogue::kGatedGeluTanh;
}

}  // namespace

Result<void> LinearTimer::reserve(const LinearSample& sample, int64_t tokens) {
  const WeightType& type = sample.packed.type;
  const int64_t bytes = kernels::cuda::packed_bytes(sample.packed);
  const int64_t copies = std::clamp<int64_t>((kMinBytes + bytes - 1) / bytes, 2, kMaxCopies);
  for (const Result<void>& grown :
       {grow(weights_, copies * bytes), grow(x_, tokens * type.cols * 2),
        grow(y_, 2 * tokens * type.rows * 4),
        sample.after_norm ? grow(normed_, tokens * type.cols * 2) : Result<void>{},
        sample.after_norm ? grow(norm_weight_, type.cols * 4) : Result<void>{},
        grow(workspace_, kernels::cuda::linear_workspace_bytes(sample.packed, tokens))}) {
    if (!grown.ok()) {
      return grown;
    }
  }
  if (sample.after_norm) {  // every float becomes 0x3f3f3f3f, about 0.75
    if (Result<void> done =
            check(cudaMemsetAsync(norm_weight_.data(), 0x3f, norm_weight_.size(), stream_.handle()),
                  "[tactics] norm weights");
        !done.ok()) {
      return done;
    }
  }
  // Random values: zeros would run faster than real data does.
  const kernels::PackedType activations{{WeightFormat::kBFloat16, 16, type.cols, 0, false},
                                        kernels::RowOrder::kStacked};
  const int64_t activation_bytes = kernels::cuda::packed_bytes(activations);
  for (int64_t offset = 0; offset + activation_bytes <= static_cast<int64_t>(x_.size());
       offset += activation_bytes) {
    if (Result<void> done =
            check(kernels::cuda::random_weights(activations, static_cast<uint64_t>(offset), 1.0f,
                                                x_.data() + offset, stream_.handle()),
                  "[tactics] random activations");
        !done.ok()) {
      return done;
    }
  }
  if (filled_ == sample.packed && copies_ == copies) {
    return {};
  }
  for (int64_t i = 0; i < copies; ++i) {
    if (Result<void> done = check(
            kernels::cuda::random_weights(sample.packed, static_cast<uint64_t>(i), kWeightDeviation,
                                          weights_.data() + i * bytes, stream_.handle()),
            "[tactics] random weights");
        !done.ok()) {
      return done;
    }
  }
  filled_ = sample.packed;
  copies_ = copies;
  return {};
}

Result<double> LinearTimer::time_tactic(const kernels::cuda::LinearTactic& tactic,
                                        const LinearSample& sample, int64_t tokens,
                                        bool fused_norm) {
  if (Result<void> reserved = reserve(sample, tokens); !reserved.ok()) {
    return reserved.error();
  }
  kernels::cuda::LinearParams params;
  params.packed = sample.packed;
  params.epilogue = sample.epilogue;
  params.x = x_.data();
  params.y = y_.data();
  params.residual = y_.data() + tokens * sample.packed.type.rows * 4;
  params.workspace = workspace_.data();
  params.num_tokens = tokens;
  params.x_stride = sample.packed.type.cols;
  params.y_stride =
      is_gated(sample.epilogue) ? sample.packed.type.rows / 2 : sample.packed.type.rows;
  if (sample.packed.type.format == WeightFormat::kFloat16) {
    params.activation = DType::kFloat16;
  }
  kernels::cuda::RmsNormParams norm;
  norm.x = x_.data();
  norm.weight = norm_weight_.as<float>();
  norm.y = normed_.data();
  norm.num_rows = tokens;
  norm.size = norm.x_stride = norm.y_stride = sample.packed.type.cols;
  norm.eps = kEps;
  norm.activation = params.activation;
  const bool separate_norm = sample.after_norm && !fused_norm;
  if (fused_norm) {
    params.norm_weight = norm.weight;
    params.norm_eps = kEps;
  } else if (separate_norm) {
    params.x = normed_.data();
  }
  const int64_t bytes = kernels::cuda::packed_bytes(sample.packed);
  const auto issue = [&]() -> Result<void> {
    for (int64_t i = 0; i < copies_; ++i) {
      params.weights = weights_.data() + i * bytes;
      const bool dependent = i > 0 && properties_.compute_capability >= 90;
      if (Result<void> done = check(
              separate_norm ? kernels::cuda::rms_norm(norm, stream_.site(dependent)) : cudaSuccess,
              "[tactics] the norm");
          !done.ok()) {
        return done;
      }
      if (Result<void> done = check(tactic.run(params, stream_.site(dependent)),
                                    fmt::format("[tactics] {}", tactic.name));
          !done.ok()) {
        return done;
      }
    }
    return {};
  };
  if (Result<void> warm = issue(); !warm.ok()) {
    return warm.error();
  }
  Result<device::cuda::Graph> graph = device::cuda::Graph::capture(stream_, issue);
  Result<device::cuda::Event> begin = device::cuda::Event::create(true);
  Result<device::cuda::Event> end = device::cuda::Event::create(true);
  if (!graph || !begin || !end) {
    return !graph ? graph.error() : !begin ? begin.error() : end.error();
  }
  double best = std::numeric_limits<double>::infinity();
  for (int replay = 0; replay < kReplays; ++replay) {
    for (const Result<void>& done : {begin->record(stream_), graph->launch(stream_),
                                     end->record(stream_), end->synchronize()}) {
      if (!done.ok()) {
        return done.error();
      }
    }
    const Result<float> elapsed = device::cuda::elapsed_ms(*begin, *end);
    if (!elapsed) {
      return elapsed.error();
    }
    best = std::min(best, static_cast<double>(*elapsed) * 1e-3 / static_cast<double>(copies_));
  }
  return best;
}

Result<TacticTime> LinearTimer::fastest(const LinearSample& sample, int64_t tokens,
                                        int64_t& count) {
  TacticTime best{"", std::numeric_limits<double>::infinity()};
  for (const kernels::cuda::LinearTactic& tactic :
       kernels::cuda::linear_tactics(sample.packed.type, properties_.compute_capability)) {
    if (tokens < tactic.min_tokens || tokens > tactic.max_tokens) {
      continue;
    }
    for (const bool fused : {false, true}) {
      if (fused && !(sample.after_norm && tactic.fuses_norm)) {
        continue;
      }
      const Result<double> seconds = time_tactic(tactic, sample, tokens, fused);
      if (!seconds) {
        return seconds.error();
      }
      ++count;
      if (*seconds < best.seconds) {
        best = {std::string(tactic.name) + std::string(fused ? kFusedNorm : ""), *seconds};
      }
    }
  }
  return best;
}

}  // namespace zonda::engine::cuda
