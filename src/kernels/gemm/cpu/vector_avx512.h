// 16 lanes as one AVX-512 register, with VNNI's 32-bit dot products; see linear_generic.h for the
// meaning of each function. Included by the files of AVX-512 instruction sets alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The compiler's header reads registers that it leaves undefined on purpose.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstddef>
#include <cstdint>

namespace zonda::kernels {
namespace {

struct Avx512 {
  static constexpr bool kWide = true;
  using F = __m512;
  using I = __m512i;
  using W = __m512i;
  using A = __m512i;
  using Acc = __m512i;

  static F set1(float value) { return _mm512_set1_ps(value); }
  static F load(const float* at) { return _mm512_loadu_ps(at); }
  static void store(float* at, F v) { _mm512_storeu_ps(at, v); }
  static __mmask16 first(int count) { return static_cast<__mmask16>((1u << count) - 1u); }
  static F load_first(const float* at, int count) {
    return _mm512_maskz_loadu_ps(first(count), at);
  }
  static void store_first(float* at, F v, int count) { _mm512_mask_storeu_ps(at, first(count), v); }
  static F add(F x, F y) { return _mm512_add_ps(x, y); }
  static F mul(F x, F y) { return _mm512_mul_ps(x, y); }
  static F div(F x, F y) { return _mm512_div_ps(x, y); }
  static F min(F x, F y) { return _mm512_min_ps(x, y); }
  static F max(F x, F y) { return _mm512_max_ps(x, y); }
  static F fma(F x, F y, F z) { return _mm512_fmadd_ps(x, y, z); }
  using M = __mmask16;
  static F sub(F x, F y) { return _mm512_sub_ps(x, y); }
  static F fnma(F x, F y, F z) { return _mm512_fnmadd_ps(x, y, z); }
  static F negate(F x) { return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f)); }
  static M less(F x, F y) { return _mm512_cmp_ps_mask(x, y, _CMP_LT_OQ); }
  static F select(M condition, F yes, F no) { return _mm512_mask_blend_ps(condition, no, yes); }
  static F exponent_from_low_bits(F x, uint32_t offset) {
    const __m512i sum =
        _mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(static_cast<int>(offset)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(sum, 23));
  }
  static F load_half(const std::byte* at) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
  }
  static F load_bf16_even(const std::byte* at) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(load_bytes(at), 16));
  }
  static F load_bf16_odd(const std::byte* at) {
    const I high = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
    return _mm512_castsi512_ps(_mm512_and_si512(load_bytes(at), high));
  }

  static I iset1(int32_t value) { return _mm512_set1_epi32(value); }
  static I iadd(I x, I y) { return _mm512_add_epi32(x, y); }
  static F to_float(I x) { return _mm512_cvtepi32_ps(x); }
  static I to_int(F x) { return _mm512_cvtps_epi32(x); }
  static I max_abs(I bits, F x) {
    const I mask = _mm512_set1_epi32(0x7fffffff);
    return _mm512_max_epi32(bits, _mm512_and_si512(_mm512_castps_si512(x), mask));
  }
  static int32_t horizontal_max(I x) { return _mm512_reduce_max_epi32(x); }
  static int32_t horizontal_add(I x) { return _mm512_reduce_add_epi32(x); }
  static void store_bytes(int8_t* at, I x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(at), _mm512_cvtsepi32_epi8(x));
  }

  static W load_bytes(const std::byte* at) { return _mm512_loadu_si512(at); }
  static void store_weight_bytes(std::byte* at, W v) { _mm512_storeu_si512(at, v); }
  static W low_nibbles(W v) { return _mm512_and_si512(v, _mm512_set1_epi8(0x0f)); }
  static W high_nibbles(W v) { return low_nibbles(_mm512_srli_epi16(v, 4)); }
  static A broadcast_bytes(const std::byte* at) {
    int32_t four;
    __builtin_memcpy(&four, at, 4);
    return _mm512_set1_epi32(four);
  }
  static Acc first_dot(I sums, W w, A a) { return _mm512_dpbusd_epi32(sums, w, a); }
  static Acc dot(Acc acc, W w, A a) { return _mm512_dpbusd_epi32(acc, w, a); }
  static I add_acc(I, Acc acc) { return acc; }

  // Bits of 16 bfloat16 values, rounded to nearest even; NaN stays NaN.
  static __m256i to_bf16(F x) {
    const I bits = _mm512_castps_si512(x);
    const I odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const I rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const I quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_mov_epi32(rounded, nan, quiet), 16));
  }
};

}  // namespace
}  // namespace zonda::kernels
