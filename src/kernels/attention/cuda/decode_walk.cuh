// Which shares a block takes: the ones of its place in a cluster, or an equal number of the whole
// batch. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/cuda/attention.h"
#include "kernels/attention/cuda/decode_device.cuh"
#include "kernels/attention/cuda/decode_split.h"

namespace zonda::kernels::cuda {

// A row, and how many shares the block has in the rows after it.
struct DecodePlace {
  int sequence;
  int row;
  int left;
  bool has_newest;  // the block has the share with the newest key
};

// The shares of one row that a block has; they are consecutive.
struct DecodeRun {
  DecodePlace place;
  int first_share;
  int end_share;
  int begin;  // keys of the sequence
  int end;
  DecodeShares shares;

  __device__ __forceinline__ void enter(const AttentionParams& p, const DecodeSplit& split) {
    end = load_early(p.start_position + place.sequence) + 1;
    begin = p.window > 0 && end > p.window ? end - p.window : 0;
    shares = decode_shares(split, begin, end);
  }
  // Shares from `share` on, of at most `all` of this row and those after it.
  __device__ __forceinline__ void take(int share, int all) {
    first_share = share;
    end_share = min(share + all, shares.count);
    place.left = all - (end_share - share);
    place.has_newest = end_share == shares.count;
  }
  __device__ __forceinline__ int first_tile(int share) const {
    return min(shares.first + share * shares.each, shares.last);
  }
  __device__ __forceinline__ bool is_whole() const { return first_share == 0 && place.has_newest; }
};

// The block's run in the row after that of `run`; run.place.left > 0. What belongs to the sequence
// is kept where it is the same: loads would queue behind the copies that are on their way.
__device__ __forceinline__ DecodeRun next_run(const AttentionParams& p, const DecodeSplit& split,
                                              DecodeRun run) {
  if (++run.place.row == p.kv.num_kv_heads * split.group_tiles) {
    run.place.row = 0;
    do {
      ++run.place.sequence;
    } while (load_early(p.num_tokens + run.place.sequence) == 0);
    run.enter(p, split);
  }
  run.take(0, run.place.left);
  return run;
}

// False: nothing to do. Called by all blocks of a cluster, which have one row, some maybe without a
// share of it.
__device__ __forceinline__ bool find_cluster_work(DecodeRun& run, const AttentionParams& p,
                                                  const DecodePlan& plan) {
  const int rows = p.kv.num_kv_heads * plan.split.group_tiles;
  const int index = static_cast<int>(blockIdx.x) / plan.cluster;
  const int rank = static_cast<int>(blockIdx.x) % plan.cluster;
  run.place.sequence = index / rows;
  run.place.row = index % rows;
  run.enter(p, plan.split);
  const int first = rank * run.shares.count / plan.cluster;
  run.take(first, (rank + 1) * run.shares.count / plan.cluster - first);
  return load_early(p.num_tokens + run.place.sequence) != 0;
}

struct DecodeWalkScratch {
  int warp_sums[kDecodeWarps];
  int sequence;
  int row;
  int share;
};

// False: nothing to do. The same for all threads; `scratch` is shared.
__device__ __forceinline__ bool find_balanced_work(DecodeRun& run, const AttentionParams& p,
                                                   const DecodePlan& plan,
                                                   DecodeWalkScratch& scratch) {
  const int thread = static_cast<int>(threadIdx.x);
  const int rows = p.kv.num_kv_heads * plan.split.group_tiles;
  const int each = (p.num_sequences + kDecodeThreads - 1) / kDecodeThreads;
  const int first = thread * each;
  const int last = min(first + each, p.num_sequences);
  const auto shares_of = [&](int sequence) {
    run.place.sequence = sequence;
    run.enter(p, plan.split);
    return load_early(p.num_tokens + sequence) == 0 ? 0 : rows * run.shares.count;
  };
  int mine = 0;
#pragma unroll 1
  for (int s = first; s < last; ++s) {
    mine += shares_of(s);
  }
  int through = mine;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(~0u, through, step);
    through += thread % 32 >= step ? other : 0;
  }
  if (thread % 32 == 31) {
    scratch.warp_sums[thread / 32] = through;
  }
  __syncthreads();
  int all = 0;
#pragma unroll
  for (int w = 0; w < kDecodeWarps; ++w) {
    through += w < thread / 32 ? scratch.warp_sums[w] : 0;
    all += scratch.warp_sums[w];
  }
  const int of_block = (all + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x);
  const int start = static_cast<int>(blockIdx.x) * of_block;
  if (start >= all) {
    return false;
  }
  int rest = start - (through - mine);
  if (rest >= 0 && rest < mine) {
    int s = first;
#pragma unroll 1
    for (int here = shares_of(s); rest >= here; here = shares_of(++s)) {
      rest -= here;
    }
    scratch.sequence = s;
    scratch.row = rest / run.shares.count;
    scratch.share = rest % run.shares.count;
  }
  __syncthreads();
  run.place.sequence = scratch.sequence;
  run.place.row = scratch.row;
  run.enter(p, plan.split);
  run.take(scratch.share, min(of_block, all - start));
  return true;
}

}  // namespace zonda::kernels::cuda
