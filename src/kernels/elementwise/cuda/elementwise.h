// Sums, gated products and copies of rows on a CUDA device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "device/cuda/launch.h"
#include "kernels/gemm/linear.h"

namespace zonda::kernels::cuda {

struct ElementwiseParams {
  const void* a = nullptr;  // [count] of activation
  const void* b = nullptr;  // [count] of activation
  void* y = nullptr;        // [count] of activation; may alias a or b
  int64_t count = 0;
  DType activation = DType::kBFloat16;
};

// y = a + b, rounded once.
cudaError_t add(const ElementwiseParams& params, const device::cuda::LaunchSite& site);
// y = silu(a) * b or gelu_tanh(a) * b, in float32, rounded once.
cudaError_t gated(const ElementwiseParams& params, Epilogue kind,
                  const device::cuda::LaunchSite& site);

// y[i] = x[rows[i]].
struct SelectRowsParams {
  const void* x = nullptr;
  const int32_t* rows = nullptr;  // [num_rows]
  void* y = nullptr;              // [num_rows, size], dense
  int64_t num_rows = 0;
  int64_t size = 0;
  int64_t x_stride = 0;  // elements
  DType activation = DType::kBFloat16;
};
cudaError_t select_rows(const SelectRowsParams& params, const device::cuda::LaunchSite& site);

}  // namespace zonda::kernels::cuda
