// Pass 3: the tokens of the needed bins in their exact order, and the result from them.
// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/dependent.cuh"
#include "kernels/sampling/cuda/bin_sums.cuh"
#include "kernels/sampling/cuda/row_search.cuh"
#include "kernels/vector/cuda/pack.cuh"

namespace zonda::kernels::cuda {
namespace {

// Appends the tokens of the needed bins, in any order. Counts what pass 2 counted.
template <bool kLogprobs, int kWidth>
__device__ void gather(const RowPass& pass, int64_t row, const RowWeights& weights) {
  RowState& state = pass.memory.state[row];
  const BinRange first = state.gathered[0];
  const BinRange second = state.gathered[1];
  const BinRange third = state.gathered[2];
  SliceLogits<kWidth> slice;
  slice.load(pass.logits + row * pass.stride, static_cast<int>(blockIdx.x), pass.vocab);
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const float distance = weights.distance(slice.logit[i]);
    const int bin = weights.bin(distance);
    const bool needed = (first.first <= bin && bin <= first.last) ||
                        (second.first <= bin && bin <= second.last) ||
                        (third.first <= bin && bin <= third.last);
    const int32_t token = slice.token(i);
    if (needed && token < pass.vocab && (kLogprobs || weights.mass(distance) > 0)) {
      const uint32_t place = atomicAdd(&state.list_size, 1u);
      if (place < kListSize) {
        pass.memory.list[row * kListSize + place] = ranked(slice.logit[i], token);
      }
    }
  }
}

// The token of a draw with filters, by a finder that knows where running counts and masses lie.
template <typename Finder>
__device__ int32_t draw(const RowTask& task, const BinSums& bins, Finder& finder) {
  uint64_t kept = bins.total_mass();
  const auto top_k = static_cast<uint32_t>(task.draw.top_k);
  if (top_k > 0 && top_k < bins.total_count()) {
    kept = finder.at_count(top_k).mass;
  }
  if (task.limits_mass()) {
    kept = finder.at_mass(mass_of_top_p(task.draw.top_p, kept)).mass;
  }
  return finder.token(finder.at_mass(mass_of_draw(task.draw.uniform, kept)));
}

__device__ void write_top(const RowPass& pass, int64_t row, int i, uint64_t entry) {
  const double logit = logit_of(entry);
  pass.top_tokens[row * kMaxTopLogprobs + i] = token_of(entry);
  pass.top_logprobs[row * kMaxTopLogprobs + i] =
      static_cast<float>(logit - pass.memory.state[row].log_total);
}

// The part of top_n that the vocabulary cannot fill.
__device__ void write_no_top(const RowPass& pass, int64_t row, int i) {
  pass.top_tokens[row * kMaxTopLogprobs + i] = -1;
  pass.top_logprobs[row * kMaxTopLogprobs + i] = minus_infinity();
}

// One token after the other, each the largest below the last: for rows of very many equal logits.
__device__ void write_top_in_place(const RowPass& pass, int64_t row, int count) {
  const float* const logits = pass.logits + row * pass.stride;
  uint64_t last = ~uint64_t{0};
  for (int i = 0; i < count; ++i) {
    uint64_t best = 0;
    for (int32_t token = static_cast<int32_t>(threadIdx.x); token < pass.vocab; token += kThreads) {
      const uint64_t entry = ranked(logits[token], token);
      best = entry < last ? Larger::of(best, entry) : best;
    }
    last = block_reduce<Larger>(best);
    if (threadIdx.x == 0) {
      write_top(pass, row, i, last);
    }
  }
}

template <bool kLogprobs>
__device__ void finish_list(const RowPass& pass, int64_t row, const RowTask& task,
                            const BinSums& bins, SortedList& list) {
  if constexpr (kLogprobs) {
    const int i = static_cast<int>(threadIdx.x);
    if (i < task.draw.top_k) {
      if (i < pass.vocab) {
        write_top(pass, row, i, list.entry[i]);
      } else {
        write_no_top(pass, row, i);
      }
    }
  } else {
    ListFinder finder{list, bins, row_weights(task, pass.memory.state[row])};
    const int32_t token = draw(task, bins, finder);
    if (threadIdx.x == 0) {
      pass.ids[row] = token;
    }
  }
}

template <bool kLogprobs>
__device__ void finish_in_place(const RowPass& pass, int64_t row, const RowTask& task,
                                const BinSums& bins) {
  if constexpr (kLogprobs) {
    write_top_in_place(pass, row, task.draw.top_k);
  } else {
    RowFinder finder{pass.logits + row * pass.stride, pass.vocab, bins,
                     row_weights(task, pass.memory.state[row])};
    const int32_t token = draw(task, bins, finder);
    if (threadIdx.x == 0) {
      pass.ids[row] = token;
    }
  }
}

template <bool kLogprobs, int kWidth>
__global__ void __launch_bounds__(kThreads) resolve(RowPass pass) {
  __shared__ BinSums bins;
  __shared__ SortedList list;
  device::cuda::allow_next();
  device::cuda::wait_for_previous();
  const int64_t row = blockIdx.y;
  const RowTask task = row_task<kLogprobs>(pass, row);
  if (!task.weighs || pass.memory.state[row].live == 0) {
    return;
  }
  const RowWeights weights = row_weights(task, pass.memory.state[row]);
  const bool in_place = pass.memory.state[row].in_place != 0;
  if (!in_place) {
    gather<kLogprobs, kWidth>(pass, row, weights);
  }
  if (!is_last_block(pass.memory.finished + row, pass.slices)) {
    return;
  }
  bins.load(pass.memory, row);
  if (in_place) {
    finish_in_place<kLogprobs>(pass, row, task, bins);
    return;
  }
  const auto size = static_cast<int>(__ldcg(&pass.memory.state[row].list_size));
  list.load(pass.memory.list + row * kListSize, size, weights);
  finish_list<kLogprobs>(pass, row, task, bins, list);
}

}  // namespace

cudaError_t resolve_rows(const RowPass& pass, const Launches& launches) {
  const bool wide = fits_packs(pass.logits, pass.stride * static_cast<int64_t>(sizeof(float)));
  const auto kernel = pass.rows != nullptr ? (wide ? resolve<false, 4> : resolve<false, 1>)
                                           : (wide ? resolve<true, 4> : resolve<true, 1>);
  const dim3 grid(static_cast<unsigned>(pass.slices), static_cast<unsigned>(launches.num_rows));
  return device::cuda::launch(kernel, grid, dim3(kThreads), 0, launches.site, pass);
}

}  // namespace zonda::kernels::cuda
