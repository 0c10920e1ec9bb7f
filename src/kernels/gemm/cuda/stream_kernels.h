// The compiled streaming kernels by format.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/cuda/linear.h"

namespace zonda::kernels::cuda {

// How a tactic launches.
struct StreamChoice {
  int blocks = 2;     // of a multiprocessor
  bool deep = false;  // rings of 80 KB a block in place of 40
};

// More tokens than eight, or more than fit shared memory: cudaErrorNotSupported, and nothing is
// launched. `params.activation` is that of the name.
using StreamKernel = cudaError_t (*)(const LinearParams& params,
                                     const device::cuda::LaunchSite& site,
                                     const StreamChoice& choice);

extern const StreamKernel kStreamInt8Bf16;
extern const StreamKernel kStreamInt8Fp16;
extern const StreamKernel kStreamInt4Bf16;
extern const StreamKernel kStreamInt4Fp16;

}  // namespace zonda::kernels::cuda
