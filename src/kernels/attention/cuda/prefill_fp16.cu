// Prefill attention over a fp16 cache.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/cuda/prefill_kernel.cuh"

namespace zonda::kernels::cuda {

template cudaError_t launch_prefill<DType::kFloat16>(const AttentionParams&,
                                                     const device::cuda::LaunchSite&);

}  // namespace zonda::kernels::cuda
