// The compiled m16n8k16 kernels of the integer formats: row tiles of 16, tokens of 8.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/cuda/linear.h"

namespace zonda::kernels::cuda {

// By tiles and tokens; `params.activation` is that of the name.
struct IntegerKernels {
  decltype(LinearTactic::run) r2_t8;
  decltype(LinearTactic::run) r1_t8;
  decltype(LinearTactic::run) r2_t16;
  decltype(LinearTactic::run) r4_t32;
};

extern const IntegerKernels kInt8Bf16Kernels;
extern const IntegerKernels kInt8Fp16Kernels;
extern const IntegerKernels kInt4Bf16Kernels;
extern const IntegerKernels kInt4Fp16Kernels;

}  // namespace zonda::kernels::cuda
