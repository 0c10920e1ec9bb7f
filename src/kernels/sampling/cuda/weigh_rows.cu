// Pass 2: mass and count of the bins, draws without filters, and the bins that pass 3 must order.
// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/dependent.cuh"
#include "kernels/sampling/cuda/bin_sums.cuh"
#include "kernels/vector/cuda/pack.cuh"

namespace zonda::kernels::cuda {
namespace {

// A slice's sums: masses in two halves, which 32 bits hold.
struct SliceBins {
  uint32_t low[kBins];
  uint32_t high[kBins];
  uint32_t count[kBins];
};

template <bool kLogprobs, int kWidth>
__device__ void fill_bins(const RowPass& pass, int64_t row, const SliceLogits<kWidth>& slice,
                          const RowWeights& weights, SliceBins& bins) {
  for (int bin = static_cast<int>(threadIdx.x); bin < kBins; bin += kThreads) {
    bins.low[bin] = bins.high[bin] = bins.count[bin] = 0;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const float distance = weights.distance(slice.logit[i]);
    const uint64_t mass = weights.mass(distance);
    if (slice.token(i) < pass.vocab && (kLogprobs || mass > 0)) {
      const int bin = weights.bin(distance);
      atomicAdd(&bins.count[bin], 1u);
      if (mass > 0) {
        atomicAdd(&bins.low[bin], static_cast<uint32_t>(mass & ((1u << kHalfMassBits) - 1)));
        atomicAdd(&bins.high[bin], static_cast<uint32_t>(mass >> kHalfMassBits));
      }
    }
  }
  __syncthreads();
  for (int bin = static_cast<int>(threadIdx.x); bin < kBins; bin += kThreads) {
    if (bins.count[bin] > 0) {
      const unsigned long long mass =
          bins.low[bin] + (static_cast<unsigned long long>(bins.high[bin]) << kHalfMassBits);
      atomicAdd(reinterpret_cast<unsigned long long*>(pass.memory.bin_mass + row * kBins + bin),
                mass);
      atomicAdd(pass.memory.bin_count + row * kBins + bin, bins.count[bin]);
    }
  }
}

template <int kWidth>
__device__ void sum_slice(const RowPass& pass, int64_t row, const SliceLogits<kWidth>& slice,
                          const RowWeights& weights) {
  uint64_t sum = 0;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    sum += weights.mass_of(slice.logit[i]);  // none beyond the vocabulary
  }
  sum = block_reduce<Plus>(sum);
  if (threadIdx.x == 0) {
    pass.memory.slice_mass[row * pass.slices + blockIdx.x] = sum;
  }
}

// Draws among all tokens in order of their ids, from the sums of the slices.
template <int kWidth>
__device__ void draw_by_id(const RowPass& pass, int64_t row, const RowTask& task,
                           const RowWeights& weights) {
  __shared__ int chosen_slice;
  __shared__ uint64_t before_slice;
  static_assert(kThreads * static_cast<int64_t>(kSlice) >= 1 << 20);  // a thread has one slice
  const int own = static_cast<int>(threadIdx.x);
  const uint64_t own_mass =
      own < pass.slices ? __ldcg(pass.memory.slice_mass + row * pass.slices + own) : 0;
  const uint64_t before = block_sum_before(own_mass);
  const uint64_t wanted = mass_of_draw(task.draw.uniform, block_reduce<Plus>(own_mass));
  if (before < wanted && wanted <= before + own_mass) {
    chosen_slice = own;
    before_slice = before;
  }
  __syncthreads();
  SliceLogits<kWidth> slice;
  slice.load(pass.logits + row * pass.stride, chosen_slice, pass.vocab);
  uint64_t passed = before_slice;
#pragma unroll
  for (int pack = 0; pack < kPerThread; pack += kWidth) {
    uint64_t mass[kWidth];
    uint64_t sum = 0;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      mass[i] = weights.mass_of(slice.logit[pack + i]);
      sum += mass[i];
    }
    uint64_t running = passed + block_sum_before(sum);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      if (running < wanted && wanted <= running + mass[i]) {
        pass.ids[row] = slice.token(pack + i);
      }
      running += mass[i];
    }
    passed += block_reduce<Plus>(sum);
  }
}

