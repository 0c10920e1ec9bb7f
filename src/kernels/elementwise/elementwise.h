// Sums and gated products of rows: what the fused epilogues of linears do, as kernels of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "kernels/gemm/linear.h"

namespace zonda::kernels {

struct ElementwiseParams {
  const float* a = nullptr;  // [count]
  const float* b = nullptr;  // [count]
  float* y = nullptr;        // [count]; may alias a or b
  int64_t count = 0;
};

// y = a + b
void add(const ElementwiseParams& params, device::Stream& stream);
// y = silu(a) * b or gelu_tanh(a) * b; bit-equal to the gated epilogues of linears.
void gated(const ElementwiseParams& params, Epilogue activation, device::Stream& stream);

}  // namespace zonda::kernels
