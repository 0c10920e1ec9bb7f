// The work on a row of logits in three passes, and the memory that carries it from one to the next.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/sampling/cuda/sample.h"

namespace zonda::kernels::cuda {

// A block of kThreads threads takes a slice of a row; the last block of a row to finish goes on
// with what the slices found.
inline constexpr int kThreads = 256;
inline constexpr int kPerThread = 16;
inline constexpr int kSlice = kThreads * kPerThread;
// Logits are put into bins by their distance from the largest; bin 0 holds the largest.
inline constexpr int kBins = 1024;
// Candidates that are sorted in shared memory; rows that need more are searched in place.
inline constexpr int kListSize = 2048;

inline constexpr int num_slices(int64_t vocab) {
  return static_cast<int>((vocab + kSlice - 1) / kSlice);
}

struct SliceStats {
  uint64_t best;    // logit and token in one, see row_weights.cuh
  uint32_t bad;     // first token whose logit is not finite, or kNoBad
  float lowest;     // smallest logit above -infinity
  uint32_t larger;  // logits above the chosen token's
  uint32_t padding;
};
inline constexpr uint32_t kNoBad = 0xffffffffu;

struct BinRange {
  int32_t first;
  int32_t last;  // inclusive; below first: empty
};

// What later passes must know of a row.
struct RowState {
  double log_total;      // log of the sum of exp(logit)
  float max;             // largest logit
  float bins_per_unit;   // bins in a distance of one temperature
  int32_t live;          // 0: the row is done
  int32_t in_place;      // 1: too many candidates for the list
  BinRange gathered[3];  // bins whose tokens go to the list
  uint32_t list_size;
};

// Pointers into the workspace. The counters are 0 between calls.
struct RowMemory {
  SliceStats* stats;     // [rows, slices]
  uint64_t* slice_mass;  // [rows, slices]
  uint64_t* bin_mass;    // [rows, kBins]
  uint32_t* bin_count;   // [rows, kBins]
  uint64_t* list;        // [rows, kListSize]
  RowState* state;       // [rows]
  uint32_t* finished;    // [rows]: blocks of the running pass that are done
  float* saved;          // [max_bias + max_counts + max_banned]: logits before they were changed
  int64_t bytes;         // of the whole
};

RowMemory row_memory(void* workspace, const SampleLimits& limits);

// The rows of sample(), or those of row_logprobs(), whose fields are null for sample().
struct RowPass {
  const float* logits;
  int64_t stride;
  int32_t vocab;
  int32_t slices;
  RowMemory memory;
  const SampleRow* rows;
  int32_t* ids;
  const int32_t* chosen;
  const int32_t* top_n;
  float* chosen_logprobs;
  int32_t* chosen_ranks;
  int32_t* top_tokens;
  float* top_logprobs;
};

struct Launches {
  int64_t num_rows;
  device::cuda::LaunchSite site;
};

// Pass 1: the largest and the smallest logit. Greedy rows are done.
cudaError_t scan_rows(const RowPass& pass, const Launches& launches);
// Pass 2: mass and count of each bin, and which bins the result depends on. Draws without filters
// are done.
cudaError_t weigh_rows(const RowPass& pass, const Launches& launches);
// Pass 3: the tokens of these bins in order, and from them the result.
cudaError_t resolve_rows(const RowPass& pass, const Launches& launches);

// Changes of logits, and their undoing.
cudaError_t apply_changes(const SampleParams& params, const RowMemory& memory,
                          const device::cuda::LaunchSite& site);
cudaError_t undo_changes(const SampleParams& params, const RowMemory& memory,
                         const device::cuda::LaunchSite& site);

}  // namespace zonda::kernels::cuda
