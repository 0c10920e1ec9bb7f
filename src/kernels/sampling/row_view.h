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

  // Lists of tokens; valid until the next one is asked for.
  // The `count` (at most size()) largest logits in order, of equal ones the lower ids first.
  std::span<const int32_t> largest(int64_t count);
  // All tokens whose logit is at least `threshold`, by id.
  std::span<const int32_t> at_least(float threshold);
  // The tokens of the last at_least() in the order of largest().
  std::span<const int32_t> in_order();

  // Weights of the tokens, in their order. Valid until the next call.
  std::span<const float> weights(std::span<const int32_t> tokens, const SoftmaxScale& scale);
  // Weight of all tokens: blocks are added in order, in double precision. The sums of the blocks
  // stay in block_sums().
  double total_weight(const SoftmaxScale& scale);
  std::span<const float> block_sums() const { return scratch_->block_sum; }

 private:
  RowView(std::span<const float> logits, SampleScratch& scratch, const RowScanKernel& kernel)
      : logits_(logits), scratch_(&scratch), kernel_(&kernel) {}
  bool before(int32_t a, int32_t b) const {
    return logit(a) > logit(b) || (logit(a) == logit(b) && a < b);
  }

  std::span<const float> logits_;
  SampleScratch* scratch_;
  const RowScanKernel* kernel_;
  float max_ = 0.0f;
};

}  // namespace zonda::kernels
