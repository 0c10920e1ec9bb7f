// RMS normalisation of rows on a CUDA device; see kernels/norm/rms_norm.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "device/cuda/launch.h"

namespace zonda::kernels::cuda {

struct RmsNormParams {
  const void* x = nullptr;        // [num_rows, size] of activation, row stride x_stride elements
  const float* weight = nullptr;  // [size]
  void* y = nullptr;              // [num_rows, size] of activation; may alias x
  int64_t num_rows = 0;
  int64_t size = 0;
  int64_t x_stride = 0;
  int64_t y_stride = 0;
  float eps = 0.0f;
  DType activation = DType::kBFloat16;
};

// A row's result depends on that row alone.
cudaError_t rms_norm(const RmsNormParams& params, const device::cuda::LaunchSite& site);

}  // namespace zonda::kernels::cuda
