// Linear kernels for AVX2 with FMA and F16C. int4 multiplies nibbles directly for any number of
// tokens; int8 splits the activations into two 4-bit parts, because vpmaddubsw saturates.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/cpu/linear_generic.h"

#ifdef __AVX2__
#include "kernels/gemm/cpu/vector_avx2.h"

namespace zonda::kernels {
namespace {

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
// One token: panels take turns in registers, so that there are as many read streams as panels.
template <IntegerKind kKind, int kPanels>
void integer_turns(const AccumulateArgs& args) {
  AccumulateArgs now = args;
  for (; now.panels >= kPanels; now.panels -= kPanels) {
    accumulate_integer_in_turns<Avx2, kKind, 1, kPanels>(now);
    now.weights += kPanels * now.panel_stride;
    now.sums += kPanels * now.sums_stride;
  }
  if (now.panels > 0) {
    accumulate_tokens<IntegerLoops<kKind>::template Loop, 1>(now);
  }
}
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

// Whole rows of k: panels side by side in registers are the read streams.
constexpr int64_t kWholeK = int64_t{1} << 40;
// Keeps a panel's weights and a tile's activations in the first-level cache.
constexpr int64_t kBlockK = 2048;

template <int kPanels, int64_t kK>
constexpr LinearKernel kInt4{.activations = ActivationKind::kBytes,
                             .tile_tokens = 4,
                             .panels = kPanels,
                             .k_block = kK,
                             .unpacks = false,
                             .prepare = prepare_integer<Avx2, 1>,
                             .unpack = nullptr,
                             .accumulate = integer_tile_loop<IntegerKind::kNibbles, 4>,
                             .finish = finish<Avx2>};
template <int kPanels, int64_t kK>
constexpr LinearKernel kInt8{.activations = ActivationKind::kBytePlanes,
                             .tile_tokens = 3,
                             .panels = kPanels,
                             .k_block = kK,
                             .unpacks = false,
                             .prepare = prepare_integer<Avx2, 2>,
                             .unpack = nullptr,
                             .accumulate = integer_tile_loop<IntegerKind::kBytes, 3>,
                             .finish = finish<Avx2>};
template <int kPanels>
constexpr LinearKernel kInt8Turns{.activations = ActivationKind::kBytePlanes,
                                  .tile_tokens = 1,
                                  .panels = kPanels,
                                  .k_block = kWholeK,
                                  .unpacks = false,
                                  .prepare = prepare_integer<Avx2, 2>,
                                  .unpack = nullptr,
                                  .accumulate = integer_turns<IntegerKind::kBytes, kPanels>,
                                  .finish = finish<Avx2>};
template <FloatKind kKind, int kTokens, int kPanels>
constexpr LinearKernel kFloat{.activations = ActivationKind::kFloat,
                              .tile_tokens = kTokens,
                              .panels = kPanels,
                              .k_block = kWholeK,
                              .unpacks = false,
                              .prepare = prepare_float<Avx2>,
                              .unpack = nullptr,
                              .accumulate = float_tile_loop<kKind, kTokens>,
                              .finish = finish<Avx2>};
// Many tokens share the conversion to float32.
template <FloatKind kKind>
constexpr LinearKernel kFloatGemm{.activations = ActivationKind::kFloat,
                                  .tile_tokens = 6,
                                  .panels = 1,
                                  .k_block = 512,
                                  .unpacks = kKind != FloatKind::kFloat32,
                                  .prepare = prepare_float<Avx2>,
                                  .unpack = unpack_float<Avx2, kKind>,
                                  .accumulate = float_tile_loop<FloatKind::kFloat32, 6>,
                                  .finish = finish<Avx2>};

// Names: tokens of a tile x panels side by side.
constexpr LinearTactic kInt4Tactics[] = {
    {"int4_avx2_4x4", 1, 1, run_kernel<kInt4<4, kWholeK>>},
    {"int4_avx2_4x2", 2, 16, run_kernel<kInt4<2, kWholeK>>},
    {"int4_avx2_4x1", 17, kManyTokens, run_kernel<kInt4<1, kBlockK>>},
};
constexpr LinearTactic kInt8Tactics[] = {
    {"int8_avx2_1x4", 1, 1, run_kernel<kInt8Turns<4>>},
    {"int8_avx2_3x2", 2, 3, run_kernel<kInt8<2, kWholeK>>},
    {"int8_avx2_3x1", 4, kManyTokens, run_kernel<kInt8<1, kBlockK>>},
};
template <FloatKind kKind>
constexpr LinearTactic kFloatTactics[] = {
    {"float_avx2_4x4", 1, 1, run_kernel<kFloat<kKind, 4, 4>>},
    {"float_avx2_4x2", 2, 3, run_kernel<kFloat<kKind, 4, 2>>},
    {"float_avx2_4x1", 4, 8, run_kernel<kFloat<kKind, 4, 1>>},
    {"float_avx2_unpack_6x1", 9, kManyTokens, run_kernel<kFloatGemm<kKind>>},
};
template <>
constexpr LinearTactic kFloatTactics<FloatKind::kFloat32>[] = {
    {"float_avx2_4x4", 1, 1, run_kernel<kFloat<FloatKind::kFloat32, 4, 4>>},
    {"float_avx2_4x2", 2, 3, run_kernel<kFloat<FloatKind::kFloat32, 4, 2>>},
    {"float_avx2_6x1", 4, kManyTokens, run_kernel<kFloatGemm<FloatKind::kFloat32>>},
};

}  // namespace

constinit const TacticTable kAvx2Tactics{
    .float32 = list_of(kFloatTactics<FloatKind::kFloat32>),
    .float16 = list_of(kFloatTactics<FloatKind::kFloat16>),
    .bfloat16 = list_of(kFloatTactics<FloatKind::kBFloat16>),
    .int8 = list_of(kInt8Tactics),
    .int4 = list_of(kInt4Tactics),
};

}  // namespace zonda::kernels
#else
namespace zonda::kernels {
constinit const TacticTable kAvx2Tactics{};
}  // namespace zonda::kernels
#endif
