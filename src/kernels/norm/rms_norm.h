// y = x / sqrt(mean(x^2) + eps) * weight, per row (Zhang & Sennrich 2019, arXiv 1910.07467).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/stream.h"

namespace zonda::kernels {

struct RmsNormParams {
  const float* x = nullptr;       // [num_rows, size], row stride x_stride floats
  const float* weight = nullptr;  // [size]
  float* y = nullptr;             // [num_rows, size], row stride y_stride floats; may alias x
  int64_t num_rows = 0;
  int64_t size = 0;
  int64_t x_stride = 0;
  int64_t y_stride = 0;
  float eps = 0.0f;
};

// A row's result depends on that row alone; threads split rows.
void rms_norm(const RmsNormParams& params, device::Stream& stream);
void rms_norm_reference(const RmsNormParams& params);

}  // namespace zonda::kernels
