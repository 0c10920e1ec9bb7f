// Scanning a row, and selecting its largest logits by way of the blocks' maxima.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/sampling/row_view.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "kernels/vector/targets.h"

namespace zonda::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

const RowScanKernel& scan_kernel(device::CpuIsa isa) {
  if constexpr (kHasX86Kernels) {
    if (isa >= device::CpuIsa::kAvx512) {
      return kRowScanAvx512;
    }
    if (isa >= device::CpuIsa::kAvx2) {
      return kRowScanAvx2;
    }
  }
  return kRowScanPortable;
}

Error bad_logit(std::span<const float> logits) {
  const auto bad =
      std::find_if(logits.begin(), logits.end(), [](float value) { return !(value < kInfinity); });
  return internal_error("[sample] the logit of token {} is {}, not a finite number.",
                        bad - logits.begin(), std::isnan(*bad) ? "NaN" : "+infinity");
}

}  // namespace

Result<RowView> RowView::scan(std::span<const float> logits, SampleScratch& scratch,
                              device::CpuIsa isa) {
  CHECK(!logits.empty());
  RowView row(logits, scratch, scan_kernel(isa));
  const int64_t blocks = (row.size() + kSampleBlock - 1) / kSampleBlock;
  scratch.block_max.resize(static_cast<size_t>(blocks));
  if (!row.kernel_->block_max(logits.data(), row.size(), scratch.block_max.data())) {
    return bad_logit(logits);
  }
  row.max_ = *std::max_element(scratch.block_max.begin(), scratch.block_max.end());
  if (row.max_ == -kInfinity) {
    return invalid_argument("[sample] all {} tokens are banned.", row.size());
  }
  return row;
}

int32_t RowView::first_max() const {
  const auto block = std::find(scratch_->block_max.begin(), scratch_->block_max.end(), max_) -
                     scratch_->block_max.begin();
  const auto begin = logits_.begin() + block * kSampleBlock;
  return static_cast<int32_t>(std::find(begin, logits_.end(), max_) - logits_.begin());
}

std::span<const int32_t> RowView::at_least(float threshold) {
  scratch_->ids.clear();
  for (size_t block = 0; block < scratch_->block_max.size(); ++block) {
    if (scratch_->block_max[block] < threshold) {
      continue;
    }
    const int64_t begin = static_cast<int64_t>(block) * kSampleBlock;
    const int64_t end = std::min(begin + kSampleBlock, size());
    for (int64_t i = begin; i < end; ++i) {
      if (logits_[static_cast<size_t>(i)] >= threshold) {
        scratch_->ids.push_back(static_cast<int32_t>(i));
      }
    }
  }
  return scratch_->ids;
}

std::span<const int32_t> RowView::in_order() {
  std::sort(scratch_->ids.begin(), scratch_->ids.end(),
            [this](int32_t a, int32_t b) { return before(a, b); });
  return scratch_->ids;
}

std::span<const int32_t> RowView::largest(int64_t count) {
  std::vector<int32_t>& ids = scratch_->ids;
  const auto wanted = static_cast<std::ptrdiff_t>(std::min(count, size()));
  if (wanted == 0) {
    return {};
  }
  if (static_cast<size_t>(wanted) <= scratch_->block_max.size()) {
    // At least `wanted` logits reach the maximum of the block that comes in place `wanted`.
    scratch_->threshold = scratch_->block_max;
    const auto nth = scratch_->threshold.begin() + wanted - 1;
    std::nth_element(scratch_->threshold.begin(), nth, scratch_->threshold.end(), std::greater<>());
    at_least(*nth);
  } else {
    ids.resize(logits_.size());
    std::iota(ids.begin(), ids.end(), 0);
  }
  const auto order = [this](int32_t a, int32_t b) { return before(a, b); };
  if (static_cast<size_t>(wanted) < ids.size()) {
    std::nth_element(ids.begin(), ids.begin() + wanted, ids.end(), order);
  }
  std::sort(ids.begin(), ids.begin() + wanted, order);
  return {ids.data(), static_cast<size_t>(wanted)};
}

std::span<const float> RowView::weights(std::span<const int32_t> tokens,
                                        const SoftmaxScale& scale) {
  std::vector<float>& weights = scratch_->weights;
  weights.assign((tokens.size() + 15) / 16 * 16, -kInfinity);
  std::transform(tokens.begin(), tokens.end(), weights.begin(),
                 [this](int32_t token) { return logit(token); });
  kernel_->to_weights(weights.data(), static_cast<int64_t>(weights.size()), scale);
  return {weights.data(), tokens.size()};
}

double RowView::total_weight(const SoftmaxScale& scale) {
  scratch_->block_sum.resize(scratch_->block_max.size());
  kernel_->block_sum(logits_.data(), size(), scale, scratch_->block_sum.data());
  return std::accumulate(scratch_->block_sum.begin(), scratch_->block_sum.end(), 0.0);
}

}  // namespace zonda::kernels
