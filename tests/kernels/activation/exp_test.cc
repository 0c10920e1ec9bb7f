// Laws of the shared exponential: its stated error, its edges.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation/exp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace zonda::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

double ulps(float value, double exact) {
  const float nearest = std::fabs(static_cast<float>(exact));
  return std::abs(double{value} - exact) / (std::nextafter(nearest, kInfinity) - nearest);
}

// Calls body for floats of all magnitudes and both signs.
template <typename Body>
void for_many_floats(Body&& body) {
  for (uint32_t bits = 0; bits < 0x7f800000u; bits += 4099) {
    body(std::bit_cast<float>(bits));
    body(-std::bit_cast<float>(bits));
  }
}

TEST(FastExp, ErrorStaysWithinOneUnitInTheLastPlace) {
  double worst = 0;
  for_many_floats([&](float x) {
    if (x >= -86.5f && x <= 88.72f) {
      worst = std::max(worst, ulps(fast_exp<Scalar>(x), std::exp(double{x})));
    }
  });
  EXPECT_LT(worst, 1.0);
}

TEST(FastExp, EdgesAreExact) {
  EXPECT_EQ(fast_exp<Scalar>(0.0f), 1.0f);
  EXPECT_EQ(fast_exp<Scalar>(-0.0f), 1.0f);
  EXPECT_EQ(fast_exp<Scalar>(-86.6f), 0.0f);
  EXPECT_EQ(fast_exp<Scalar>(-kInfinity), 0.0f);
  EXPECT_EQ(fast_exp<Scalar>(88.8f), kInfinity);
  EXPECT_EQ(fast_exp<Scalar>(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(fast_exp<Scalar>(std::numeric_limits<float>::quiet_NaN())));
}

TEST(FastTanh, ErrorStaysWithinTwoUnitsInTheLastPlace) {
  double worst = 0;
  for_many_floats([&](float x) {
    if (std::fabs(x) > 1e-30f) {
      worst = std::max(worst, ulps(fast_tanh<Scalar>(x), std::tanh(double{x})));
    }
  });
  EXPECT_LT(worst, 2.0);
}

TEST(Activations, SiluAndGeluFollowTheirFormulas) {
  for_many_floats([](float x) {
    const double v = x;
    const double u = std::sqrt(2.0 / M_PI) * (v + 0.044715 * v * v * v);
    EXPECT_NEAR(gelu_tanh<Scalar>(x), 0.5 * v * (1 + std::tanh(u)), 2e-7 * std::abs(v) + 1e-37);
    const double silu_exact = v / (1 + std::exp(-v));
    EXPECT_NEAR(silu<Scalar>(x), silu_exact, 3e-7 * std::abs(silu_exact) + 1e-35);
  });
}

}  // namespace
}  // namespace zonda::kernels
