// A row of logits that has been scanned once: its maximum, and the largest logits on demand.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "kernels/sampling/cpu/row_scan.h"
#include "kernels/sampling/sample.h"

namespace zonda::kernels {

class RowView {
 public:
  // Errors as greedy_token.
  static Result<RowView> scan(std::span<const float> logits, SampleScratch& scratch,
                              device::CpuIsa isa);

  int64_t size() const { return static_cast<int64_t>(logits_.size()); }
  float logit(int32_t token) const { return logits_[static_cast<size_t>(token)]; }
  float max() const { return max_; }
  // The first token with the largest logit.
  int32_t first_max() const;

  // The `count` (at most size()) largest logits in order, of equal ones the lower ids first. Valid
  // until the next call.
  std::span<const int32_t> largest(int64_t count);

  // Weight of a token, and of all tokens: blocks are added in order, in double precision. The sums
  // of the blocks stay in block_sums().
  float weight(int32_t token, const SoftmaxScale& scale) const {
    return softmax_weight<Scalar>(logit(token), scale);
  }
  double total_weight(const SoftmaxScale& scale);
  std::span<const float> block_sums() const { return scratch_->block_sum; }

 private:
  RowView(std::span<const float> logits, SampleScratch& scratch, const RowScanKernel& kernel)
      : logits_(logits), scratch_(&scratch), kernel_(&kernel) {}
  void collect_at_least(float threshold);
  bool before(int32_t a, int32_t b) const {
    return logit(a) > logit(b) || (logit(a) == logit(b) && a < b);
  }

  std::span<const float> logits_;
  SampleScratch* scratch_;
  const RowScanKernel* kernel_;
  float max_ = 0.0f;
};

}  // namespace zonda::kernels
