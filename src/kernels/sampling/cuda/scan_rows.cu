// Pass 1: the largest and smallest logit of each row, faulty ones, and greedy choices.
// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/dependent.cuh"
#include "kernels/sampling/cuda/block_ops.cuh"
#include "kernels/sampling/cuda/row_weights.cuh"
#include "kernels/vector/cuda/pack.cuh"

namespace zonda::kernels::cuda {
namespace {

// Statistics of parts of a row, combined in any order.
struct Stats {
  uint64_t best = 0;
  uint32_t bad = kNoBad;
  float lowest = -minus_infinity();
  uint32_t larger = 0;

  __device__ void combine() {
    best = block_reduce<Larger>(best);
    bad = block_reduce<Smaller>(bad);
    lowest = block_reduce<Smaller>(lowest);
    larger = block_reduce<Plus>(larger);
  }
};

template <int kWidth>
__device__ Stats slice_stats(const float* row, int32_t vocab, float own) {
  SliceLogits<kWidth> slice;
  slice.load(row, static_cast<int>(blockIdx.x), vocab);
  Stats stats;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const float logit = slice.logit[i];
    const int32_t token = slice.token(i);
    if (token < vocab) {
      if (!(logit < -minus_infinity())) {  // NaN too
        stats.bad = min(stats.bad, static_cast<uint32_t>(token));
      }
      stats.best = Larger::of(stats.best, ranked(logit, token));
      stats.lowest = logit > minus_infinity() ? fminf(stats.lowest, logit) : stats.lowest;
      stats.larger += logit > own ? 1 : 0;
    }
  }
  stats.combine();
  return stats;
}

__device__ Stats row_stats(const SliceStats* slices, int count) {
  Stats stats;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    stats.best = Larger::of<uint64_t>(stats.best, __ldcg(&slices[i].best));
    stats.bad = min(stats.bad, __ldcg(&slices[i].bad));
    stats.lowest = fminf(stats.lowest, __ldcg(&slices[i].lowest));
    stats.larger += __ldcg(&slices[i].larger);
  }
  stats.combine();
  return stats;
}

// Bins share out the distance from the largest logit to the smallest that matters.
__device__ float bins_per_unit(const Stats& stats, float temperature, float reach) {
  const float range = fminf((logit_of(stats.best) - stats.lowest) / temperature, reach);
  return range > 0.0f ? fminf(static_cast<float>(kBins) / range, 1e30f) : 0.0f;
}

__device__ int32_t greedy_id(const Stats& stats) {
  if (stats.bad != kNoBad) {
    return not_finite_id(static_cast<int32_t>(stats.bad));
  }
  return logit_of(stats.best) == minus_infinity() ? kNoTokenLeft : token_of(stats.best);
}

// One thread.
template <bool kLogprobs>
__device__ void finish(const RowPass& pass, int64_t row, const RowTask& task, const Stats& stats) {
  const int32_t id = greedy_id(stats);
  RowState& state = pass.memory.state[row];
  state.max = logit_of(stats.best);
  state.bins_per_unit =
      bins_per_unit(stats, task.draw.temperature, kLogprobs ? kLogprobReach : kDrawReach);
  state.live = task.weighs && id >= 0;
  if constexpr (kLogprobs) {
    const float nan = __int_as_float(0x7fffffff);
    pass.chosen_ranks[row] = static_cast<int32_t>(stats.larger) + 1;
    if (id < 0) {
      pass.chosen_logprobs[row] = nan;
      for (int32_t i = 0; i < task.draw.top_k; ++i) {
        pass.top_tokens[row * kMaxTopLogprobs + i] = -1;
        pass.top_logprobs[row * kMaxTopLogprobs + i] = nan;
      }
    }
  } else if (state.live == 0) {
    pass.ids[row] = id;
  }
}

template <bool kLogprobs, int kWidth>
__global__ void __launch_bounds__(kThreads) scan(RowPass pass) {
  device::cuda::allow_next();
  device::cuda::wait_for_previous();
  const int64_t row = blockIdx.y;
  const int slice = static_cast<int>(blockIdx.x);
  const RowTask task = row_task<kLogprobs>(pass, row);
  if (!task.active) {
    return;
  }
  const float* const logits = pass.logits + row * pass.stride;
  float own = -minus_infinity();
  if constexpr (kLogprobs) {
    own = logits[pass.chosen[row]];
  }
  if (task.weighs) {
    for (int bin = slice * kThreads + static_cast<int>(threadIdx.x); bin < kBins;
         bin += pass.slices * kThreads) {
      pass.memory.bin_mass[row * kBins + bin] = 0;
      pass.memory.bin_count[row * kBins + bin] = 0;
    }
  }
  const Stats own_stats = slice_stats<kWidth>(logits, pass.vocab, own);
  SliceStats* const stats = pass.memory.stats + row * pass.slices;
  if (threadIdx.x == 0) {
    stats[slice] = {own_stats.best, own_stats.bad, own_stats.lowest, own_stats.larger, 0};
  }
  if (!is_last_block(pass.memory.finished + row, pass.slices)) {
    return;
  }
  const Stats all = row_stats(stats, pass.slices);
  if (threadIdx.x == 0) {
    finish<kLogprobs>(pass, row, task, all);
  }
}

}  // namespace

cudaError_t scan_rows(const RowPass& pass, const Launches& launches) {
  const bool wide = fits_packs(pass.logits, pass.stride * static_cast<int64_t>(sizeof(float)));
  const auto kernel = pass.rows != nullptr ? (wide ? scan<false, 4> : scan<false, 1>)
                                           : (wide ? scan<true, 4> : scan<true, 1>);
  const dim3 grid(static_cast<unsigned>(pass.slices), static_cast<unsigned>(launches.num_rows));
  return device::cuda::launch(kernel, grid, dim3(kThreads), 0, launches.site, pass);
}

}  // namespace zonda::kernels::cuda
