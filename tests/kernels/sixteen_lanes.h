// Sixteen lanes in plain arrays: runs the shape that the AVX-512 kernels have on any machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "kernels/vector/scalar.h"

namespace zonda::kernels {

// The operations are calls, not inlined: the register tiles that use them would take minutes to
// compile.
struct SixteenLanes {
  static constexpr int kLanes = 16;
  using F = std::array<float, kLanes>;
  using M = std::array<bool, kLanes>;

  template <typename Function, typename... Operands>
  [[gnu::noinline]] static F map(Function&& function, const Operands&... operands) {
    F result;
    for (size_t i = 0; i < kLanes; ++i) {
      result[i] = function(operands[i]...);
    }
    return result;
  }

  [[gnu::noinline]] static F set1(float value) {
    F result;
    result.fill(value);
    return result;
  }
  [[gnu::noinline]] static F load(const float* from) {
    F result;
    std::memcpy(result.data(), from, sizeof(result));
    return result;
  }
  [[gnu::noinline]] static void store(float* to, const F& a) {
    std::memcpy(to, a.data(), sizeof(a));
  }

  [[gnu::noinline]] static F add(const F& a, const F& b) { return map(Scalar::add, a, b); }
  [[gnu::noinline]] static F sub(const F& a, const F& b) { return map(Scalar::sub, a, b); }
  [[gnu::noinline]] static F mul(const F& a, const F& b) { return map(Scalar::mul, a, b); }
  [[gnu::noinline]] static F div(const F& a, const F& b) { return map(Scalar::div, a, b); }
  [[gnu::noinline]] static F fma(const F& a, const F& b, const F& c) {
    return map(Scalar::fma, a, b, c);
  }
  [[gnu::noinline]] static F fnma(const F& a, const F& b, const F& c) {
    return map(Scalar::fnma, a, b, c);
  }
  [[gnu::noinline]] static F min(const F& a, const F& b) { return map(Scalar::min, a, b); }
  [[gnu::noinline]] static F max(const F& a, const F& b) { return map(Scalar::max, a, b); }
  [[gnu::noinline]] static F abs(const F& a) { return map(Scalar::abs, a); }
  [[gnu::noinline]] static F negate(const F& a) { return map(Scalar::negate, a); }
  [[gnu::noinline]] static F copy_sign(const F& a, const F& b) {
    return map(Scalar::copy_sign, a, b);
  }

  [[gnu::noinline]] static float tree_sum(const F (&lanes)[1]) {
    float all[kLanes];
    store(all, lanes[0]);
    return Scalar::tree_sum(all);
  }
  [[gnu::noinline]] static float tree_max(const F (&lanes)[1]) {
    float all[kLanes];
    store(all, lanes[0]);
    return Scalar::tree_max(all);
  }

  [[gnu::noinline]] static M less(const F& a, const F& b) {
    M result;
    for (size_t i = 0; i < kLanes; ++i) {
      result[i] = a[i] < b[i];
    }
    return result;
  }
  [[gnu::noinline]] static F select(const M& condition, const F& yes, const F& no) {
    return map(Scalar::select, condition, yes, no);
  }
  [[gnu::noinline]] static M bit_set(const F& a, int bit) {
    M result;
    for (size_t i = 0; i < kLanes; ++i) {
      result[i] = Scalar::bit_set(a[i], bit);
    }
    return result;
  }
  [[gnu::noinline]] static F exponent_from_low_bits(const F& a, uint32_t offset) {
    return map([offset](float x) { return Scalar::exponent_from_low_bits(x, offset); }, a);
  }

  [[gnu::noinline]] static F load_bf16(const uint16_t* from) {
    F result;
    for (size_t i = 0; i < kLanes; ++i) {
      result[i] = bf16_to_float(from[i]);
    }
    return result;
  }
  [[gnu::noinline]] static F load_f16(const uint16_t* from) {
    F result;
    for (size_t i = 0; i < kLanes; ++i) {
      result[i] = f16_to_float(from[i]);
    }
    return result;
  }
  [[gnu::noinline]] static void store_bf16(uint16_t* to, const F& a) {
    for (size_t i = 0; i < kLanes; ++i) {
      to[i] = float_to_bf16(a[i]);
    }
  }
  [[gnu::noinline]] static void store_f16(uint16_t* to, const F& a) {
    for (size_t i = 0; i < kLanes; ++i) {
      to[i] = float_to_f16(a[i]);
    }
  }
  static uint16_t half(float pair, int index) {
    return static_cast<uint16_t>(std::bit_cast<uint32_t>(pair) >> (16 * index));
  }
  [[gnu::noinline]] static F low_bf16(const F& a) {
    return map([](float x) { return bf16_to_float(half(x, 0)); }, a);
  }
  [[gnu::noinline]] static F high_bf16(const F& a) {
    return map([](float x) { return bf16_to_float(half(x, 1)); }, a);
  }
  [[gnu::noinline]] static F low_f16(const F& a) {
    return map([](float x) { return f16_to_float(half(x, 0)); }, a);
  }
  [[gnu::noinline]] static F high_f16(const F& a) {
    return map([](float x) { return f16_to_float(half(x, 1)); }, a);
  }

  [[gnu::noinline]] static void transpose(F (&rows)[kLanes]) {
    for (size_t i = 0; i < kLanes; ++i) {
      for (size_t j = i + 1; j < kLanes; ++j) {
        std::swap(rows[i][j], rows[j][i]);
      }
    }
  }
};

}  // namespace zonda::kernels
