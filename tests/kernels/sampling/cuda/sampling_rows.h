// Rows of logits, their sampling on the GPU, and which tokens a draw may give within rounding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "device/cuda/device_array.h"
#include "kernels/sampling/cuda/sample.h"

namespace zonda::test {

using kernels::DrawParams;
using kernels::TokenBias;
using kernels::TokenCount;
using kernels::cuda::LogprobParams;
using kernels::cuda::RowMode;
using kernels::cuda::SampleLimits;
using kernels::cuda::SampleParams;
using kernels::cuda::SampleRow;

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline std::vector<float> random_logits(std::mt19937& random, size_t size, float spread = 3.0f) {
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> logits(size);
  std::generate(logits.begin(), logits.end(), [&] { return normal(random); });
  return logits;
}

// Every token's place in the order of likelihood.
inline std::vector<int32_t> by_likelihood(const std::vector<float>& logits) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  return ids;
}

// A batch of rows of equal vocabulary with the lists of their changes.
struct SamplingBatch {
  int64_t vocab = 0;
  int64_t padding = 0;  // logits between rows
  std::vector<std::vector<float>> logits;
  std::vector<SampleRow> rows;
  std::vector<TokenBias> bias;
  std::vector<TokenCount> counts;
  std::vector<int32_t> banned;

  explicit SamplingBatch(int64_t tokens, int64_t gap = 0) : vocab(tokens), padding(gap) {}

  void add_greedy(std::vector<float> row) {
    logits.push_back(std::move(row));
    rows.emplace_back().mode = RowMode::kGreedy;
  }
  void add_draw(std::vector<float> row, const DrawParams& draw) {
    logits.push_back(std::move(row));
    rows.emplace_back().mode = RowMode::kDraw;
    rows.back().draw = draw;
  }
  SampleLimits limits() const {
    return {.max_rows = static_cast<int64_t>(rows.size()) + 3,
            .vocab = vocab,
            .max_bias = static_cast<int64_t>(bias.size()),
            .max_counts = static_cast<int64_t>(counts.size()),
            .max_banned = static_cast<int64_t>(banned.size())};
  }
  std::vector<float> all_logits() const {
    std::vector<float> all;
    for (const std::vector<float>& row : logits) {
      EXPECT_EQ(row.size(), static_cast<size_t>(vocab));
      all.insert(all.end(), row.begin(), row.end());
      all.insert(all.end(), static_cast<size_t>(padding), kInfinity);  // never to be read
    }
    return all;
  }
};

// A batch on the GPU.
class DeviceBatch {
 public:
  explicit DeviceBatch(const SamplingBatch& batch)
      : batch_(batch),
        logits_(batch.all_logits()),
        rows_(batch.rows),
        bias_(batch.bias),
        counts_(batch.counts),
        banned_(batch.banned),
        ids_(batch.rows.size()),
        workspace_(std::vector<uint8_t>(
            static_cast<size_t>(kernels::cuda::sample_workspace_bytes(batch.limits())))) {}

  SampleParams params() {
    return {.logits = logits_.data(),
            .logits_stride = batch_.vocab + batch_.padding,
            .rows = rows_.data(),
            .bias = bias_.data(),
            .counts = counts_.data(),
            .banned = banned_.data(),
            .ids = ids_.data(),
            .workspace = workspace_.data(),
            .limits = batch_.limits(),
            .num_rows = static_cast<int64_t>(batch_.rows.size())};
  }
  // The ids; the logits must be what they were.
  std::vector<int32_t> sample(const device::cuda::LaunchSite& site = {}) {
    EXPECT_EQ(kernels::cuda::sample(params(), site), cudaSuccess);
    return ids_.read();
  }
  DeviceArray<float>& logits() { return logits_; }
  DeviceArray<SampleRow>& rows() { return rows_; }
  DeviceArray<int32_t>& ids() { return ids_; }
  uint8_t* workspace() { return workspace_.data(); }

 private:
  SamplingBatch batch_;
  DeviceArray<float> logits_;
  DeviceArray<SampleRow> rows_;
  DeviceArray<TokenBias> bias_;
  DeviceArray<TokenCount> counts_;
  DeviceArray<int32_t> banned_;
  DeviceArray<int32_t> ids_;
  DeviceArray<uint8_t> workspace_;
};

// Whether a draw may give `token` when running sums are off by up to 1e-5 of the mass they run
// over.
class AllowedTokens {
 public:
  AllowedTokens(const std::vector<float>& logits, const DrawParams& draw) : draw_(draw) {
    ids_ = by_likelihood(logits);
    const double largest = logits[static_cast<size_t>(ids_[0])];
    const bool limits_mass = draw.top_p > 0 && draw.top_p < 1;
    if (draw.top_k > 0 && static_cast<size_t>(draw.top_k) < ids_.size()) {
      ids_.resize(static_cast<size_t>(draw.top_k));
    } else if (draw.top_k == 0 && !limits_mass) {
      std::iota(ids_.begin(), ids_.end(), 0);
    }
    double sum = 0;
    for (const int32_t id : ids_) {
      const double weight =
          std::exp((double{logits[static_cast<size_t>(id)]} - largest) / double{draw.temperature});
      sum += weight < double{draw.min_p} ? 0 : weight;
      running_.push_back(sum);
    }
    kept_ = {sum};
    if (limits_mass) {
      kept_.clear();
      for (const double slack : {-kSlack, 0.0, kSlack}) {
        const auto at =
            std::lower_bound(running_.begin(), running_.end(), (double{draw.top_p} + slack) * sum);
        kept_.push_back(at == running_.end() ? sum : *at);
      }
    }
  }

  bool contain(int32_t token) const {
    const auto at = std::find(ids_.begin(), ids_.end(), token);
    if (at == ids_.end()) {
      return false;
    }
    const auto place = static_cast<size_t>(at - ids_.begin());
    const double before = place == 0 ? 0.0 : running_[place - 1];
    return running_[place] > before && std::any_of(kept_.begin(), kept_.end(), [&](double kept) {
             const double target = draw_.uniform * kept;
             return before <= target + kSlack * kept && target - kSlack * kept <= running_[place] &&
                    before < kept;
           });
  }

 private:
  static constexpr double kSlack = 1e-5;
  DrawParams draw_;
  std::vector<int32_t> ids_;
  std::vector<double> running_;
  std::vector<double> kept_;
};

}  // namespace zonda::test
