// bfloat16 weights through vdpbf16ps: activations are rounded to bfloat16 once, and each sum takes
// pairs of k in order. Other formats are those of AVX-512.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/cpu/linear_generic.h"

#ifdef __AVX512BF16__
#include "kernels/gemm/cpu/vector_avx512.h"

namespace zonda::kernels {
namespace {

// [k / 2][tokens][2] bfloat16.
void prepare_pairs(const TileArgs& args) {
  const int64_t tokens = args.tokens;
  alignas(64) float padded[16];
  alignas(32) int32_t pairs[8];
  for (int64_t token = 0; token < tokens; ++token) {
    const float* x = args.x + token * args.x_stride;
    auto* out = reinterpret_cast<int32_t*>(args.out) + token;
    for (int64_t k = 0; k < args.layout->k; k += 16) {
      const float* values = x + k;
      if (k + 16 > args.cols) {
        for (int64_t i = 0; i < 16; ++i) {
          padded[i] = k + i < args.cols ? x[k + i] : 0.0f;
        }
        values = padded;
      }
      _mm256_store_si256(reinterpret_cast<__m256i*>(pairs), Avx512::to_bf16(Avx512::load(values)));
      for (int64_t i = 0; i < 8; ++i) {
        out[(k / 2 + i) * tokens] = pairs[i];
      }
    }
  }
}

template <int N, int P>
struct PairLoop {
  static constexpr int kMaxPanels = N <= 3 ? 8 : N <= 6 ? 4 : 2;

  static void run(const AccumulateArgs& args) {
    const auto* x = reinterpret_cast<const int32_t*>(args.activations) + args.k_begin / 2 * N;
    const std::byte* w = args.weights + (args.k_begin - args.k_origin) * kPanelRows * 2;
    __m512 sums[P][N];
    load_sums<Avx512, N, P>(args, sums);
    for (int64_t k = args.k_begin; k < args.k_end; k += 2) {
      __m512bh weights[P];
      for (int p = 0; p < P; ++p) {
        weights[p] = (__m512bh)Avx512::load_bytes(w + p * args.panel_stride);
      }
      for (int n = 0; n < N; ++n) {
        const auto pair = (__m512bh)_mm512_set1_epi32(x[n]);
        for (int p = 0; p < P; ++p) {
          sums[p][n] = _mm512_dpbf16_ps(sums[p][n], weights[p], pair);
        }
      }
      x += N;
      w += kPanelRows * 4;
    }
    store_sums<Avx512, N, P>(args, sums);
  }
};

template <int kTokens, int kPanels, int64_t kK>
constexpr LinearKernel kPairs{.activations = ActivationKind::kPairs,
                              .tile_tokens = kTokens,
                              .panels = kPanels,
                              .k_block = kK,
                              .unpacks = false,
                              .prepare = prepare_pairs,
                              .unpack = nullptr,
                              .accumulate = accumulate_tokens<PairLoop, kTokens>,
                              .finish = finish<Avx512>};

constexpr int64_t kWholeK = int64_t{1} << 40;
constexpr LinearTactic kBFloat16Tactics[] = {
    {"bfloat16_avx512bf16_6x8", 1, 2, run_kernel<kPairs<6, 8, kWholeK>>},
    {"bfloat16_avx512bf16_6x4", 3, 12, run_kernel<kPairs<6, 4, kWholeK>>},
    {"bfloat16_avx512bf16_12x2", 13, kManyTokens, run_kernel<kPairs<12, 2, 512>>},
};

}  // namespace

constinit const TacticTable kAvx512Bf16Tactics{
    .float32 = {}, .float16 = {}, .bfloat16 = list_of(kBFloat16Tactics), .int8 = {}, .int4 = {}};

}  // namespace zonda::kernels
#else
namespace zonda::kernels {
constinit const TacticTable kAvx512Bf16Tactics{};
}  // namespace zonda::kernels
#endif
