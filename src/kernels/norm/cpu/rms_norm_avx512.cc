// RMSNorm for AVX-512.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/cpu/rms_norm_row.h"
#include "kernels/vector/avx512.h"

namespace zonda::kernels {

void rms_norm_row_avx512(const float* x, const float* weight, float* y, int64_t size, float eps) {
  rms_norm_row<Avx512>(x, weight, y, size, eps);
}

}  // namespace zonda::kernels