// The bins in which the last token of top-k, the last token of top-p and the drawn token can lie.
__device__ void needed_bins(const BinSums& bins, const RowTask& task, BinRange (&needed)[3]) {
  uint64_t least = bins.total_mass();
  uint64_t most = least;
  const auto top_k = static_cast<uint32_t>(task.draw.top_k);
  needed[0] = needed[1] = {0, -1};
  if (top_k > 0 && top_k < bins.total_count()) {
    const int bin = bins.bin_at_count(top_k);
    needed[0] = {bin, bin};
    least = bins.mass_before(bin) + 1;
    most = bins.mass[bin];
  }
  if (task.limits_mass()) {
    needed[1] = {bins.bin_at_mass(mass_of_top_p(task.draw.top_p, least)),
                 bins.bin_at_mass(mass_of_top_p(task.draw.top_p, most))};
    least = bins.mass_before(needed[1].first) + 1;
    most = bins.mass[needed[1].last];
  }
  needed[2] = {bins.bin_at_mass(mass_of_draw(task.draw.uniform, least)),
               bins.bin_at_mass(mass_of_draw(task.draw.uniform, most))};
}

__device__ bool is_needed(const BinRange (&needed)[3], int bin) {
  return (needed[0].first <= bin && bin <= needed[0].last) ||
         (needed[1].first <= bin && bin <= needed[1].last) ||
         (needed[2].first <= bin && bin <= needed[2].last);
}

__device__ uint32_t count_needed(const BinSums& bins, const BinRange (&needed)[3]) {
  uint32_t count = 0;
  for (int bin = static_cast<int>(threadIdx.x); bin < kBins; bin += kThreads) {
    count += is_needed(needed, bin) ? bins.count[bin] - bins.count_before(bin) : 0;
  }
  return block_reduce<Plus>(count);
}

// Of the chosen token.
__device__ void write_logprob(const RowPass& pass, int64_t row, const BinSums& bins,
                              RowState& state) {
  state.log_total = static_cast<double>(state.max) +
                    log(static_cast<double>(bins.total_mass()) / static_cast<double>(kMassUnit));
  const float logit = pass.logits[row * pass.stride + pass.chosen[row]];
  pass.chosen_logprobs[row] = static_cast<float>(static_cast<double>(logit) - state.log_total);
}

template <bool kLogprobs>
__device__ void plan_resolve(const RowPass& pass, int64_t row, const RowTask& task,
                             const BinSums& bins) {
  BinRange needed[3] = {{0, -1}, {0, -1}, {0, -1}};
  RowState& state = pass.memory.state[row];
  if constexpr (kLogprobs) {
    const uint32_t top = min(static_cast<uint32_t>(task.draw.top_k), bins.total_count());
    if (top > 0) {
      needed[0] = {0, bins.bin_at_count(top)};
    }
    if (threadIdx.x == 0) {
      write_logprob(pass, row, bins, state);
      state.live = top > 0;
    }
  } else {
    needed_bins(bins, task, needed);
  }
  const uint32_t count = count_needed(bins, needed);
  if (threadIdx.x == 0) {
    state.in_place = count > kListSize;
    state.list_size = 0;
    for (int i = 0; i < 3; ++i) {
      state.gathered[i] = needed[i];
    }
  }
}

template <bool kLogprobs, int kWidth>
__global__ void __launch_bounds__(kThreads) weigh(RowPass pass) {
  __shared__ union {
    SliceBins slice;
    BinSums row;
  } bins;
  device::cuda::allow_next();
  device::cuda::wait_for_previous();
  const int64_t row = blockIdx.y;
  const RowTask task = row_task<kLogprobs>(pass, row);
  if (!task.weighs || pass.memory.state[row].live == 0) {
    return;
  }
  const RowWeights weights = row_weights(task, pass.memory.state[row]);
  const bool by_id = !kLogprobs && !task.filters();
  SliceLogits<kWidth> slice;
  slice.load(pass.logits + row * pass.stride, static_cast<int>(blockIdx.x), pass.vocab);
  if (by_id) {
    sum_slice(pass, row, slice, weights);
  } else {
    fill_bins<kLogprobs>(pass, row, slice, weights, bins.slice);
  }
  if (!is_last_block(pass.memory.finished + row, pass.slices)) {
    return;
  }
  if (by_id) {
    draw_by_id<kWidth>(pass, row, task, weights);
    if (threadIdx.x == 0) {
      pass.memory.state[row].live = 0;
    }
    return;
  }
  bins.row.load(pass.memory, row);
  plan_resolve<kLogprobs>(pass, row, task, bins.row);
}

}  // namespace

cudaError_t weigh_rows(const RowPass& pass, const Launches& launches) {
  const bool wide = fits_packs(pass.logits, pass.stride * static_cast<int64_t>(sizeof(float)));
  const auto kernel = pass.rows != nullptr ? (wide ? weigh<false, 4> : weigh<false, 1>)
                                           : (wide ? weigh<true, 4> : weigh<true, 1>);
  const dim3 grid(static_cast<unsigned>(pass.slices), static_cast<unsigned>(launches.num_rows));
  return device::cuda::launch(kernel, grid, dim3(kThreads), 0, launches.site, pass);
}

}  // namespace zonda::kernels::cuda
