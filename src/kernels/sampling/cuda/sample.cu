// The order of the passes, and the layout of their memory.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/sampling/cuda/sample.h"

#include "kernels/sampling/cuda/row_work.h"

namespace zonda::kernels::cuda {
namespace {

constexpr int64_t kMaxVocab = int64_t{1} << 20;  // masses of so many tokens fit 64 bits
constexpr int64_t kMaxRows = 65535;              // the limit of a grid's second dimension

bool is_valid(const SampleLimits& limits, int64_t num_rows, int64_t stride) {
  return limits.vocab > 0 && limits.vocab <= kMaxVocab && stride >= limits.vocab && num_rows >= 0 &&
         num_rows <= limits.max_rows && num_rows <= kMaxRows;
}

RowPass make_pass(const float* logits, int64_t stride, void* workspace,
                  const SampleLimits& limits) {
  RowPass pass = {};
  pass.logits = logits;
  pass.stride = stride;
  pass.vocab = static_cast<int32_t>(limits.vocab);
  pass.slices = num_slices(limits.vocab);
  pass.memory = row_memory(workspace, limits);
  return pass;
}

// Hands out aligned parts of a region, or counts their bytes when it has no address.
class Parts {
 public:
  explicit Parts(void* base) : base_(static_cast<std::byte*>(base)) {}
  template <typename T>
  T* take(int64_t count) {
    T* const part = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += (count * static_cast<int64_t>(sizeof(T)) + 255) / 256 * 256;
    return part;
  }
  int64_t used() const { return used_; }

 private:
  std::byte* base_;
  int64_t used_ = 0;
};

}  // namespace

RowMemory row_memory(void* workspace, const SampleLimits& limits) {
  Parts parts(workspace);
  const int64_t rows = limits.max_rows;
  const int64_t slices = num_slices(limits.vocab);
  RowMemory memory = {};
  memory.stats = parts.take<SliceStats>(rows * slices);
  memory.slice_mass = parts.take<uint64_t>(rows * slices);
  memory.bin_mass = parts.take<uint64_t>(rows * kBins);
  memory.bin_count = parts.take<uint32_t>(rows * kBins);
  memory.list = parts.take<uint64_t>(rows * kListSize);
  memory.state = parts.take<RowState>(rows);
  memory.finished = parts.take<uint32_t>(rows);
  memory.saved = parts.take<float>(limits.max_bias + limits.max_counts + limits.max_banned);
  memory.bytes = parts.used();
  return memory;
}

int64_t sample_workspace_bytes(const SampleLimits& limits) {
  return row_memory(nullptr, limits).bytes;
}

cudaError_t sample(const SampleParams& params, const device::cuda::LaunchSite& site) {
  if (!is_valid(params.limits, params.num_rows, params.logits_stride)) {
    return cudaErrorInvalidValue;
  }
  if (params.num_rows == 0) {
    return cudaSuccess;
  }
  RowPass pass = make_pass(params.logits, params.logits_stride, params.workspace, params.limits);
  pass.rows = params.rows;
  pass.ids = params.ids;
  const Launches launches{params.num_rows, site};
  cudaError_t status = cudaSuccess;
  if (params.any_changes) {
    status = apply_changes(params, pass.memory, site);
  }
  if (status == cudaSuccess) {
    status = scan_rows(pass, launches);
  }
  if (status == cudaSuccess && params.any_draws) {
    status = weigh_rows(pass, launches);
  }
  if (status == cudaSuccess && params.any_draws) {
    status = resolve_rows(pass, launches);
  }
  if (status == cudaSuccess && params.any_changes) {
    status = undo_changes(params, pass.memory, site);
  }
  return status;
}

cudaError_t row_logprobs(const LogprobParams& params, const device::cuda::LaunchSite& site) {
  if (!is_valid(params.limits, params.num_rows, params.logits_stride)) {
    return cudaErrorInvalidValue;
  }
  if (params.num_rows == 0) {
    return cudaSuccess;
  }
  RowPass pass = make_pass(params.logits, params.logits_stride, params.workspace, params.limits);
  pass.chosen = params.chosen;
  pass.top_n = params.top_n;
  pass.chosen_logprobs = params.chosen_logprobs;
  pass.chosen_ranks = params.chosen_ranks;
  pass.top_tokens = params.top_tokens;
  pass.top_logprobs = params.top_logprobs;
  const Launches launches{params.num_rows, site};
  cudaError_t status = scan_rows(pass, launches);
  if (status == cudaSuccess) {
    status = weigh_rows(pass, launches);
  }
  return status == cudaSuccess ? resolve_rows(pass, launches) : status;
}

}  // namespace zonda::kernels::cuda
