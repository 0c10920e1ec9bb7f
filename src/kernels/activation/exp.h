// Exponential and the activations built on it, in float; the vector headers beside give equal bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

// exp_avx2.h and exp_avx512.h hold the same steps in the same order, and every multiply-add that is
// fused here is fused there, so scalar and vector results are equal bit for bit. Everything is
// `static` because these headers are compiled for several instruction sets in one program.
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
  static constexpr int32_t kExponentOffset = 126;  // bias 127, minus the factor 2 taken at the end
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
static inline float fast_exp(float x) {
  using K = ExpConstants;
  if (x < K::kLowest) {
    return 0.0f;
  }
  x = x > K::kHighest ? K::kHighest : x;
  const float shifted = std::fma(x, K::kLog2E, K::kMagic);
  const float n = shifted - K::kMagic;
  float r = std::fma(-n, K::kLn2High, x);
  r = std::fma(-n, K::kLn2Low, r);
  float p = std::fma(r, K::kC6, K::kC5);
  p = std::fma(r, p, K::kC4);
  p = std::fma(r, p, K::kC3);
  p = std::fma(r, p, K::kC2);
  p = std::fma(r, p, 1.0f);
  p = std::fma(r, p, 1.0f);
  // The low bits of `shifted` are n; 2^(n - 1) is made by hand, since 2^128 has no bit pattern.
  const uint32_t bits = std::bit_cast<uint32_t>(shifted) + uint32_t{K::kExponentOffset};
  return p * std::bit_cast<float>(bits << 23) * 2.0f;
}

// tanh x within 2 units in the last place.
static inline float fast_tanh(float x) {
  using K = TanhConstants;
  const float magnitude = std::fabs(x);
  if (magnitude < K::kSmall) {
    const float u = x * x;
    float p = std::fma(u, K::kT4, K::kT3);
    p = std::fma(u, p, K::kT2);
    p = std::fma(u, p, K::kT1);
    p = std::fma(u, p, K::kT0);
    return std::fma(x * u, p, x);
  }
  const float y = 1.0f - 2.0f / (fast_exp(magnitude + magnitude) + 1.0f);
  return std::copysign(y, x);
}

// x * sigmoid(x).
static inline float silu(float x) { return x / (1.0f + fast_exp(-x)); }

// 0.5 x (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3), which is x * sigmoid(2 u).
static inline float gelu_tanh(float x) {
  using K = GeluConstants;
  const float u = std::fma(x * x * x, K::kCubic, x);
  return x / (1.0f + fast_exp(u * K::kMinusTwoRoot));
}

}  // namespace zonda::kernels
