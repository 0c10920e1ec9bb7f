// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/linear_timer.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/error.h"

namespace zonda::engine::cpu {
namespace {

constexpr int kRepeats = 3;             // passes; the fastest counts
constexpr double kPassSeconds = 0.004;  // a pass ends when it has run this long
constexpr size_t kMaxCopies = 32;       // calls of a pass

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool is_gated(kernels::Epilogue epilogue) {
  return epilogue == kernels::Epilogue::kGatedSilu || epilogue == kernels::Epilogue::kGatedGeluTanh;
}

// Values of a sane size; zeros would make some processors faster than real data does.
void fill_pattern(float* out, int64_t count) {
  uint32_t state = 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    out[i] = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
  }
}

}  // namespace

Result<void> LinearTimer::reserve(const LinearSample& sample, int64_t tokens) {
  const auto grow = [](device::Buffer& buffer, int64_t bytes, bool pattern) -> Result<void> {
    if (static_cast<int64_t>(buffer.size()) >= bytes) {
      return {};
    }
    Result<device::Buffer> larger = device::Buffer::allocate(static_cast<size_t>(bytes));
    if (!larger.ok()) {
      return larger.error();
    }
    buffer = std::move(*larger);
    if (pattern) {
      fill_pattern(buffer.as<float>(), bytes / 4);
    }
    return {};
  };
  const WeightType& type = sample.packed.type;
  if (Result<void> grown = grow(x_, tokens * type.cols * 4, true); !grown.ok()) {
    return grown;
  }
  if (Result<void> grown = grow(y_, tokens * type.rows * 4, false); !grown.ok()) {
    return grown;
  }
  return grow(workspace_,
              kernels::linear_workspace_bytes(sample.packed, tokens, stream_.pool().size()), false);
}

double LinearTimer::time_tactic(const kernels::LinearTactic& tactic, const LinearSample& sample,
                                int64_t tokens) {
  kernels::LinearParams params;
  params.packed = sample.packed;
  params.epilogue = sample.epilogue;
  params.x = x_.as<float>();
  params.y = y_.as<float>();
  params.residual = params.y;
  params.workspace = workspace_.data();
  params.num_tokens = tokens;
  params.x_stride = sample.packed.type.cols;
  params.y_stride =
      is_gated(sample.epilogue) ? sample.packed.type.rows / 2 : sample.packed.type.rows;
  double best = std::numeric_limits<double>::infinity();
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const Clock::time_point start = Clock::now();
    size_t calls = 0;
    do {
      params.weights = sample.copies[calls % sample.copies.size()];
      tactic.run(params, stream_);
      ++calls;
    } while (calls < kMaxCopies && seconds_since(start) < kPassSeconds);
    best = std::min(best, seconds_since(start) / static_cast<double>(calls));
  }
  return best;
}

Result<TacticTime> LinearTimer::fastest(const LinearSample& sample, int64_t tokens,
                                        int64_t& count) {
  if (const Result<void> reserved = reserve(sample, tokens); !reserved.ok()) {
    return reserved.error();
  }
  TacticTime best{"", std::numeric_limits<double>::infinity()};
  for (const kernels::LinearTactic& tactic :
       kernels::linear_tactics(sample.packed.type, stream_.isa())) {
    if (tokens < tactic.min_tokens || tokens > tactic.max_tokens) {
      continue;
    }
    const double seconds = time_tactic(tactic, sample, tokens);
    ++count;
    if (seconds < best.seconds) {
      best = {std::string(tactic.name), seconds};
    }
  }
  return best;
}

}  // namespace zonda::engine::cpu
