// Prefill attention of architecture 90 over a fp8 cache.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/cuda/prefill_wgmma_kernel.cuh"

namespace zonda::kernels::cuda {

template cudaError_t launch_prefill_wgmma<DType::kFloat8E4M3>(const AttentionParams&,
                                                              const CUtensorMap&, int,
                                                              const device::cuda::LaunchSite&);

}  // namespace zonda::kernels::cuda
