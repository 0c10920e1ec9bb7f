// Logit changes, the greedy choice, the draw and log-probabilities.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/sampling/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "kernels/sampling/row_view.h"

namespace zonda::kernels {
namespace {

// Tokens that top-p looks at first; most distributions need fewer.
constexpr int64_t kFirstNucleus = 256;

// The longest useful beginning of a list of tokens, and its weight.
struct Prefix {
  size_t count = 0;
  double weight = 0.0;
};

// The fewest leading tokens that reach `wanted`; all of them if they do not.
Prefix reach(const RowView& row, const SoftmaxScale& scale, std::span<const int32_t> tokens,
             double wanted) {
  Prefix prefix;
  while (prefix.count < tokens.size() && (prefix.count == 0 || prefix.weight < wanted)) {
    prefix.weight += double{row.weight(tokens[prefix.count++], scale)};
  }
  return prefix;
}

// The token at which the running weight first exceeds `target`, else the last one with weight.
int32_t pick(const RowView& row, const SoftmaxScale& scale, std::span<const int32_t> tokens,
             double target) {
  int32_t last = tokens.front();
  double sum = 0.0;
  for (const int32_t token : tokens) {
    const double weight = double{row.weight(token, scale)};
    sum += weight;
    last = weight > 0.0 ? token : last;
    if (sum > target) {
      break;
    }
  }
  return last;
}

// Draws among all tokens, in order of their ids.
int32_t pick_by_id(RowView& row, const SoftmaxScale& scale, double uniform) {
  const double target = uniform * row.total_weight(scale);
  const std::span<const float> sums = row.block_sums();
  double before = 0.0;
  size_t chosen = 0;
  for (size_t block = 0; block < sums.size(); ++block) {
    if (sums[block] <= 0.0f) {
      continue;
    }
    chosen = block;
    if (before + double{sums[block]} > target) {
      break;
    }
    before += double{sums[block]};
  }
  int32_t ids[kSampleBlock];
  const auto first = static_cast<int64_t>(chosen) * kSampleBlock;
  const int64_t count = std::min(kSampleBlock, row.size() - first);
  for (int64_t i = 0; i < count; ++i) {
    ids[i] = static_cast<int32_t>(first + i);
  }
  // Beyond the last block only by rounding: then `target` exceeds every sum inside it.
  return pick(row, scale, {ids, static_cast<size_t>(count)}, target - before);
}

// The tokens that top-p keeps of the whole vocabulary.
std::span<const int32_t> nucleus(RowView& row, const SoftmaxScale& scale, double top_p,
                                 double* weight) {
  const double wanted = top_p * row.total_weight(scale);
  for (int64_t count = kFirstNucleus;; count *= 8) {
    const std::span<const int32_t> tokens = row.largest(count);
    const Prefix prefix = reach(row, scale, tokens, wanted);
    if (prefix.weight >= wanted || count >= row.size()) {
      *weight = prefix.weight;
      return tokens.first(prefix.count);
    }
  }
}

}  // namespace

void apply_logit_changes(const LogitChanges& changes, std::span<float> logits) {
  const auto at = [logits](int32_t token) -> float& {
    CHECK(token >= 0 && static_cast<size_t>(token) < logits.size());
    return logits[static_cast<size_t>(token)];
  };
  for (const TokenBias& entry : changes.bias) {
    at(entry.token) += entry.bias;
  }
  for (const TokenCount& count : changes.counts) {
    float& logit = at(count.token);
    if (count.generated > 0 || count.in_prompt) {
      logit =
          logit > 0.0f ? logit / changes.repetition_penalty : logit * changes.repetition_penalty;
    }
    if (count.generated > 0) {
      logit -= changes.presence_penalty;
      logit -= changes.frequency_penalty * static_cast<float>(count.generated);
    }
  }
  for (const int32_t token : changes.banned) {
    at(token) = -std::numeric_limits<float>::infinity();
  }
}

Result<int32_t> greedy_token(std::span<const float> logits, SampleScratch& scratch,
                             device::CpuIsa isa) {
  const Result<RowView> row = RowView::scan(logits, scratch, isa);
  if (!row.ok()) {
    return row.error();
  }
  return row->first_max();
}

Result<int32_t> draw_token(const DrawParams& params, std::span<const float> logits,
                           SampleScratch& scratch, device::CpuIsa isa) {
  CHECK(params.temperature > 0.0f);
  Result<RowView> scanned = RowView::scan(logits, scratch, isa);
  if (!scanned.ok()) {
    return scanned.error();
  }
  RowView& row = *scanned;
  const SoftmaxScale scale{row.max(), params.temperature, params.min_p};
  const bool limits_mass = params.top_p > 0.0f && params.top_p < 1.0f;
  std::span<const int32_t> tokens;
  double weight = 0.0;
  if (params.top_k > 0) {
    tokens = row.largest(params.top_k);
    weight = reach(row, scale, tokens, std::numeric_limits<double>::infinity()).weight;
    if (limits_mass) {
      const Prefix prefix = reach(row, scale, tokens, double{params.top_p} * weight);
      tokens = tokens.first(prefix.count);
      weight = prefix.weight;
    }
  } else if (limits_mass) {
    tokens = nucleus(row, scale, double{params.top_p}, &weight);
  } else {
    return pick_by_id(row, scale, params.uniform);
  }
  return pick(row, scale, tokens, params.uniform * weight);
}

Result<RowLogprobs> row_logprobs(std::span<const float> logits, int32_t chosen, int32_t top_n,
                                 SampleScratch& scratch, device::CpuIsa isa) {
  CHECK(chosen >= 0 && static_cast<size_t>(chosen) < logits.size());
  Result<RowView> scanned = RowView::scan(logits, scratch, isa);
  if (!scanned.ok()) {
    return scanned.error();
  }
  RowView& row = *scanned;
  const double log_total = double{row.max()} + std::log(row.total_weight({row.max(), 1.0f, 0.0f}));
  const auto logprob = [&](int32_t token) {
    return static_cast<float>(double{row.logit(token)} - log_total);
  };
  RowLogprobs result{.chosen = logprob(chosen), .top = {}};
  for (const int32_t token : row.largest(std::max(top_n, 0))) {
    result.top.push_back({token, logprob(token)});
  }
  return result;
}

double uniform(uint64_t seed, uint64_t counter) {
  const auto mix = [](uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  };
  return static_cast<double>(mix(mix(seed) ^ counter) >> 11) * 0x1p-53;
}

}  // namespace zonda::kernels
