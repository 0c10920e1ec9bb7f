// exp.h on eight lanes of AVX2 and FMA; include only from files compiled for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/activation/exp.h"
#include "kernels/vector/intrinsics.h"

namespace zonda::kernels {

static inline __m256 fast_exp(__m256 x) {
  using K = ExpConstants;
  const __m256 magic = _mm256_set1_ps(K::kMagic);
  const __m256 one = _mm256_set1_ps(1.0f);
  const __m256 too_low = _mm256_cmp_ps(x, _mm256_set1_ps(K::kLowest), _CMP_LT_OQ);
  x = _mm256_min_ps(_mm256_set1_ps(K::kHighest), x);  // this operand order keeps a NaN
  const __m256 shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(K::kLog2E), magic);
  const __m256 n = _mm256_sub_ps(shifted, magic);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(K::kLn2High), x);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(K::kLn2Low), r);
  __m256 p = _mm256_fmadd_ps(r, _mm256_set1_ps(K::kC6), _mm256_set1_ps(K::kC5));
  p = _mm256_fmadd_ps(r, p, _mm256_set1_ps(K::kC4));
  p = _mm256_fmadd_ps(r, p, _mm256_set1_ps(K::kC3));
  p = _mm256_fmadd_ps(r, p, _mm256_set1_ps(K::kC2));
  p = _mm256_fmadd_ps(r, p, one);
  p = _mm256_fmadd_ps(r, p, one);
  const __m256i bits =
      _mm256_add_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(K::kExponentOffset));
  const __m256 scale = _mm256_castsi256_ps(_mm256_slli_epi32(bits, 23));
  const __m256 y = _mm256_mul_ps(_mm256_mul_ps(p, scale), _mm256_set1_ps(2.0f));
  return _mm256_andnot_ps(too_low, y);
}

static inline __m256 fast_tanh(__m256 x) {
  using K = TanhConstants;
  const __m256 sign_bit = _mm256_set1_ps(-0.0f);
  const __m256 one = _mm256_set1_ps(1.0f);
  const __m256 magnitude = _mm256_andnot_ps(sign_bit, x);
  const __m256 u = _mm256_mul_ps(x, x);
  __m256 p = _mm256_fmadd_ps(u, _mm256_set1_ps(K::kT4), _mm256_set1_ps(K::kT3));
  p = _mm256_fmadd_ps(u, p, _mm256_set1_ps(K::kT2));
  p = _mm256_fmadd_ps(u, p, _mm256_set1_ps(K::kT1));
  p = _mm256_fmadd_ps(u, p, _mm256_set1_ps(K::kT0));
  const __m256 small = _mm256_fmadd_ps(_mm256_mul_ps(x, u), p, x);
  const __m256 e = fast_exp(_mm256_add_ps(magnitude, magnitude));
  const __m256 y = _mm256_sub_ps(one, _mm256_div_ps(_mm256_set1_ps(2.0f), _mm256_add_ps(e, one)));
  const __m256 large = _mm256_or_ps(_mm256_andnot_ps(sign_bit, y), _mm256_and_ps(sign_bit, x));
  const __m256 is_small = _mm256_cmp_ps(magnitude, _mm256_set1_ps(K::kSmall), _CMP_LT_OQ);
  return _mm256_blendv_ps(large, small, is_small);
}

static inline __m256 silu(__m256 x) {
  const __m256 e = fast_exp(_mm256_xor_ps(x, _mm256_set1_ps(-0.0f)));
  return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), e));
}

static inline __m256 gelu_tanh(__m256 x) {
  using K = GeluConstants;
  const __m256 cube = _mm256_mul_ps(_mm256_mul_ps(x, x), x);
  const __m256 u = _mm256_fmadd_ps(cube, _mm256_set1_ps(K::kCubic), x);
  const __m256 e = fast_exp(_mm256_mul_ps(u, _mm256_set1_ps(K::kMinusTwoRoot)));
  return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), e));
}

}  // namespace zonda::kernels
