// Probe loops for AVX-512 with VNNI.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/probe/cpu/probe_kernels.h"

#ifdef __AVX512VNNI__
#include "kernels/probe/cpu/read_streams.h"
#include "kernels/vector/intrinsics.h"

namespace zonda::kernels {
namespace {

typedef uint64_t Vector64 __attribute__((vector_size(64), may_alias));

double fp32_avx512(int64_t iterations) {
  constexpr int kChains = 16;
  __m512 sums[kChains];
  for (__m512& sum : sums) {
    sum = _mm512_setzero_ps();
  }
  __m512 factor = _mm512_set1_ps(0.5f);
  for (int64_t i = 0; i < iterations; ++i) {
    asm volatile("" : "+v"(factor));
    for (__m512& sum : sums) {
      sum = _mm512_fmadd_ps(sum, factor, factor);
    }
  }
  for (__m512& sum : sums) {
    asm volatile("" : : "v"(sum));
  }
  return static_cast<double>(iterations) * kChains * 16 * 2;
}

double int8_avx512(int64_t iterations) {
  constexpr int kChains = 16;
  __m512i sums[kChains];
  for (__m512i& sum : sums) {
    sum = _mm512_setzero_si512();
  }
  __m512i a = _mm512_set1_epi8(3);
  const __m512i b = _mm512_set1_epi8(-5);
  for (int64_t i = 0; i < iterations; ++i) {
    asm volatile("" : "+v"(a));
    for (__m512i& sum : sums) {
      sum = _mm512_dpbusd_epi32(sum, a, b);
    }
  }
  for (__m512i& sum : sums) {
    asm volatile("" : : "v"(sum));
  }
  return static_cast<double>(iterations) * kChains * 64 * 2;
}

}  // namespace

ProbeKernels probe_kernels_avx512() {
  return {read_any_streams<Vector64>, fp32_avx512, int8_avx512, fp32_avx512};
}

}  // namespace zonda::kernels
#else
namespace zonda::kernels {
ProbeKernels probe_kernels_avx512() { return {}; }
}  // namespace zonda::kernels
#endif
