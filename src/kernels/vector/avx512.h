// Sixteen floats in an AVX-512 register (F, BW, DQ, VL); only for files compiled for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/vector/intrinsics.h"

namespace zonda::kernels {

struct Avx512 {
  using F = __m512;
  using M = __mmask16;
  static constexpr int kLanes = 16;

  static F set1(float value) { return _mm512_set1_ps(value); }
  static F load(const float* from) { return _mm512_loadu_ps(from); }
  static void store(float* to, F a) { _mm512_storeu_ps(to, a); }

  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F fnma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }
  static F min(F a, F b) { return _mm512_min_ps(a, b); }
  static F max(F a, F b) { return _mm512_max_ps(a, b); }
  static F abs(F a) { return _mm512_andnot_ps(set1(-0.0f), a); }
  static F negate(F a) { return _mm512_xor_ps(set1(-0.0f), a); }
  static F copy_sign(F magnitude, F sign) {
    return _mm512_or_ps(abs(magnitude), _mm512_and_ps(set1(-0.0f), sign));
  }

  // Sixteen lanes: lane j + lane j + 8 for j < 8, then + 4, + 2, + 1.
  static float tree_sum(const F (&lanes)[1]) {
    const __m256 eight =
        _mm256_add_ps(_mm512_castps512_ps256(lanes[0]), _mm512_extractf32x8_ps(lanes[0], 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  // The largest of sixteen lanes without a NaN.
  static float tree_max(const F (&lanes)[1]) {
    const __m256 eight =
        _mm256_max_ps(_mm512_castps512_ps256(lanes[0]), _mm512_extractf32x8_ps(lanes[0], 1));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

  static M less(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
  static F select(M condition, F yes, F no) { return _mm512_mask_blend_ps(condition, no, yes); }
  static M bit_set(F a, int bit) {
    return _mm512_test_epi32_mask(_mm512_castps_si512(a), _mm512_set1_epi32(1 << bit));
  }
  static F exponent_from_low_bits(F a, uint32_t offset) {
    const __m512i bits =
        _mm512_add_epi32(_mm512_castps_si512(a), _mm512_set1_epi32(static_cast<int>(offset)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 23));
  }

  // 16-bit floats widen exactly and narrow to nearest even; a NaN stays a NaN.
  static F load_bf16(const uint16_t* from) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
  static F load_f16(const uint16_t* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  static void store_bf16(uint16_t* to, F a) {
    const __m512i bits = _mm512_castps_si512(a);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    const __m512i chosen = _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm512_cvtepi32_epi16(_mm512_srli_epi32(chosen, 16)));
  }
  static void store_f16(uint16_t* to, F a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }

  // The two 16-bit floats in each lane's bits.
  static F low_bf16(F pairs) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(pairs), 16));
  }
  static F high_bf16(F pairs) {
    return _mm512_and_ps(pairs, _mm512_castsi512_ps(_mm512_set1_epi32(-65536)));
  }
  static F low_f16(F pairs) {
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_castps_si512(pairs)));
  }
  static F high_f16(F pairs) {
    return _mm512_cvtph_ps(
        _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(pairs), 16)));
  }

  // rows[i] lane j becomes rows[j] lane i.
  static void transpose(F (&rows)[kLanes]) {
    F a[kLanes];
    for (int i = 0; i < kLanes; i += 2) {
      a[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
      a[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
    }
    F b[kLanes];
    for (int i = 0; i < kLanes; i += 4) {
      b[i] = _mm512_shuffle_ps(a[i], a[i + 2], 0x44);
      b[i + 1] = _mm512_shuffle_ps(a[i], a[i + 2], 0xee);
      b[i + 2] = _mm512_shuffle_ps(a[i + 1], a[i + 3], 0x44);
      b[i + 3] = _mm512_shuffle_ps(a[i + 1], a[i + 3], 0xee);
    }
    // b[4q + c] holds, in its 128-bit part p, column 4p + c of rows 4q .. 4q + 3.
    for (int c = 0; c < 4; ++c) {
      const F low01 = _mm512_shuffle_f32x4(b[c], b[4 + c], 0x88);
      const F low23 = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0x88);
      const F high01 = _mm512_shuffle_f32x4(b[c], b[4 + c], 0xdd);
      const F high23 = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0xdd);
      rows[c] = _mm512_shuffle_f32x4(low01, low23, 0x88);
      rows[8 + c] = _mm512_shuffle_f32x4(low01, low23, 0xdd);
      rows[4 + c] = _mm512_shuffle_f32x4(high01, high23, 0x88);
      rows[12 + c] = _mm512_shuffle_f32x4(high01, high23, 0xdd);
    }
  }
};

}  // namespace zonda::kernels
