// Probe loop for the bfloat16 dot product of AVX-512.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/probe/cpu/probe_kernels.h"

#ifdef __AVX512BF16__
#include "kernels/vector/intrinsics.h"

namespace zonda::kernels {
namespace {

double bf16_avx512bf16(int64_t iterations) {
  constexpr int kChains = 16;
  __m512 sums[kChains];
  for (__m512& sum : sums) {
    sum = _mm512_setzero_ps();
  }
  __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.5f));
  const __m512bh b = a;
  for (int64_t i = 0; i < iterations; ++i) {
    asm volatile("" : "+v"(a));
    for (__m512& sum : sums) {
      sum = _mm512_dpbf16_ps(sum, a, b);
    }
  }
  for (__m512& sum : sums) {
    asm volatile("" : : "v"(sum));
  }
  return static_cast<double>(iterations) * kChains * 32 * 2;
}

}  // namespace

ProbeKernels probe_kernels_avx512bf16() { return {nullptr, nullptr, nullptr, bf16_avx512bf16}; }

}  // namespace zonda::kernels
#else
namespace zonda::kernels {
ProbeKernels probe_kernels_avx512bf16() { return {}; }
}  // namespace zonda::kernels
#endif
