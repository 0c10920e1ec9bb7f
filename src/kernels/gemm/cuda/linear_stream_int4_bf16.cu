// Streaming few-token linears of int4 weights and bfloat16 tokens.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/cuda/linear_stream_integer.cuh"

namespace zonda::kernels::cuda {

const StreamKernel kStreamInt4Bf16 = run_stream_integer<Bf16, Int4Fragments>;

}  // namespace zonda::kernels::cuda
