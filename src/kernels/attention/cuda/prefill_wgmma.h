// Prefill attention by the warpgroup products of architecture 90: what it takes, and its launches,
// one instantiation for each type of the cache in a file of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include "kernels/attention/cuda/attention.h"

namespace zonda::kernels::cuda {

// Heads of 64 or 128 elements. `p` is valid.
inline bool suits_wgmma(const AttentionParams& p) {
  return p.kv.head_size == 64 || p.kv.head_size == 128;
}

// `map`: of p.kv. Runs on `blocks` blocks; the values do not depend on their number.
template <DType kKv>
cudaError_t launch_prefill_wgmma(const AttentionParams& p, const CUtensorMap& map, int blocks,
                                 const device::cuda::LaunchSite& site);

}  // namespace zonda::kernels::cuda
