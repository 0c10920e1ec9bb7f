// Changes of single logits before a choice, and their undoing after it: one block a row.
// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/dependent.cuh"
#include "kernels/sampling/cuda/row_work.h"

namespace zonda::kernels::cuda {
namespace {

struct Changes {
  float* logits;
  int64_t stride;
  int32_t vocab;
  const SampleRow* rows;
  const TokenBias* bias;
  const TokenCount* counts;
  const int32_t* banned;
  float* saved_bias;
  float* saved_counts;
  float* saved_banned;
};

__device__ __forceinline__ int32_t token_of(const TokenBias& entry) { return entry.token; }
__device__ __forceinline__ int32_t token_of(const TokenCount& entry) { return entry.token; }
__device__ __forceinline__ int32_t token_of(int32_t entry) { return entry; }

// Calls body(entry, saved, logit) for each entry of the range whose token exists.
template <typename Entry, typename Body>
__device__ __forceinline__ void for_entries(const Entry* list, float* saved, ListRange range,
                                            float* row, int32_t vocab, Body&& body) {
  for (int32_t i = range.begin + static_cast<int32_t>(threadIdx.x); i < range.end; i += kThreads) {
    const auto token = static_cast<uint32_t>(token_of(list[i]));
    if (token < static_cast<uint32_t>(vocab)) {
      body(list[i], saved[i], row[token]);
    }
  }
  __syncthreads();
}

template <typename Entry>
__device__ __forceinline__ void save(const Entry* list, float* saved, ListRange range, float* row,
                                     int32_t vocab) {
  for_entries(list, saved, range, row, vocab,
              [](const Entry&, float& slot, float& logit) { slot = logit; });
}

template <typename Entry>
__device__ __forceinline__ void restore(const Entry* list, float* saved, ListRange range,
                                        float* row, int32_t vocab) {
  for_entries(list, saved, range, row, vocab,
              [](const Entry&, float& slot, float& logit) { logit = slot; });
}

// In the rounding of the CPU: no multiply and add is fused.
__device__ __forceinline__ float penalised(float logit, const TokenCount& count,
                                           const SampleRow& row) {
  if (count.generated > 0 || count.in_prompt) {
    logit = logit > 0.0f ? __fdiv_rn(logit, row.repetition_penalty)
                         : __fmul_rn(logit, row.repetition_penalty);
  }
  if (count.generated > 0) {
    logit = __fsub_rn(logit, row.presence_penalty);
    logit = __fsub_rn(logit, __fmul_rn(row.frequency_penalty, static_cast<float>(count.generated)));
  }
  return logit;
}

// Saving is a step of its own: a token may be banned twice.
__global__ void __launch_bounds__(kThreads) apply(Changes changes) {
  device::cuda::allow_next();
  device::cuda::wait_for_previous();
  const SampleRow row = changes.rows[blockIdx.x];
  if (row.mode == RowMode::kSkip) {
    return;
  }
  float* const logits = changes.logits + blockIdx.x * changes.stride;
  save(changes.bias, changes.saved_bias, row.bias, logits, changes.vocab);
  for_entries(changes.bias, changes.saved_bias, row.bias, logits, changes.vocab,
              [](const TokenBias& entry, float&, float& logit) { logit += entry.bias; });
  save(changes.counts, changes.saved_counts, row.counts, logits, changes.vocab);
  for_entries(changes.counts, changes.saved_counts, row.counts, logits, changes.vocab,
              [&row](const TokenCount& entry, float&, float& logit) {
                logit = penalised(logit, entry, row);
              });
  save(changes.banned, changes.saved_banned, row.banned, logits, changes.vocab);
  for_entries(changes.banned, changes.saved_banned, row.banned, logits, changes.vocab,
              [](int32_t, float&, float& logit) { logit = __int_as_float(0xff800000); });
}

// The last change is undone first, so that each token ends with its oldest saved logit.
__global__ void __launch_bounds__(kThreads) undo(Changes changes) {
  device::cuda::allow_next();
  device::cuda::wait_for_previous();
  const SampleRow row = changes.rows[blockIdx.x];
  if (row.mode == RowMode::kSkip) {
    return;
  }
  float* const logits = changes.logits + blockIdx.x * changes.stride;
  restore(changes.banned, changes.saved_banned, row.banned, logits, changes.vocab);
  restore(changes.counts, changes.saved_counts, row.counts, logits, changes.vocab);
  restore(changes.bias, changes.saved_bias, row.bias, logits, changes.vocab);
}

Changes changes_of(const SampleParams& params, const RowMemory& memory) {
  Changes changes = {};
  changes.logits = params.logits;
  changes.stride = params.logits_stride;
  changes.vocab = static_cast<int32_t>(params.limits.vocab);
  changes.rows = params.rows;
  changes.bias = params.bias;
  changes.counts = params.counts;
  changes.banned = params.banned;
  changes.saved_bias = memory.saved;
  changes.saved_counts = changes.saved_bias + params.limits.max_bias;
  changes.saved_banned = changes.saved_counts + params.limits.max_counts;
  return changes;
}

cudaError_t launch_rows(void (*kernel)(Changes), const SampleParams& params,
                        const RowMemory& memory, const device::cuda::LaunchSite& site) {
  return device::cuda::launch(kernel, dim3(static_cast<unsigned>(params.num_rows)), dim3(kThreads),
                              0, site, changes_of(params, memory));
}

}  // namespace

cudaError_t apply_changes(const SampleParams& params, const RowMemory& memory,
                          const device::cuda::LaunchSite& site) {
  return launch_rows(apply, params, memory, site);
}

cudaError_t undo_changes(const SampleParams& params, const RowMemory& memory,
                         const device::cuda::LaunchSite& site) {
  return launch_rows(undo, params, memory, site);
}

}  // namespace zonda::kernels::cuda
