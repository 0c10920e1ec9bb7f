// Few-token linears of int4 weights and float16 tokens.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/cuda/linear_mma_integer.cuh"
#include "kernels/gemm/cuda/mma_integer_kernels.h"

namespace zonda::kernels::cuda {

const IntegerKernels kInt4Fp16Kernels = {
    run_linear_mma_integer<Fp16, Int4Fragments, 2, 1, 4>,
    run_linear_mma_integer_single<Fp16, Int4Fragments, 1, 4>,
    run_linear_mma_integer<Fp16, Int4Fragments, 2, 2, 2>,
    run_linear_mma_integer<Fp16, Int4Fragments, 4, 4, 1>,
};

}  // namespace zonda::kernels::cuda
