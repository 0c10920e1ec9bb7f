// The kernels of linear_mma.cuh with tokens in fp8: half their bytes, products of m16n8k32, and no
// unpacking of weights.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/cuda/linear_mma.cuh"
#include "kernels/gemm/cuda/quantize_tokens.h"

namespace zonda::kernels::cuda {

// Tokens of e4m3 in the order of fp8_position(), two of them where a 16-bit type has one; sums
// become values of Output.
template <class Output>
struct Fp8Tokens : Output {
  static constexpr bool kTokenScales = true;

  // d += a * b: a 16 x 32 row-major, b 32 x 8 column-major, d 16 x 8. From compute capability 89
  // on.
  static __device__ __forceinline__ void mma(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                             uint32_t a3, uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 890
    asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#endif
  }
};

template <class Output>
struct Fp8TokensFormat : Fp8Format<Output> {
  using Element = Fp8Tokens<Output>;
  static constexpr int kStepSlices = 1;
  static constexpr float kUnit = 1.0f;

  static __device__ __forceinline__ Fragment fragment(const uint4* loads, int, int half) {
    return FloatFormat<Output>::fragment(loads, 0, half);
  }
  static __device__ __forceinline__ void add_scaled(const uint32_t* words,
                                                    const float (&products)[4], const float (&)[4],
                                                    float (&acc)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      acc[i] = __uint_as_float(words[i / 2]) * products[i];
    }
  }
};

// The workspace holds the tokens' codes and scales.
template <class Output, int kTiles, int kTokenTiles, int kStages>
cudaError_t run_linear_mma_fp8_tokens(const LinearParams& params,
                                      const device::cuda::LaunchSite& site) {
  const PackedLayout layout = packed_layout(params.packed);
  const QuantizedTokens tokens = place_tokens(params.workspace, params.num_tokens, layout);
  cudaError_t status = quantize_tokens(tokens_of(params, tokens), site);
  if (status != cudaSuccess) {
    return status;
  }
  MmaArgs args = mma_args(params);
  args.x = tokens.codes;
  args.norm_weight = nullptr;
  args.token_scales = tokens.scales;
  args.x_stride = layout.padded_cols / 2;
  args.layout.cols = layout.padded_cols / 2;
  return launch_linear_mma<Fp8TokensFormat<Output>, kTiles, kTokenTiles, kStages, false>(args,
                                                                                         site);
}

// Names as those of kMmaFloatTactics, steps of 64 k.
template <class Output>
inline constexpr LinearTactic kMmaFp8TokensTactics[] = {
    {"mma_fp8_r2_t16_s4", 9, 16, true, false, run_linear_mma_fp8_tokens<Output, 2, 2, 4>},
    {"mma_fp8_r2_t32_s4", 9, 32, true, false, run_linear_mma_fp8_tokens<Output, 2, 4, 4>},
};

}  // namespace zonda::kernels::cuda
