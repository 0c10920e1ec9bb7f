// Eight floats in an AVX2 register, with FMA and F16C; only for files compiled for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/vector/intrinsics.h"

namespace zonda::kernels {

struct Avx2 {
  using F = __m256;
  using M = __m256;
  static constexpr int kLanes = 8;

  static F set1(float value) { return _mm256_set1_ps(value); }
  static F load(const float* from) { return _mm256_loadu_ps(from); }
  static void store(float* to, F a) { _mm256_storeu_ps(to, a); }

  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F fnma(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }
  static F min(F a, F b) { return _mm256_min_ps(a, b); }
  static F max(F a, F b) { return _mm256_max_ps(a, b); }
  static F abs(F a) { return _mm256_andnot_ps(set1(-0.0f), a); }
  static F negate(F a) { return _mm256_xor_ps(set1(-0.0f), a); }
  static F copy_sign(F magnitude, F sign) {
    return _mm256_or_ps(abs(magnitude), _mm256_and_ps(set1(-0.0f), sign));
  }

  // Sixteen lanes: lane j + lane j + 8 for j < 8, then + 4, + 2, + 1.
  static float tree_sum(const F (&lanes)[2]) { return sum_of_eight(add(lanes[0], lanes[1])); }
  static float sum_of_eight(F a) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  // The largest of sixteen lanes without a NaN.
  static float tree_max(const F (&lanes)[2]) { return max_of_eight(max(lanes[0], lanes[1])); }
  static float max_of_eight(F a) {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

  static M less(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
  static F select(M condition, F yes, F no) { return _mm256_blendv_ps(no, yes, condition); }
  static M bit_set(F a, int bit) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a), 31 - bit));
  }
  static F exponent_from_low_bits(F a, uint32_t offset) {
    const __m256i bits =
        _mm256_add_epi32(_mm256_castps_si256(a), _mm256_set1_epi32(static_cast<int>(offset)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 23));
  }

  // 16-bit floats widen exactly and narrow to nearest even; a NaN stays a NaN.
  static F load_bf16(const uint16_t* from) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static F load_f16(const uint16_t* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static void store_bf16(uint16_t* to, F a) {
    const __m256i bits = _mm256_castps_si256(a);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256 is_nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
    const __m256i high =
        _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(is_nan)), 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(high, high), 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(packed));
  }
  static void store_f16(uint16_t* to, F a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }

  // The two 16-bit floats in each lane's bits.
  static F low_bf16(F pairs) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(pairs), 16));
  }
  static F high_bf16(F pairs) {
    return _mm256_and_ps(pairs, _mm256_castsi256_ps(_mm256_set1_epi32(-65536)));
  }
  static F low_f16(F pairs) {
    const __m256i low = _mm256_and_si256(_mm256_castps_si256(pairs), _mm256_set1_epi32(0xffff));
    return f16_from_low_halves(low);
  }
  static F high_f16(F pairs) {
    return f16_from_low_halves(_mm256_srli_epi32(_mm256_castps_si256(pairs), 16));
  }
  static F f16_from_low_halves(__m256i halves) {
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(halves, halves), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
  }

  // rows[i] lane j becomes rows[j] lane i.
  static void transpose(F (&rows)[kLanes]) {
    F pairs[kLanes];
    for (int i = 0; i < kLanes; i += 2) {
      pairs[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
      pairs[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
    }
    F quads[kLanes];
    for (int i = 0; i < kLanes; i += 4) {
      quads[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
      quads[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
      quads[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
      quads[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
    }
    for (int i = 0; i < 4; ++i) {
      rows[i] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x20);
      rows[i + 4] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x31);
    }
  }
};

}  // namespace zonda::kernels
