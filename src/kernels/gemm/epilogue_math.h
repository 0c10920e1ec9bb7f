// The gated activations, written once over a vector type so that every instruction set and the
// reference give the same bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/linear.h"

namespace zonda::kernels {

// V has F (a float or a vector of them) and set1, mul, fma (a * b + c), div, min, max, round (to
// nearest even) and pow2 (2^n for an integral n in [-126, 127]).

// e^x, relative error about 1e-7; x is clamped to [-87, 88].
template <class V>
typename V::F exp_poly(typename V::F x) {
  x = V::min(V::max(x, V::set1(-87.0f)), V::set1(88.0f));
  const auto n = V::round(V::mul(x, V::set1(1.44269504f)));
  // ln 2 in two parts; the first has 12 significant bits, so n * part is exact.
  auto r = V::fma(n, V::set1(-0.693359375f), x);
  r = V::fma(n, V::set1(2.12194440e-4f), r);
  auto p = V::set1(1.0f / 5040.0f);
  p = V::fma(p, r, V::set1(1.0f / 720.0f));
  p = V::fma(p, r, V::set1(1.0f / 120.0f));
  p = V::fma(p, r, V::set1(1.0f / 24.0f));
  p = V::fma(p, r, V::set1(1.0f / 6.0f));
  p = V::fma(p, r, V::set1(0.5f));
  p = V::fma(p, r, V::set1(1.0f));
  p = V::fma(p, r, V::set1(1.0f));
  return V::mul(p, V::pow2(n));
}

// silu(a) * b, or gelu_tanh(a) * b; both are a / (1 + e^-v) * b, with v = a for silu and
// v = 2 sqrt(2 / pi) (a + 0.044715 a^3) for gelu.
template <class V>
typename V::F gated_value(Epilogue epilogue, typename V::F a, typename V::F b) {
  auto minus_v = V::mul(a, V::set1(-1.0f));
  if (epilogue == Epilogue::kGatedGeluTanh) {
    const auto poly = V::fma(V::mul(a, a), V::set1(-0.0713548163f), V::set1(-1.59576912f));
    minus_v = V::mul(a, poly);
  }
  const auto one_plus_exp = V::fma(exp_poly<V>(minus_v), V::set1(1.0f), V::set1(1.0f));
  return V::mul(V::div(a, one_plus_exp), b);
}

[[gnu::always_inline]] constexpr bool is_gated(Epilogue epilogue) {
  return epilogue == Epilogue::kGatedSilu || epilogue == Epilogue::kGatedGeluTanh;
}

}  // namespace zonda::kernels
