// exp.h on sixteen lanes of AVX-512 F and DQ; include only from files compiled for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/activation/exp.h"
#include "kernels/vector/intrinsics.h"

namespace zonda::kernels {

static inline __m512 fast_exp(__m512 x) {
  using K = ExpConstants;
  const __m512 magic = _mm512_set1_ps(K::kMagic);
  const __m512 one = _mm512_set1_ps(1.0f);
  const __mmask16 in_range = _mm512_cmp_ps_mask(x, _mm512_set1_ps(K::kLowest), _CMP_NLT_UQ);
  x = _mm512_min_ps(_mm512_set1_ps(K::kHighest), x);  // this operand order keeps a NaN
  const __m512 shifted = _mm512_fmadd_ps(x, _mm512_set1_ps(K::kLog2E), magic);
  const __m512 n = _mm512_sub_ps(shifted, magic);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(K::kLn2High), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(K::kLn2Low), r);
  __m512 p = _mm512_fmadd_ps(r, _mm512_set1_ps(K::kC6), _mm512_set1_ps(K::kC5));
  p = _mm512_fmadd_ps(r, p, _mm512_set1_ps(K::kC4));
  p = _mm512_fmadd_ps(r, p, _mm512_set1_ps(K::kC3));
  p = _mm512_fmadd_ps(r, p, _mm512_set1_ps(K::kC2));
  p = _mm512_fmadd_ps(r, p, one);
  p = _mm512_fmadd_ps(r, p, one);
  const __m512i bits =
      _mm512_add_epi32(_mm512_castps_si512(shifted), _mm512_set1_epi32(K::kExponentOffset));
  const __m512 scale = _mm512_castsi512_ps(_mm512_slli_epi32(bits, 23));
  const __m512 y = _mm512_mul_ps(_mm512_mul_ps(p, scale), _mm512_set1_ps(2.0f));
  return _mm512_maskz_mov_ps(in_range, y);
}

static inline __m512 fast_tanh(__m512 x) {
  using K = TanhConstants;
  const __m512 sign_bit = _mm512_set1_ps(-0.0f);
  const __m512 one = _mm512_set1_ps(1.0f);
  const __m512 magnitude = _mm512_andnot_ps(sign_bit, x);
  const __m512 u = _mm512_mul_ps(x, x);
  __m512 p = _mm512_fmadd_ps(u, _mm512_set1_ps(K::kT4), _mm512_set1_ps(K::kT3));
  p = _mm512_fmadd_ps(u, p, _mm512_set1_ps(K::kT2));
  p = _mm512_fmadd_ps(u, p, _mm512_set1_ps(K::kT1));
  p = _mm512_fmadd_ps(u, p, _mm512_set1_ps(K::kT0));
  const __m512 small = _mm512_fmadd_ps(_mm512_mul_ps(x, u), p, x);
  const __m512 e = fast_exp(_mm512_add_ps(magnitude, magnitude));
  const __m512 y = _mm512_sub_ps(one, _mm512_div_ps(_mm512_set1_ps(2.0f), _mm512_add_ps(e, one)));
  const __m512 large = _mm512_or_ps(_mm512_andnot_ps(sign_bit, y), _mm512_and_ps(sign_bit, x));
  const __mmask16 is_small = _mm512_cmp_ps_mask(magnitude, _mm512_set1_ps(K::kSmall), _CMP_LT_OQ);
  return _mm512_mask_blend_ps(is_small, large, small);
}

static inline __m512 silu(__m512 x) {
  const __m512 e = fast_exp(_mm512_xor_ps(x, _mm512_set1_ps(-0.0f)));
  return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), e));
}

static inline __m512 gelu_tanh(__m512 x) {
  using K = GeluConstants;
  const __m512 cube = _mm512_mul_ps(_mm512_mul_ps(x, x), x);
  const __m512 u = _mm512_fmadd_ps(cube, _mm512_set1_ps(K::kCubic), x);
  const __m512 e = fast_exp(_mm512_mul_ps(u, _mm512_set1_ps(K::kMinusTwoRoot)));
  return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), e));
}

}  // namespace zonda::kernels
