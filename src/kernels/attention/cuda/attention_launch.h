// The launches of attention, one instantiation for each type of the cache in a file of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/cuda/attention.h"
#include "kernels/attention/cuda/decode_split.h"

namespace zonda::kernels::cuda {

template <DType kKv>
cudaError_t launch_decode(const AttentionParams& p, const DecodeSplit& split,
                          const RopeAppendParams* rope,  // null: q is rotated, keys are appended
                          const device::cuda::LaunchSite& site);

template <DType kKv>
cudaError_t launch_prefill(const AttentionParams& p, const device::cuda::LaunchSite& site);

}  // namespace zonda::kernels::cuda
