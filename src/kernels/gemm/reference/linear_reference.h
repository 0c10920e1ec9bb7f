// The plain loops behind linear_reference, split over threads by panel: the tactic of processors
// without a vector kernel. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/linear.h"

namespace zonda::kernels {

void run_linear_reference(const LinearParams& params, device::Stream& stream);

}  // namespace zonda::kernels
