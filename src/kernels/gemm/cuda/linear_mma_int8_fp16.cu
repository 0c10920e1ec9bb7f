// Few-token linears of int8 weights and float16 tokens.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/cuda/linear_mma_integer.cuh"
#include "kernels/gemm/cuda/mma_integer_kernels.h"

namespace zonda::kernels::cuda {

const IntegerKernels kInt8Fp16Kernels = {
    run_linear_mma_integer<Fp16, Int8Fragments, 2, 1, 2>,
    run_linear_mma_integer_single<Fp16, Int8Fragments, 0, 2>,
    run_linear_mma_integer<Fp16, Int8Fragments, 2, 2, 2>,
    run_linear_mma_integer<Fp16, Int8Fragments, 4, 4, 1>,
};

}  // namespace zonda::kernels::cuda
