// Linears of fp8 weights and tokens made fp8 that give float16.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/cuda/linear_mma_fp8_tokens.cuh"

namespace zonda::kernels::cuda {

std::span<const LinearTactic> mma_kernels_fp8_tokens_fp16() { return kMmaFp8TokensTactics<Fp16>; }

}  // namespace zonda::kernels::cuda
