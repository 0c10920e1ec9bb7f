// Linear kernels of avx512: the same as those of the level below.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/cpu/linear_kernel.h"

namespace zonda::kernels {
TacticList linear_tactics_avx512(WeightFormat format) { return linear_tactics_avx2(format); }
}  // namespace zonda::kernels
