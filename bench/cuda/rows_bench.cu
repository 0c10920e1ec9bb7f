// Times RMSNorm, sums, gated products and row copies in bfloat16 on the current CUDA device: rows
// of the Llama-3.1-8B shape, in replayed graphs with dependent launches, data rotated beyond the
// L2. SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>

#include "kernels/elementwise/cuda/elementwise.h"
#include "kernels/norm/cuda/rms_norm.h"
#include "timing.h"

namespace zonda::bench {
namespace {

using Value = __nv_bfloat16;

constexpr int64_t kHidden = 4096;
constexpr int64_t kInner = 14336;
constexpr int64_t kPool = int64_t{192} << 20;  // elements of each array: 384 MiB

struct Setting {
  cudaStream_t stream = nullptr;
  Value* a = normal_array<Value>(kPool, 1.0f, 1);
  Value* b = normal_array<Value>(kPool, 1.0f, 2);
  Value* y = device_array<Value>(kPool);
  float* weight = normal_array<float>(kHidden, 1.0f, 3);
  int32_t* rows = nullptr;

  Setting() {
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    std::vector<int32_t> order;
    for (int32_t i = 0; i < 8192; ++i) {
      order.push_back((i * 37 + 5) % 8192);
    }
    rows = device_copy(order);
  }
};

// Calls of one graph, each on its own part of the arrays.
int calls(int64_t elements) { return static_cast<int>(std::min<int64_t>(kPool / elements, 128)); }

void time_rows(Setting& setting, int64_t rows) {
  const device::cuda::LaunchSite site{.stream = setting.stream, .dependent = true};
  const int64_t hidden = rows * kHidden;
  const int64_t inner = rows * kInner;
  double us = time_calls(setting.stream, calls(hidden), [&](int call) {
    return kernels::cuda::rms_norm({.x = setting.a + call * hidden,
                                    .weight = setting.weight,
                                    .y = setting.y + call * hidden,
                                    .num_rows = rows,
                                    .size = kHidden,
                                    .x_stride = kHidden,
                                    .y_stride = kHidden,
                                    .eps = 1e-5f},
                                   site);
  });
  print_row("rms_norm 4096", rows, us, static_cast<double>(hidden) * 4);
  us = time_calls(setting.stream, calls(hidden), [&](int call) {
    return kernels::cuda::add({.a = setting.a + call * hidden,
                               .b = setting.b + call * hidden,
                               .y = setting.y + call * hidden,
                               .count = hidden},
                              site);
  });
  print_row("add 4096", rows, us, static_cast<double>(hidden) * 6);
  us = time_calls(setting.stream, calls(inner), [&](int call) {
    return kernels::cuda::gated({.a = setting.a + call * inner,
                                 .b = setting.b + call * inner,
                                 .y = setting.y + call * inner,
                                 .count = inner},
                                kernels::Epilogue::kGatedSilu, site);
  });
  print_row("gated silu 14336", rows, us, static_cast<double>(inner) * 6);
  us = time_calls(setting.stream, calls(hidden), [&](int call) {
    return kernels::cuda::select_rows({.x = setting.a,
                                       .rows = setting.rows,
                                       .y = setting.y + call * hidden,
                                       .num_rows = rows,
                                       .size = kHidden,
                                       .x_stride = kHidden},
                                      site);
  });
  print_row("select_rows 4096", rows, us, static_cast<double>(hidden) * 4);
}

}  // namespace
}  // namespace zonda::bench

int main() {
  zonda::bench::Setting setting;
  std::printf("%-34s %6s %12s %13s %7s\n", "case", "rows", "time", "moved", "of 4.5");
  for (const int64_t rows : {1, 8, 32, 256, 2048, 8192}) {
    zonda::bench::time_rows(setting, rows);
  }
  return 0;
}
