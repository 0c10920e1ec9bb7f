// Linear kernels for AVX2 with FMA and F16C: 16 lanes are two 8-lane registers.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/cpu/linear_generic.h"

#ifdef __AVX2__
#include <immintrin.h>

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
  static F round(F x) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(x.a, kNearest), _mm256_round_ps(x.b, kNearest)};
  }
  static F pow2(F n) {
    const I i = to_int(n);
    const __m256i bias = _mm256_set1_epi32(127);
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(i.a, bias), 23)),
            _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(i.b, bias), 23))};
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
  static Acc start_acc(I) { return iset1(0); }
  static Acc dot(Acc acc, W w, A a) {
    return {_mm256_add_epi16(acc.a, _mm256_maddubs_epi16(w.a, a)),
            _mm256_add_epi16(acc.b, _mm256_maddubs_epi16(w.b, a))};
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

// Panels in registers at once: 12 accumulators of 8 lanes, counting both halves of a panel.
constexpr int panels_for(int registers) {
  const int fit = 6 / registers;
  return fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}

template <IntegerKind kKind>
struct IntegerLoops {
  template <int N, int P>
  struct Loop {
    static constexpr int kMaxPanels = panels_for(N * planes_of<Avx2>(kKind));
    static void run(const AccumulateArgs& args) { accumulate_integer<Avx2, kKind, N, P>(args); }
  };
};
template <FloatKind kKind>
struct FloatLoops {
  template <int N, int P>
  struct Loop {
    static constexpr int kMaxPanels = panels_for(N);
    static void run(const AccumulateArgs& args) { accumulate_float<Avx2, kKind, N, P>(args); }
  };
};

template <IntegerKind kKind, int kTokens>
void integer_tile_loop(const AccumulateArgs& args) {
  accumulate_tokens<IntegerLoops<kKind>::template Loop, kTokens>(args);
}
template <FloatKind kKind, int kTokens>
void float_tile_loop(const AccumulateArgs& args) {
  accumulate_tokens<FloatLoops<kKind>::template Loop, kTokens>(args);
}

constexpr LinearKernel kGemvInt4{ActivationKind::kBytes,
                                 4,
                                 1,
                                 8,
                                 128,
                                 false,
                                 prepare_integer<Avx2, 1>,
                                 nullptr,
                                 integer_tile_loop<IntegerKind::kNibbles, 4>,
                                 finish<Avx2>};
constexpr LinearKernel kGemmInt4{ActivationKind::kBytes,
                                 6,
                                 1,
                                 1,
                                 1024,
                                 true,
                                 prepare_integer<Avx2, 1>,
                                 unpack_nibbles<Avx2>,
                                 integer_tile_loop<IntegerKind::kSmallBytes, 6>,
                                 finish<Avx2>};
constexpr LinearKernel kGemvInt8{ActivationKind::kBytePlanes,
                                 3,
                                 1,
                                 8,
                                 128,
                                 false,
                                 prepare_integer<Avx2, 2>,
                                 nullptr,
                                 integer_tile_loop<IntegerKind::kBytes, 3>,
                                 finish<Avx2>};
constexpr LinearKernel kGemmInt8{ActivationKind::kBytePlanes,
                                 3,
                                 1,
                                 1,
                                 1024,
                                 false,
                                 prepare_integer<Avx2, 2>,
                                 nullptr,
                                 integer_tile_loop<IntegerKind::kBytes, 3>,
                                 finish<Avx2>};

template <FloatKind kKind>
constexpr LinearKernel kGemvFloat{
    ActivationKind::kFloat,    6,           4, 8, 128, false, prepare_float<Avx2>, nullptr,
    float_tile_loop<kKind, 6>, finish<Avx2>};
template <FloatKind kKind>
constexpr LinearKernel kGemmFloat{ActivationKind::kFloat,
                                  6,
                                  1,
                                  1,
                                  512,
                                  kKind != FloatKind::kFloat32,
                                  prepare_float<Avx2>,
                                  unpack_float<Avx2, kKind>,
                                  float_tile_loop<FloatKind::kFloat32, 6>,
                                  finish<Avx2>};

constexpr int64_t kManyTokens = int64_t{1} << 40;
constexpr LinearTactic kInt4[] = {
    {"gemv_int4_avx2_p8", 1, 16, run_kernel<kGemvInt4>},
    {"gemm_int4_avx2_6x1", 5, kManyTokens, run_kernel<kGemmInt4>},
};
constexpr LinearTactic kInt8[] = {
    {"gemv_int8_avx2_p8", 1, 16, run_kernel<kGemvInt8>},
    {"gemm_int8_avx2_3x1", 4, kManyTokens, run_kernel<kGemmInt8>},
};
constexpr LinearTactic kFloat32[] = {
    {"gemv_float32_avx2_p8", 1, 16, run_kernel<kGemvFloat<FloatKind::kFloat32>>},
    {"gemm_float32_avx2_6x1", 5, kManyTokens, run_kernel<kGemmFloat<FloatKind::kFloat32>>},
};
constexpr LinearTactic kFloat16[] = {
    {"gemv_float16_avx2_p8", 1, 16, run_kernel<kGemvFloat<FloatKind::kFloat16>>},
    {"gemm_float16_avx2_6x1", 5, kManyTokens, run_kernel<kGemmFloat<FloatKind::kFloat16>>},
};
constexpr LinearTactic kBFloat16[] = {
    {"gemv_bfloat16_avx2_p8", 1, 16, run_kernel<kGemvFloat<FloatKind::kBFloat16>>},
    {"gemm_bfloat16_avx2_6x1", 5, kManyTokens, run_kernel<kGemmFloat<FloatKind::kBFloat16>>},
};

}  // namespace

TacticList linear_tactics_avx2(WeightFormat format) {
  switch (format) {
    case WeightFormat::kFloat32:
      return {kFloat32, 2};
    case WeightFormat::kFloat16:
      return {kFloat16, 2};
    case WeightFormat::kBFloat16:
      return {kBFloat16, 2};
    case WeightFormat::kInt8:
      return {kInt8, 2};
    case WeightFormat::kInt4:
      return {kInt4, 2};
  }
  return {};
}

}  // namespace zonda::kernels
#else
namespace zonda::kernels {
TacticList linear_tactics_avx2(WeightFormat) { return {}; }
}  // namespace zonda::kernels
#endif
