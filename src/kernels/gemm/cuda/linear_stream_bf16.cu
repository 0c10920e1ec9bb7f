// Streaming few-token linears of bfloat16 weights.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/cuda/linear_stream.cuh"

namespace zonda::kernels::cuda {

const StreamKernel kStreamBf16 = launch_linear_stream<FloatFormat<Bf16>>;

}  // namespace zonda::kernels::cuda
