// Few-token linears of float16 weights.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/cuda/linear_mma_float.cuh"

namespace zonda::kernels::cuda {

std::span<const LinearTactic> mma_tactics_fp16() { return kMmaFloatTactics<FloatFormat<Fp16>>; }

}  // namespace zonda::kernels::cuda
