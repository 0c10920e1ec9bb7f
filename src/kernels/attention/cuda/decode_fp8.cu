// Decode attention over a fp8 cache.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/cuda/decode_launch.cuh"

namespace zonda::kernels::cuda {

template cudaError_t launch_decode<DType::kFloat8E4M3>(const AttentionParams&, const DecodeSplit&,
                                                       const RopeAppendParams*,
                                                       const device::cuda::LaunchSite&);

}  // namespace zonda::kernels::cuda
