// RMSNorm in plain loops, adding in the order that every instruction set keeps.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/norm/cpu/rms_norm_row.h"
#include "kernels/norm/rms_norm.h"

namespace zonda::kernels {

void rms_norm_row_reference(const float* x, const float* weight, float* y, int64_t size,
                            float eps) {
  float lane[16] = {};
  for (int64_t i = 0; i < size; ++i) {
    lane[i % 16] = std::fma(x[i], x[i], lane[i % 16]);
  }
  for (int half = 8; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) {
      lane[j] += lane[j + half];
    }
  }
  const float inverse = 1.0f / std::sqrt(lane[0] / static_cast<float>(size) + eps);
  for (int64_t i = 0; i < size; ++i) {
    y[i] = x[i] * inverse * weight[i];
  }
}

void rms_norm_reference(const RmsNormParams& params) {
  for (int64_t row = 0; row < params.num_rows; ++row) {
    rms_norm_row_reference(params.x + row * params.x_stride, params.weight,
                           params.y + row * params.y_stride, params.size, params.eps);
  }
}

}  // namespace zonda::kernels
