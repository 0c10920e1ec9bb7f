// One float as a vector of one lane: the shared algorithms' portable instance.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace zonda::kernels {

// The vocabulary that Avx2 and Avx512 share. Algorithms written over it give equal bits with each:
// every operation is one IEEE operation per lane, and fma rounds once. A file compiled for an
// instruction set instantiates that set's type alone, or the linker could hand its code to others.
struct Scalar {
  using F = float;  // a vector of kLanes floats
  using M = bool;   // a lane-wise condition
  static constexpr int kLanes = 1;

  static F set1(float value) { return value; }
  static F load(const float* from) { return *from; }
  static void store(float* to, F a) { *to = a; }

  static F add(F a, F b) { return a + b; }
  static F sub(F a, F b) { return a - b; }
  static F mul(F a, F b) { return a * b; }
  static F div(F a, F b) { return a / b; }
  static F fma(F a, F b, F c) { return std::fma(a, b, c); }    // a * b + c
  static F fnma(F a, F b, F c) { return std::fma(-a, b, c); }  // c - a * b
  // The second operand if either is NaN.
  static F min(F a, F b) { return a < b ? a : b; }
  static F max(F a, F b) { return a > b ? a : b; }
  static F abs(F a) { return std::fabs(a); }
  static F negate(F a) { return -a; }
  static F copy_sign(F magnitude, F sign) { return std::copysign(magnitude, sign); }

  // Sixteen lanes: lane j + lane j + 8 for j < 8, then + 4, + 2, + 1.
  static float tree_sum(const F (&lanes)[16]) {
    float sum[8];
    for (int j = 0; j < 8; ++j) {
      sum[j] = lanes[j] + lanes[j + 8];
    }
    for (int half = 4; half > 0; half /= 2) {
      for (int j = 0; j < half; ++j) {
        sum[j] += sum[j + half];
      }
    }
    return sum[0];
  }
  // The largest of sixteen lanes without a NaN.
  static float tree_max(const F (&lanes)[16]) {
    float largest = lanes[0];
    for (const float lane : lanes) {
      largest = lane > largest ? lane : largest;
    }
    return largest;
  }

  static M less(F a, F b) { return a < b; }  // false for NaN
  static F select(M condition, F yes, F no) { return condition ? yes : no; }
  static M bit_set(F a, int bit) { return (std::bit_cast<uint32_t>(a) >> bit & 1u) != 0; }
  // The float whose bit pattern is (bits of a + offset) * 2^23.
  static F exponent_from_low_bits(F a, uint32_t offset) {
    return std::bit_cast<float>((std::bit_cast<uint32_t>(a) + offset) << 23);
  }
};

}  // namespace zonda::kernels
