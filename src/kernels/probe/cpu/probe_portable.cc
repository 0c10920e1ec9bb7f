// Probe loops in plain C++: whatever vectors the compiler's base target has.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/probe/cpu/probe_kernels.h"
#include "kernels/probe/cpu/read_streams.h"

namespace zonda::kernels {
namespace {

typedef uint64_t Vector16 __attribute__((vector_size(16), may_alias));
typedef float Floats4 __attribute__((vector_size(16)));

double fp32_portable(int64_t iterations) {
  constexpr int kChains = 12;
  Floats4 sums[kChains] = {};
  Floats4 factor = {0.5f, 0.5f, 0.5f, 0.5f};
  for (int64_t i = 0; i < iterations; ++i) {
    for (Floats4& sum : sums) {
      sum = sum * factor + factor;
    }
  }
  volatile float keep = 0.0f;
  for (const Floats4& sum : sums) {
    keep = keep + sum[0];
  }
  return static_cast<double>(iterations) * kChains * 4 * 2;
}

double int8_portable(int64_t iterations) {
  constexpr int kValues = 64;
  int8_t a[kValues];
  int8_t b[kValues];
  for (int i = 0; i < kValues; ++i) {
    a[i] = static_cast<int8_t>(i);
    b[i] = static_cast<int8_t>(-i);
  }
  for (int64_t i = 0; i < iterations; ++i) {
    asm volatile("" : : "r"(a), "r"(b) : "memory");  // both may have changed: multiply again
    int32_t sum = 0;
    for (int k = 0; k < kValues; ++k) {
      sum += int32_t{a[k]} * b[k];
    }
    asm volatile("" : : "r"(sum));
  }
  return static_cast<double>(iterations) * kValues * 2;
}

}  // namespace

ProbeKernels probe_kernels_portable() {
  return {read_any_streams<Vector16>, fp32_portable, int8_portable, fp32_portable};
}

}  // namespace zonda::kernels
