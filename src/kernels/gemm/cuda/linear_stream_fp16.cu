// Streaming few-token linears of float16 weights.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/cuda/linear_stream.cuh"

namespace zonda::kernels::cuda {

const StreamKernel kStreamFp16 = launch_linear_stream<FloatFormat<Fp16>>;

}  // namespace zonda::kernels::cuda
