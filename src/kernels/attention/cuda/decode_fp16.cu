// Decode attention over a fp16 cache.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/cuda/decode_launch.cuh"

namespace zonda::kernels::cuda {

template cudaError_t launch_decode<DType::kFloat16>(const AttentionParams&, const DecodeSplit&,
                                                    const RopeAppendParams*,
                                                    const device::cuda::LaunchSite&);

}  // namespace zonda::kernels::cuda
