// Probe loops for AVX2 and FMA.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/probe/cpu/probe_kernels.h"

#ifdef __AVX2__
#include "kernels/probe/cpu/read_streams.h"
#include "kernels/vector/intrinsics.h"

namespace zonda::kernels {
namespace {

typedef uint64_t Vector32 __attribute__((vector_size(32), may_alias));

double fp32_avx2(int64_t iterations) {
  constexpr int kChains = 12;
  __m256 sums[kChains];
  for (__m256& sum : sums) {
    sum = _mm256_setzero_ps();
  }
  __m256 factor = _mm256_set1_ps(0.5f);
  for (int64_t i = 0; i < iterations; ++i) {
    asm volatile("" : "+x"(factor));
    for (__m256& sum : sums) {
      sum = _mm256_fmadd_ps(sum, factor, factor);
    }
  }
  for (__m256& sum : sums) {
    asm volatile("" : : "x"(sum));
  }
  return static_cast<double>(iterations) * kChains * 8 * 2;
}

// The three instructions of an AVX2 int8 dot product: vpmaddubsw, vpmaddwd, vpaddd.
double int8_avx2(int64_t iterations) {
  constexpr int kChains = 8;
  __m256i sums[kChains];
  for (__m256i& sum : sums) {
    sum = _mm256_setzero_si256();
  }
  __m256i a = _mm256_set1_epi8(3);
  const __m256i b = _mm256_set1_epi8(-5);
  const __m256i ones = _mm256_set1_epi16(1);
  for (int64_t i = 0; i < iterations; ++i) {
    for (__m256i& sum : sums) {
      asm volatile("" : "+x"(a));
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones));
    }
  }
  for (__m256i& sum : sums) {
    asm volatile("" : : "x"(sum));
  }
  return static_cast<double>(iterations) * kChains * 32 * 2;
}

}  // namespace

ProbeKernels probe_kernels_avx2() {
  return {read_any_streams<Vector32>, fp32_avx2, int8_avx2, fp32_avx2};
}

}  // namespace zonda::kernels
#else
namespace zonda::kernels {
ProbeKernels probe_kernels_avx2() { return {}; }
}  // namespace zonda::kernels
#endif
