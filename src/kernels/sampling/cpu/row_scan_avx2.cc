// Passes over a row of logits for AVX2.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/sampling/cpu/row_scan.h"
#include "kernels/vector/avx2.h"

namespace zonda::kernels {

const RowScanKernel kRowScanAvx2 = {row_block_max<Avx2>, row_block_sum<Avx2>, row_to_weights<Avx2>};

}  // namespace zonda::kernels
