// Few-token linears of fp8 weights and bfloat16 tokens.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/cuda/linear_mma_float.cuh"

namespace zonda::kernels::cuda {

std::span<const LinearTactic> mma_kernels_fp8_bf16() { return kMmaFloatTactics<Fp8Format<Bf16>>; }

}  // namespace zonda::kernels::cuda
