// Few-token linears of bfloat16 weights.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/cuda/linear_mma_float.cuh"

namespace zonda::kernels::cuda {

std::span<const LinearTactic> mma_tactics_bf16() { return kMmaFloatTactics<FloatFormat<Bf16>>; }

}  // namespace zonda::kernels::cuda
