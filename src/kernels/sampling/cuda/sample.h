// Choosing tokens on a CUDA device, without a sort of the vocabulary; the laws are those of
// kernels/sampling/sample.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cuda/launch.h"
#include "kernels/sampling/sample.h"

namespace zonda::kernels::cuda {

inline constexpr int32_t kMaxTopLogprobs = 20;

// What the workspace and the lists of changes are made for.
struct SampleLimits {
  int64_t max_rows = 0;
  int64_t vocab = 0;     // at most 2^20
  int64_t max_bias = 0;  // entries of all rows together, as for the next two
  int64_t max_counts = 0;
  int64_t max_banned = 0;
};

// Device memory for sample() and row_logprobs(), 256-byte aligned and zero-filled once before the
// first of them; calls that share it run one after the other.
int64_t sample_workspace_bytes(const SampleLimits& limits);

enum class RowMode : int32_t { kSkip, kGreedy, kDraw };

// Entries [begin, end) of a list.
struct ListRange {
  int32_t begin = 0;
  int32_t end = 0;
};

struct SampleRow {
  RowMode mode = RowMode::kSkip;
  DrawParams draw;   // of kDraw
  ListRange bias;    // a token at most once
  ListRange counts;  // a token at most once
  ListRange banned;
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
};

// Everything but the struct itself lies on the device, so that a captured call is replayed with new
// rows, lists and logits.
struct SampleParams {
  float* logits = nullptr;          // [num_rows, vocab]; changed for the while of the call
  int64_t logits_stride = 0;        // floats
  const SampleRow* rows = nullptr;  // [num_rows]
  const TokenBias* bias = nullptr;  // lists that rows point into; null if no row has any
  const TokenCount* counts = nullptr;
  const int32_t* banned = nullptr;
  int32_t* ids =
      nullptr;  // [num_rows]: token, kNoTokenLeft or not_finite_id(); a skipped row's stays
  void* workspace = nullptr;
  SampleLimits limits;
  int64_t num_rows = 0;
  bool any_changes = true;  // false: every list is empty, and the launches for them are spared
  bool any_draws = true;    // false: no row has kDraw, likewise
};

// Results that are no tokens.
inline constexpr int32_t kNoTokenLeft = -1;  // every token is banned
constexpr int32_t not_finite_id(int32_t first_token) { return -2 - first_token; }

// Greedy rows give the first of the largest changed logits, equal to greedy_token(). Drawn rows
// follow draw_token(): equal weights, added exactly in units of 2^-38 of the largest, so that the
// token does not depend on the split of the work; it differs from the CPU's only where the draw or
// top_p falls within rounding (about 3e-7 of the mass) of the border between two tokens.
cudaError_t sample(const SampleParams& params, const device::cuda::LaunchSite& site);

struct LogprobParams {
  const float* logits = nullptr;  // [num_rows, vocab]
  int64_t logits_stride = 0;
  const int32_t* chosen = nullptr;   // [num_rows]; a row with a negative one is skipped
  const int32_t* top_n = nullptr;    // [num_rows], at most kMaxTopLogprobs; negative: skipped
  float* chosen_logprobs = nullptr;  // [num_rows]; NaN if a logit is not finite or none is
  int32_t* chosen_ranks = nullptr;   // [num_rows]: 1 + how many logits are larger
  int32_t* top_tokens = nullptr;     // [num_rows, kMaxTopLogprobs], the likeliest first, of equal
                                     // ones the lower ids; entries from top_n on stay
  float* top_logprobs = nullptr;     // as top_tokens
  void* workspace = nullptr;
  SampleLimits limits;
  int64_t num_rows = 0;
};

// Log-softmax of the rows, as row_logprobs() of the CPU; a top_n above the vocabulary gives token
// -1 beyond it.
cudaError_t row_logprobs(const LogprobParams& params, const device::cuda::LaunchSite& site);

// The token, or the error that greedy_token() of the CPU reports.
Result<int32_t> chosen_token(int32_t id);

}  // namespace zonda::kernels::cuda
