// 16 lanes as two 8-lane registers of AVX2 with FMA and F16C; see linear_generic.h for the meaning
// of each function. Included by linear_avx2.cc alone. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace zonda::kernels {
namespace {

struct Avx2 {
  static constexpr bool kWide = false;
  struct F {
    __m256 a, b;
  };
  struct I {
    __m256i a, b;
  };
  using W = I;
  using Acc = I;  // 16-bit lanes: two sums a row
  using A = __m256i;

  static F set1(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
  static F load(const float* at) { return {_mm256_loadu_ps(at), _mm256_loadu_ps(at + 8)}; }
  static void store(float* at, F v) {
    _mm256_storeu_ps(at, v.a);
    _mm256_storeu_ps(at + 8, v.b);
  }
  static F load_first(const float* at, int count) {
    if (count == 16) {
      return load(at);
    }
    alignas(32) float values[16] = {};
    __builtin_memcpy(values, at, static_cast<size_t>(count) * 4);
    return load(values);
  }
  static void store_first(float* at, F v, int count) {
    if (count == 16) {
      return store(at, v);
    }
    alignas(32) float values[16];
    store(values, v);
    __builtin_memcpy(at, values, static_cast<size_t>(count) * 4);
  }
  static F add(F x, F y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
  static F mul(F x, F y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
  static F div(F x, F y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
  static F min(F x, F y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
  static F max(F x, F y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
  static F fma(F x, F y, F z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
  }
  struct M {
    __m256 a, b;
  };
  static F sub(F x, F y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
  static F fnma(F x, F y, F z) {
    return {_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b)};
  }
  static F negate(F x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_xor_ps(x.a, sign), _mm256_xor_ps(x.b, sign)};
  }
  static M less(F x, F y) {
    return {_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)};
  }
  static F select(M condition, F yes, F no) {
    return {_mm256_blendv_ps(no.a, yes.a, condition.a), _mm256_blendv_ps(no.b, yes.b, condition.b)};
  }
  static F exponent_from_low_bits(F x, uint32_t offset) {
    const __m256i add = _mm256_set1_epi32(static_cast<int>(offset));
    const auto shifted = [&](__m256 v) {
      return _mm256_castsi256_ps(
          _mm256_slli_epi32(_mm256_add_epi32(_mm256_castps_si256(v), add), 23));
    };
    return {shifted(x.a), shifted(x.b)};
  }
  static F load_half(const std::byte* at) {
    const auto* halves = reinterpret_cast<const __m128i*>(at);
    return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
  }
  static F load_bf16_even(const std::byte* at) {
    const W v = load_bytes(at);
    return {_mm256_castsi256_ps(_mm256_slli_epi32(v.a, 16)),
            _mm256_castsi256_ps(_mm256_slli_epi32(v.b, 16))};
  }
  static F load_bf16_odd(const std::byte* at) {
    const W v = load_bytes(at);
    const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
    return {_mm256_castsi256_ps(_mm256_and_si256(v.a, high)),
            _mm256_castsi256_ps(_mm256_and_si256(v.b, high))};
  }

  static I iset1(int32_t value) { return {_mm256_set1_epi32(value), _mm256_set1_epi32(value)}; }
  static I iadd(I x, I y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
  static F to_float(I x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
  static I to_int(F x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
  static I max_abs(I bits, F x) {
    const __m256i mask = _mm256_set1_epi32(0x7fffffff);
    return {_mm256_max_epi32(bits.a, _mm256_and_si256(_mm256_castps_si256(x.a), mask)),
            _mm256_max_epi32(bits.b, _mm256_and_si256(_mm256_castps_si256(x.b), mask))};
  }
  static int32_t horizontal_max(I x) {
    const __m256i v = _mm256_max_epi32(x.a, x.b);
    __m128i w = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    w = _mm_max_epi32(w, _mm_shuffle_epi32(w, 0x4e));
    w = _mm_max_epi32(w, _mm_shuffle_epi32(w, 0xb1));
    return _mm_cvtsi128_si32(w);
  }
  static int32_t horizontal_add(I x) {
    const __m256i v = _mm256_add_epi32(x.a, x.b);
    __m128i w = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    w = _mm_add_epi32(w, _mm_shuffle_epi32(w, 0x4e));
    w = _mm_add_epi32(w, _mm_shuffle_epi32(w, 0xb1));
    return _mm_cvtsi128_si32(w);
  }
  static void store_bytes(int8_t* at, I x) {
    const __m256i words = _mm256_packs_epi32(x.a, x.b);  // 0-3 8-11 | 4-7 12-15
    const __m256i ordered = _mm256_permute4x64_epi64(words, 0xd8);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(at), bytes);
  }
  static I split_high(I x) {
    const __m256i half = _mm256_set1_epi32(8);
    return {_mm256_srai_epi32(_mm256_add_epi32(x.a, half), 4),
            _mm256_srai_epi32(_mm256_add_epi32(x.b, half), 4)};
  }
  static I split_low(I x) {
    const I high = split_high(x);
    return {_mm256_sub_epi32(x.a, _mm256_slli_epi32(high.a, 4)),
            _mm256_sub_epi32(x.b, _mm256_slli_epi32(high.b, 4))};
  }

  static W load_bytes(const std::byte* at) {
    const auto* halves = reinterpret_cast<const __m256i*>(at);
    return {_mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1)};
  }
  static void store_weight_bytes(std::byte* at, W v) {
    auto* halves = reinterpret_cast<__m256i*>(at);
    _mm256_storeu_si256(halves, v.a);
    _mm256_storeu_si256(halves + 1, v.b);
  }
  static W low_nibbles(W v) {
    const __m256i mask = _mm256_set1_epi8(0x0f);
    return {_mm256_and_si256(v.a, mask), _mm256_and_si256(v.b, mask)};
  }
  static W high_nibbles(W v) {
    return low_nibbles({_mm256_srli_epi16(v.a, 4), _mm256_srli_epi16(v.b, 4)});
  }
  static A broadcast_bytes(const std::byte* at) {
    int32_t four;
    __builtin_memcpy(&four, at, 4);
    return _mm256_set1_epi32(four);
  }
  static Acc first_dot(I, W w, A a) {
    return {_mm256_maddubs_epi16(w.a, a), _mm256_maddubs_epi16(w.b, a)};
  }
  static Acc dot(Acc acc, W w, A a) {
    acc.a = _mm256_add_epi16(acc.a, _mm256_maddubs_epi16(w.a, a));
    acc.b = _mm256_add_epi16(acc.b, _mm256_maddubs_epi16(w.b, a));
    // Integer sums are associative: without this the compiler forms all products first and spills.
    asm("" : "+x"(acc.a), "+x"(acc.b));
    return acc;
  }
  static I add_acc(I sums, Acc acc) {
    const __m256i ones = _mm256_set1_epi16(1);
    return iadd(sums, {_mm256_madd_epi16(acc.a, ones), _mm256_madd_epi16(acc.b, ones)});
  }
  static I add_acc_planes(I sums, Acc high, Acc low) {
    const __m256i weight = _mm256_set1_epi16(16);
    return add_acc(
        iadd(sums, {_mm256_madd_epi16(high.a, weight), _mm256_madd_epi16(high.b, weight)}), low);
  }
};

}  // namespace
}  // namespace zonda::kernels
