// Exponential and the activations built on it, written once over a vector type: Scalar, Avx2 and
// Avx512 (kernels/vector/) give equal bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/vector/scalar.h"

namespace zonda::kernels {

// Shared constants: e^x = 2^n * e^r, n = round(x / ln 2), |r| <= ln 2 / 2.
struct ExpConstants {
  static constexpr float kLowest = -86.5f;       // below: 0 (the true value is under 2.8e-38)
  static constexpr float kHighest = 89.0f;       // at and above: infinity
  static constexpr float kMagic = 12582912.0f;   // 1.5 * 2^23: adding it rounds to an integer
  static constexpr float kLog2E = 1.442695022f;  // 1 / ln 2
  static constexpr float kLn2High = 6.931471825e-01f;
  static constexpr float kLn2Low = -1.904654212e-09f;
  // e^r = 1 + r + r^2 * (kC2 + kC3 r + ...): interpolated at Chebyshev nodes.
  static constexpr float kC2 = 5.000000000e-01f;
  static constexpr float kC3 = 1.666657627e-01f;
  static constexpr float kC4 = 4.166655615e-02f;
  static constexpr float kC5 = 8.363178931e-03f;
  static constexpr float kC6 = 1.392618404e-03f;
  static constexpr uint32_t kExponentOffset = 126;  // bias 127, minus the factor 2 taken at the end
};

struct TanhConstants {
  static constexpr float kSmall = 0.625f;  // below: x + x^3 * (kT0 + kT1 x^2 + ...)
  static constexpr float kT0 = -3.333332837e-01f;
  static constexpr float kT1 = 1.333276927e-01f;
  static constexpr float kT2 = -5.385090783e-02f;
  static constexpr float kT3 = 2.099717967e-02f;
  static constexpr float kT4 = -6.096714176e-03f;
};

struct GeluConstants {
  static constexpr float kMinusTwoRoot = -1.595769122f;  // -2 * sqrt(2 / pi)
  static constexpr float kCubic = 0.044715f;
};

// e^x within 1 unit in the last place on [-86.5, 88.72]; 0 below, infinity above, NaN for NaN;
// exactly 1 at 0.
template <class V>
typename V::F fast_exp(typename V::F x) {
  using K = ExpConstants;
  const auto magic = V::set1(K::kMagic);
  const auto too_low = V::less(x, V::set1(K::kLowest));
  const auto bounded = V::min(V::set1(K::kHighest), x);  // this operand order keeps a NaN
  const auto shifted = V::fma(bounded, V::set1(K::kLog2E), magic);
  const auto n = V::sub(shifted, magic);
  auto r = V::fnma(n, V::set1(K::kLn2High), bounded);
  r = V::fnma(n, V::set1(K::kLn2Low), r);
  auto p = V::fma(r, V::set1(K::kC6), V::set1(K::kC5));
  p = V::fma(r, p, V::set1(K::kC4));
  p = V::fma(r, p, V::set1(K::kC3));
  p = V::fma(r, p, V::set1(K::kC2));
  p = V::fma(r, p, V::set1(1.0f));
  p = V::fma(r, p, V::set1(1.0f));
  // The low bits of `shifted` are n; 2^128 has no bit pattern, so the scale is 2^(n - 1), twice.
  const auto scale = V::exponent_from_low_bits(shifted, K::kExponentOffset);
  const auto y = V::mul(V::mul(p, scale), V::set1(2.0f));
  return V::select(too_low, V::set1(0.0f), y);
}

// tanh x within 2 units in the last place.
template <class V>
typename V::F fast_tanh(typename V::F x) {
  using K = TanhConstants;
  const auto magnitude = V::abs(x);
  const auto u = V::mul(x, x);
  auto p = V::fma(u, V::set1(K::kT4), V::set1(K::kT3));
  p = V::fma(u, p, V::set1(K::kT2));
  p = V::fma(u, p, V::set1(K::kT1));
  p = V::fma(u, p, V::set1(K::kT0));
  const auto small = V::fma(V::mul(x, u), p, x);
  const auto one = V::set1(1.0f);
  const auto e = fast_exp<V>(V::add(magnitude, magnitude));
  const auto large = V::sub(one, V::div(V::set1(2.0f), V::add(e, one)));
  return V::select(V::less(magnitude, V::set1(K::kSmall)), small, V::copy_sign(large, x));
}

// x * sigmoid(x).
template <class V>
typename V::F silu(typename V::F x) {
  return V::div(x, V::add(V::set1(1.0f), fast_exp<V>(V::negate(x))));
}

// 0.5 x (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3), which is x * sigmoid(2 u).
template <class V>
typename V::F gelu_tanh(typename V::F x) {
  using K = GeluConstants;
  const auto u = V::fma(V::mul(V::mul(x, x), x), V::set1(K::kCubic), x);
  const auto e = fast_exp<V>(V::mul(u, V::set1(K::kMinusTwoRoot)));
  return V::div(x, V::add(V::set1(1.0f), e));
}

}  // namespace zonda::kernels
