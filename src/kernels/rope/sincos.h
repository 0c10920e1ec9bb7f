// Sine and cosine of rotary angles in float, written once over a vector type with equal bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/vector/scalar.h"

namespace zonda::kernels {

struct SinCosConstants {
  static constexpr float kTwoOverPi = 6.366197467e-01f;
  static constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  // pi / 2 in three floats; n * the first is subtracted exactly for |x| <= 2^20.
  static constexpr float kHalfPi1 = 1.570796371e+00f;
  static constexpr float kHalfPi2 = -4.371138829e-08f;
  static constexpr float kHalfPi3 = -1.715124510e-15f;
  // sin r = r + r^3 (kS0 + kS1 r^2 + ...), cos r = 1 - r^2 / 2 + r^4 (kC0 + ...), |r| <= pi / 4:
  // interpolated at Chebyshev nodes.
  static constexpr float kS0 = -1.666666716e-01f;
  static constexpr float kS1 = 8.333331905e-03f;
  static constexpr float kS2 = -1.984008704e-04f;
  static constexpr float kS3 = 2.724992555e-06f;
  static constexpr float kC0 = 4.166666791e-02f;
  static constexpr float kC1 = -1.388888806e-03f;
  static constexpr float kC2 = 2.480059993e-05f;
  static constexpr float kC3 = -2.730095900e-07f;
};

// Absolute error below 1e-7 for |x| <= 2^20, which is any position times a frequency of at most 1.
template <class V>
void fast_sincos(typename V::F x, typename V::F* sine, typename V::F* cosine) {
  using K = SinCosConstants;
  const auto magic = V::set1(K::kMagic);
  const auto shifted = V::fma(x, V::set1(K::kTwoOverPi), magic);
  const auto n = V::sub(shifted, magic);
  auto r = V::fnma(n, V::set1(K::kHalfPi1), x);
  r = V::fnma(n, V::set1(K::kHalfPi2), r);
  r = V::fnma(n, V::set1(K::kHalfPi3), r);
  const auto u = V::mul(r, r);
  auto s = V::fma(u, V::set1(K::kS3), V::set1(K::kS2));
  s = V::fma(u, s, V::set1(K::kS1));
  s = V::fma(u, s, V::set1(K::kS0));
  s = V::fma(V::mul(u, r), s, r);
  auto c = V::fma(u, V::set1(K::kC3), V::set1(K::kC2));
  c = V::fma(u, c, V::set1(K::kC1));
  c = V::fma(u, c, V::set1(K::kC0));
  c = V::fma(u, c, V::set1(-0.5f));
  c = V::fma(u, c, V::set1(1.0f));
  // The low bits of `shifted` are n: odd quarter turns swap the two, and n mod 4 gives the signs.
  const auto odd = V::bit_set(shifted, 0);
  const auto sine_size = V::select(odd, c, s);
  const auto cosine_size = V::select(odd, s, c);
  const auto next = V::add(shifted, V::set1(1.0f));
  *sine = V::select(V::bit_set(shifted, 1), V::negate(sine_size), sine_size);
  *cosine = V::select(V::bit_set(next, 1), V::negate(cosine_size), cosine_size);
}

}  // namespace zonda::kernels
