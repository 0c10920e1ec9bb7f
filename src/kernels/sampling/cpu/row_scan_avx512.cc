// Passes over a row of logits for AVX-512.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/sampling/cpu/row_scan.h"
#include "kernels/vector/avx512.h"

namespace zonda::kernels {

const RowScanKernel kRowScanAvx512 = {row_block_max<Avx512>, row_block_sum<Avx512>,
                                      row_to_weights<Avx512>};

}  // namespace zonda::kernels
