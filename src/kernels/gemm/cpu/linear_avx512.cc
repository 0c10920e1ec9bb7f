// Linear kernels for AVX-512 with VNNI; float weights through float32 FMA.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/cpu/linear_generic.h"

#ifdef __AVX512VNNI__
#include "kernels/gemm/cpu/vector_avx512.h"

namespace zonda::kernels {
namespace {

// Panels side by side for N tokens: dots and float sums live together, 12 of each.
constexpr int integer_panels(int tokens) {
  return tokens <= 3 ? 4 : tokens == 4 ? 3 : tokens <= 6 ? 2 : 1;
}
// 24 float sums.
constexpr int float_panels(int tokens) { return tokens <= 3 ? 8 : tokens <= 6 ? 4 : 2; }

template <IntegerKind kKind>
struct IntegerLoops {
  template <int N, int P>
  struct Loop {
    static constexpr int kMaxPanels = integer_panels(N);
    static void run(const AccumulateArgs& args) { accumulate_integer<Avx512, kKind, N, P>(args); }
  };
};
template <FloatKind kKind>
struct FloatLoops {
  template <int N, int P>
  struct Loop {
    static constexpr int kMaxPanels = float_panels(N);
    static void run(const AccumulateArgs& args) { accumulate_float<Avx512, kKind, N, P>(args); }
  };
};
template <IntegerKind kKind, int kTokens>
void integer_loop(const AccumulateArgs& args) {
  accumulate_tokens<IntegerLoops<kKind>::template Loop, kTokens>(args);
}
template <FloatKind kKind, int kTokens>
void float_loop(const AccumulateArgs& args) {
  accumulate_tokens<FloatLoops<kKind>::template Loop, kTokens>(args);
}

// Whole rows of k: panels side by side in registers are the read streams.
constexpr int64_t kWholeK = int64_t{1} << 40;
// Keeps three panels' bytes in the first-level cache.
constexpr int64_t kBlockK = 512;

template <IntegerKind kKind, int kTokens, int kPanels, int64_t kK>
constexpr LinearKernel kInteger{.activations = ActivationKind::kBytes,
                                .tile_tokens = kTokens,
                                .panels = kPanels,
                                .k_block = kK,
                                .unpacks = kKind == IntegerKind::kSmallBytes,
                                .prepare = prepare_integer<Avx512, 1>,
                                .unpack = unpack_nibbles<Avx512>,
                                .accumulate = integer_loop<kKind, kTokens>,
                                .finish = finish<Avx512>};
template <FloatKind kKind, int kTokens, int kPanels>
constexpr LinearKernel kFloat{.activations = ActivationKind::kFloat,
                              .tile_tokens = kTokens,
                              .panels = kPanels,
                              .k_block = kWholeK,
                              .unpacks = false,
                              .prepare = prepare_float<Avx512>,
                              .unpack = nullptr,
                              .accumulate = float_loop<kKind, kTokens>,
                              .finish = finish<Avx512>};
// Many tokens share the conversion to float32.
template <FloatKind kKind>
constexpr LinearKernel kFloatGemm{.activations = ActivationKind::kFloat,
                                  .tile_tokens = 12,
                                  .panels = 2,
                                  .k_block = 256,
                                  .unpacks = kKind != FloatKind::kFloat32,
                                  .prepare = prepare_float<Avx512>,
                                  .unpack = unpack_float<Avx512, kKind>,
                                  .accumulate = float_loop<FloatKind::kFloat32, 12>,
                                  .finish = finish<Avx512>};

// Names: tokens of a tile x panels side by side.
constexpr auto kNibbles = IntegerKind::kNibbles;
constexpr auto kSmall = IntegerKind::kSmallBytes;
constexpr auto kBytes = IntegerKind::kBytes;
constexpr LinearTactic kInt4Tactics[] = {
    {"int4_avx512_4x4", 1, 3, run_kernel<kInteger<kNibbles, 4, 4, kWholeK>>},
    {"int4_avx512_8x2", 4, 24, run_kernel<kInteger<kNibbles, 8, 2, kWholeK>>},
    {"int4_avx512_unpack_4x3", 25, kManyTokens, run_kernel<kInteger<kSmall, 4, 3, kBlockK>>},
    {"int4_avx512_unpack_6x2", 25, kManyTokens, run_kernel<kInteger<kSmall, 6, 2, kBlockK>>},
};
constexpr LinearTactic kInt8Tactics[] = {
    {"int8_avx512_4x4", 1, 3, run_kernel<kInteger<kBytes, 4, 4, kWholeK>>},
    {"int8_avx512_8x2", 4, 8, run_kernel<kInteger<kBytes, 8, 2, kWholeK>>},
    {"int8_avx512_4x3", 9, kManyTokens, run_kernel<kInteger<kBytes, 4, 3, kBlockK>>},
    {"int8_avx512_6x2", 9, kManyTokens, run_kernel<kInteger<kBytes, 6, 2, kBlockK>>},
};
template <FloatKind kKind>
constexpr LinearTactic kFloatTactics[] = {
    {"float_avx512_6x8", 1, 2, run_kernel<kFloat<kKind, 6, 8>>},
    {"float_avx512_6x4", 3, 16, run_kernel<kFloat<kKind, 6, 4>>},
    {"float_avx512_unpack_12x2", 17, kManyTokens, run_kernel<kFloatGemm<kKind>>},
};
template <>
constexpr LinearTactic kFloatTactics<FloatKind::kFloat32>[] = {
    {"float_avx512_6x8", 1, 2, run_kernel<kFloat<FloatKind::kFloat32, 6, 8>>},
    {"float_avx512_6x4", 3, 6, run_kernel<kFloat<FloatKind::kFloat32, 6, 4>>},
    {"float_avx512_12x2", 7, kManyTokens, run_kernel<kFloatGemm<FloatKind::kFloat32>>},
};

}  // namespace

constinit const TacticTable kAvx512Tactics{
    .float32 = list_of(kFloatTactics<FloatKind::kFloat32>),
    .float16 = list_of(kFloatTactics<FloatKind::kFloat16>),
    .bfloat16 = list_of(kFloatTactics<FloatKind::kBFloat16>),
    .int8 = list_of(kInt8Tactics),
    .int4 = list_of(kInt4Tactics),
};

}  // namespace zonda::kernels
#else
namespace zonda::kernels {
constinit const TacticTable kAvx512Tactics{};
}  // namespace zonda::kernels
#endif
