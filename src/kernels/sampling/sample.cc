// Logit changes, the greedy choice, the draw and log-probabilities.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/sampling/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "kernels/sampling/row_view.h"

namespace zonda::kernels {
namespace {

// How far below the largest logit, in units of temperature, top-p looks first, and how much further
// each time that is not enough.
constexpr float kNucleusDepth = 3.0f;
constexpr float kNucleusGrowth = 1.4f;

// Tokens and their weights, in some order.
struct Candidates {
  std::span<const int32_t> tokens;
  std::span<const float> weights;
  double total = 0.0;

  static Candidates of(RowView& row, std::span<const int32_t> tokens, const SoftmaxScale& scale) {
    Candidates all{.tokens = tokens, .weights = {}};
    all.weights = row.weights(all.tokens, scale);
    for (const float weight : all.weights) {
      all.total += double{weight};
    }
    return all;
  }

  // The fewest leading tokens that weigh `wanted`; all if together they do not.
  Candidates reaching(double wanted) const {
    size_t count = 0;
    double sum = 0.0;
    while (count < tokens.size() && (count == 0 || sum < wanted)) {
      sum += double{weights[count++]};
    }
    return {tokens.first(count), weights.first(count), sum};
  }

  // The token at which the running weight first exceeds `target`, else the last one with weight.
  int32_t pick(double target) const {
    int32_t last = tokens.front();
    double sum = 0.0;
    for (size_t i = 0; i < tokens.size() && sum <= target; ++i) {
      sum += double{weights[i]};
      last = weights[i] > 0.0f ? tokens[i] : last;
    }
    return last;
  }
};

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
  const auto count = static_cast<size_t>(std::min(kSampleBlock, row.size() - first));
  std::iota(ids, ids + count, static_cast<int32_t>(first));
  const std::span<const int32_t> tokens(ids, count);
  // A target beyond the block's own running sum, by rounding, picks its last token.
  return Candidates{tokens, row.weights(tokens, scale)}.pick(target - before);
}

// The tokens that top-p keeps of the whole vocabulary.
Candidates nucleus(RowView& row, const SoftmaxScale& scale, double top_p) {
  const double wanted = top_p * row.total_weight(scale);
  for (float depth = kNucleusDepth;; depth *= kNucleusGrowth) {
    const auto tokens = row.at_least(row.max() - depth * scale.temperature);
    const bool all = static_cast<int64_t>(tokens.size()) == row.size();
    if (all || Candidates::of(row, tokens, scale).total >= wanted) {
      return Candidates::of(row, row.in_order(), scale).reaching(wanted);
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
  Candidates kept;
  if (params.top_k > 0) {
    kept = Candidates::of(row, row.largest(params.top_k), scale);
    if (limits_mass) {
      kept = kept.reaching(double{params.top_p} * kept.total);
    }
  } else if (limits_mass) {
    kept = nucleus(row, scale, double{params.top_p});
  } else {
    return pick_by_id(row, scale, params.uniform);
  }
  return kept.pick(params.uniform * kept.total);
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
  const auto larger =
      std::ranges::count_if(logits, [own = row.logit(chosen)](float logit) { return logit > own; });
  RowLogprobs result{
      .chosen = logprob(chosen), .rank = static_cast<int32_t>(larger) + 1, .top = {}};
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
