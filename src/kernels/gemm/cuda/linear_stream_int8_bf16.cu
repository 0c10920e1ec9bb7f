// Streaming few-token linears of int8 weights and bfloat16 tokens.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/cuda/linear_stream_integer.cuh"

namespace zonda::kernels::cuda {

const StreamKernel kStreamInt8Bf16 = run_stream_integer<Bf16, Int8Fragments>;

}  // namespace zonda::kernels::cuda
