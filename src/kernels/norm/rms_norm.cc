// Checks, the choice of instruction set and the split of rows over threads.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm/rms_norm.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/norm/cpu/rms_norm_row.h"
#include "kernels/vector/targets.h"

namespace zonda::kernels {
namespace {

// Elements that make waking a second thread worth it.
constexpr int64_t kMinElementsPerThread = 8192;

RmsNormRow row_kernel(device::CpuIsa isa) {
  if constexpr (kHasX86Kernels) {
    if (isa >= device::CpuIsa::kAvx512) {
      return rms_norm_row_avx512;
    }
    if (isa >= device::CpuIsa::kAvx2) {
      return rms_norm_row_avx2;
    }
  }
  return rms_norm_row_reference;
}

}  // namespace

void rms_norm(const RmsNormParams& params, device::Stream& stream) {
  CHECK(params.size > 0 && params.x_stride >= params.size && params.y_stride >= params.size);
  const RmsNormRow kernel = row_kernel(stream.isa());
  const int64_t grain = std::max<int64_t>(1, kMinElementsPerThread / params.size);
  stream.pool().parallel_for(params.num_rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      kernel(params.x + row * params.x_stride, params.weight, params.y + row * params.y_stride,
             params.size, params.eps);
    }
  });
}

}  // namespace zonda::kernels
