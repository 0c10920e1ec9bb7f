// The m16n8k16 kernels of one float format, or of fp8 with one 16-bit type of tokens, as tactics.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/cuda/linear_mma.cuh"
#include "kernels/gemm/cuda/tactic_lists.h"

namespace zonda::kernels::cuda {

template <class Format, int kTiles, int kTokenTiles, int kStages>
cudaError_t run_linear_mma_float(const LinearParams& params, const device::cuda::LaunchSite& site) {
  if (params.norm_weight != nullptr) {
    return launch_linear_mma<Format, kTiles, kTokenTiles, kStages, true>(params, site);
  }
  return launch_linear_mma<Format, kTiles, kTokenTiles, kStages, false>(params, site);
}

// Names: row tiles of 16, tokens, steps of 32 k (fp8: 64) in flight. The odd tile count takes no
// gated epilogue: there it is two tiles of half the steps.
template <class Format, int kTokenTiles, int kStages>
cudaError_t run_linear_mma_single(const LinearParams& params,
                                  const device::cuda::LaunchSite& site) {
  const bool gated =
      params.epilogue == Epilogue::kGatedSilu || params.epilogue == Epilogue::kGatedGeluTanh;
  return gated ? run_linear_mma_float<Format, 2, kTokenTiles, kStages / 2>(params, site)
               : run_linear_mma_float<Format, 1, kTokenTiles, kStages>(params, site);
}

template <class Format>
inline constexpr LinearTactic kMmaFloatTactics[] = {
    {"mma_r2_t8_s4", 1, 8, true, true, run_linear_mma_float<Format, 2, 1, 4>},
    {"mma_r1_t8_s8", 1, 8, true, true, run_linear_mma_single<Format, 1, 8>},
    {"mma_r1_t8_s4", 1, 8, true, true, run_linear_mma_single<Format, 1, 4>},
    {"mma_r4_t8_s2", 1, 8, true, true, run_linear_mma_float<Format, 4, 1, 2>},
    {"mma_r2_t16_s4", 9, 16, true, true, run_linear_mma_float<Format, 2, 2, 4>},
    {"mma_r4_t16_s2", 9, 16, true, true, run_linear_mma_float<Format, 4, 2, 2>},
    {"mma_r2_t32_s4", 17, 32, true, true, run_linear_mma_float<Format, 2, 4, 4>},
    {"mma_r4_t32_s2", 9, kAnyTokens, true, true, run_linear_mma_float<Format, 4, 4, 2>},
    {"mma_r4_t64_s2", 33, kAnyTokens, true, true, run_linear_mma_float<Format, 4, 8, 2>},
};

}  // namespace zonda::kernels::cuda
