// y = x * W^T on a CUDA device: one packed copy of each weight serves every tactic, from one token
// to thousands. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/dtype.h"
#include "device/cuda/launch.h"
#include "kernels/gemm/linear.h"

namespace zonda::kernels::cuda {

// Bytes of the packed matrix on the device; a multiple of 256.
int64_t packed_bytes(const PackedType& packed);
// On the host, from the checkpoint's layout; `out` has packed_bytes(packed). Errors as
// kernels::pack_weights, and kUnsupported for float32. packed_layout.h states the layout.
Result<void> pack_weights(const PackedType& packed, std::span<const WeightView> sources,
                          std::byte* out);

// All pointers are device memory. 16-bit values are of `activation`, which for float weights is
// their type; sums are float32. x is 16-byte aligned and x_stride a multiple of 8; what lies behind
// cols is not read. Integer weights are multiplied as integers and scaled by group, but the
// cublaslt tactics round each dequantised weight to `activation` first, and gated ones both
// products before the gate.
struct LinearParams {
  const void* x = nullptr;             // [num_tokens, cols], row stride x_stride elements
  const std::byte* weights = nullptr;  // packed_bytes(packed), 256-byte aligned
  const float* bias = nullptr;         // [rows] in source row order, or null
  // [num_tokens, y columns], row stride y_stride; kAddResidual only. May be y: the bits of a
  // deterministic tactic stay, the others may round otherwise.
  const void* residual = nullptr;
  void* y = nullptr;  // [num_tokens, rows or rows / 2], row stride y_stride elements; not x
  std::byte* workspace = nullptr;  // linear_workspace_bytes(...), 256-byte aligned
  // Not null: x is RMS-normalised on the way in, y = norm(x) * W^T; tactics with `fuses_norm` only.
  // x * norm_weight is rounded to `activation` (so in float16 it must not overflow), the reciprocal
  // root mean square multiplies the finished sum: rms_norm() rounds after both factors instead.
  // 16-byte aligned.
  const float* norm_weight = nullptr;  // [cols]
  float norm_eps = 0.0f;
  int64_t num_tokens = 0;
  int64_t x_stride = 0;
  int64_t y_stride = 0;
  PackedType packed;
  Epilogue epilogue = Epilogue::kStore;
  DType activation = DType::kBFloat16;  // kBFloat16 | kFloat16
  bool float32_output = false;          // y is float32 (logits); kStore only
};

int64_t linear_workspace_bytes(const PackedType& packed, int64_t max_tokens);

// One way to compute a linear. `deterministic`: a token's result depends neither on num_tokens nor
// on its row, and is bit-equal to that of every other deterministic tactic of the format.
struct LinearTactic {
  std::string_view name;  // unique within the list; stored in plans
  int64_t min_tokens = 1;
  int64_t max_tokens = 0;  // correct for [min_tokens, max_tokens] only
  bool fuses_norm = false;
  bool deterministic = false;
  cudaError_t (*run)(const LinearParams& params, const device::cuda::LaunchSite& site) = nullptr;
};

// Tactics that together cover any number of tokens; empty for float32 alone. The cublaslt ones are
// there where the library is. `compute_capability`: 80, 89, 90.
std::span<const LinearTactic> linear_tactics(const WeightType& type, int compute_capability);
// The one to take without timing.
const LinearTactic& default_linear_tactic(const WeightType& type, int compute_capability,
                                          int64_t num_tokens);

// y[t] = row ids[t] of a packed matrix: embedding lookup, also from a tied, packed table.
struct GatherRowsParams {
  const std::byte* weights = nullptr;
  const int32_t* ids = nullptr;  // [num_tokens], each in [0, rows)
  void* y = nullptr;             // [num_tokens, cols] of activation, row stride y_stride elements
  int64_t num_tokens = 0;
  int64_t y_stride = 0;
  PackedType packed;
  DType activation = DType::kBFloat16;
};
cudaError_t gather_rows(const GatherRowsParams& params, const device::cuda::LaunchSite& site);

// Fills a packed matrix with normally distributed weights of deviation `deviation`, a function of
// seed and place alone. Quantised formats draw uniform integers and set scales to match.
cudaError_t random_weights(const PackedType& packed, uint64_t seed, float deviation,
                           std::byte* weights, cudaStream_t stream);

}  // namespace zonda::kernels::cuda
