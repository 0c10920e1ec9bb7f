// Passes over a row of logits for every processor.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/sampling/cpu/row_scan.h"
#include "kernels/vector/scalar.h"

namespace zonda::kernels {

const RowScanKernel kRowScanPortable = {row_block_max<Scalar>, row_block_sum<Scalar>,
                                        row_to_weights<Scalar>};

}  // namespace zonda::kernels
