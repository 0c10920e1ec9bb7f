// Linears through m16n8k16 for few tokens: weights go from memory straight to registers, eight
// warps of a block share the rows and split k, and their sums meet in shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/cuda/dependent.cuh"
#include "kernels/gemm/cuda/fused_norm.cuh"
#include "kernels/gemm/cuda/linear.h"
#include "kernels/gemm/cuda/mma_format.cuh"
#include "kernels/gemm/cuda/output.cuh"
#include "kernels/gemm/cuda/packed_layout.h"

namespace zonda::kernels::cuda {

// Warp w adds chunks [w * chunks / 8, (w + 1) * chunks / 8) in order; the eight sums are added in
// the order of w. Every deterministic tactic of a format keeps to this.
inline constexpr int kWarps = 8;
inline constexpr int kMmaThreads = kWarps * 32;
// Floats of a token's 16 rows in shared memory: lanes of a fragment fall into distinct banks.
inline constexpr int kTokenPitch = 20;

struct MmaArgs {
  const void* x = nullptr;
  const std::byte* weights = nullptr;
  const float* norm_weight = nullptr;
  const float* token_scales = nullptr;  // of elements with kTokenScales
  float norm_eps = 0.0f;
  int64_t x_stride = 0;
  PackedLayout layout;
  Output output;
};

// Adds half a slice of tokens to their sums: to column t of every row, that of token t.
template <class Element>
__device__ __forceinline__ void add_tokens(float (&sums)[4], const uint4& tokens, int half) {
  constexpr uint32_t kOnes = Element::kOnes;
  Element::mma(sums, kOnes, kOnes, kOnes, kOnes, half == 0 ? tokens.x : tokens.z,
               half == 0 ? tokens.y : tokens.w);
}

// Registers of one warp: sums of kTiles row tiles for kTokenTiles x 8 tokens.
template <class Format, int kTiles, int kTokenTiles>
struct WarpSums {
  float acc[kTiles][kTokenTiles][4] = {};
  // Integer formats only: products of unscaled weights, and sums of the tokens' values, since the
  // last scale.
  float products[kTiles][kTokenTiles][4] = {};
  float token_sums[kTokenTiles][4] = {};

  // kAddTokens: token_sums grow along; else the caller sets them before end_group().
  template <bool kAddTokens = Format::kTokenSums>
  __device__ __forceinline__ void add_slice(const uint4 (&loads)[kTiles][Format::kLoads],
                                            const uint4 (&tokens)[kTokenTiles], int slice) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int r = 0; r < kTiles; ++r) {
        const Fragment a = Format::fragment(loads[r], slice, half);
#pragma unroll
        for (int n = 0; n < kTokenTiles; ++n) {
          const uint32_t b0 = half == 0 ? tokens[n].x : tokens[n].z;
          const uint32_t b1 = half == 0 ? tokens[n].y : tokens[n].w;
          float(&to)[4] = Format::kInteger ? products[r][n] : acc[r][n];
          Format::Element::mma(to, a.a0, a.a1, a.a2, a.a3, b0, b1);
        }
      }
      if constexpr (kAddTokens) {
#pragma unroll
        for (int n = 0; n < kTokenTiles; ++n) {
          add_tokens<typename Format::Element>(token_sums[n], tokens[n], half);
        }
      }
    }
  }

  // Ends a group whose scale (and minimum) are `words` of each tile.
  template <int kWords>
  __device__ __forceinline__ void end_group(const uint32_t (&words)[kTiles][kWords], int first) {
#pragma unroll
    for (int r = 0; r < kTiles; ++r) {
#pragma unroll
      for (int n = 0; n < kTokenTiles; ++n) {
        Format::add_scaled(words[r] + first, products[r][n], token_sums[n], acc[r][n]);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          products[r][n][i] = 0.0f;
        }
      }
    }
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        token_sums[n][i] = 0.0f;
      }
    }
  }
};

// One warp's ring of token slices in shared memory: each lane copies what that lane will read.
template <class Element, int kTokenTiles, int kStepSlices, int kStages>
class TokenRing {
 public:
  static constexpr int kStepBytes = kStepSlices * kTokenTiles * kSliceBytes;
  static constexpr int kBytes = kStages * kStepBytes;

  __device__ __forceinline__ TokenRing(const MmaArgs& args, std::byte* shared, int64_t first_token,
                                       int lane)
      : shared_(static_cast<uint32_t>(__cvta_generic_to_shared(shared)) + lane * 16),
        cols_(args.layout.cols),
        k_(lane % 4 * 8) {
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
      const int64_t token = first_token + n * 8 + lane / 4;
      valid_[n] = token < args.output.num_tokens;
      rows_[n] = static_cast<const typename Element::Value*>(args.x) +
                 (valid_[n] ? token : 0) * args.x_stride + k_;
    }
  }

  // Copies of step `step` into stage `stage`; zeros behind cols and behind the last token.
  __device__ __forceinline__ void copy(int step, int stage) {
#pragma unroll
    for (int s = 0; s < kStepSlices; ++s) {
      const int k = (step * kStepSlices + s) * kSlice;
      const int left = cols_ - k - k_;
#pragma unroll
      for (int n = 0; n < kTokenTiles; ++n) {
        const int bytes = valid_[n] ? min(max(left, 0), 8) * 2 : 0;
        const void* from = rows_[n] + (left > 0 ? k : 0);
        const uint32_t to = shared_ + stage * kStepBytes + (s * kTokenTiles + n) * kSliceBytes;
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                     "r"(bytes)
                     : "memory");
      }
    }
  }
  static __device__ __forceinline__ void commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  // Waits until all but the newest kPending commits have arrived.
  template <int kPending>
  static __device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
  }
  __device__ __forceinline__ uint4 read(int stage, int slice, int n) const {
    uint4 v;
    const uint32_t from = shared_ + stage * kStepBytes + (slice * kTokenTiles + n) * kSliceBytes;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(from)
                 : "memory");
    return v;
  }

 private:
  uint32_t shared_;
  int cols_;
  int k_;
  bool valid_[kTokenTiles];
  const typename Element::Value* rows_[kTokenTiles];
};

// Sums of a block in shared memory: [warp][tile][token][kTokenPitch], then [warp][token] squares.
template <int kTiles, int kTokenTiles>
struct BlockSums {
  static constexpr int kTokens = kTokenTiles * 8;
  static constexpr int kWarpFloats = kTiles * kTokens * kTokenPitch;
  static constexpr int kBytes = (kWarps * kWarpFloats + kWarps * kTokens) * 4;
  float* shared;

  __device__ __forceinline__ void put(int warp, int lane, int tile, int n, const float (&acc)[4]) {
    float* at = shared + warp * kWarpFloats +
                (tile * kTokens + n * 8 + lane % 4 * 2) * kTokenPitch + lane / 4;
    at[0] = acc[0];
    at[kTokenPitch] = acc[1];
    at[8] = acc[2];
    at[kTokenPitch + 8] = acc[3];
  }
  __device__ __forceinline__ void put_squares(int warp, int token, float squares) {
    shared[kWarps * kWarpFloats + warp * kTokens + token] = squares;
  }
  __device__ __forceinline__ float sum(int tile, int token, int row) const {
    const float* at = shared + (tile * kTokens + token) * kTokenPitch + row;
    float total = at[0];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) {
      total += at[w * kWarpFloats];
    }
    return total;
  }
  __device__ __forceinline__ float squares(int token) const {
    const float* at = shared + kWarps * kWarpFloats + token;
    float total = at[0];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) {
      total += at[w * kTokens];
    }
    return total;
  }
};

template <class Element, int kTiles, int kTokenTiles, bool kNorm>
__device__ __forceinline__ void finish_block(const MmaArgs& args,
                                             const BlockSums<kTiles, kTokenTiles>& sums,
                                             int64_t first_token, int32_t first_tile) {
  constexpr int kTokens = kTokenTiles * 8;
  const bool gated = is_gated_output(args.output);
  const int tiles = gated ? kTiles / 2 : kTiles;
  for (int i = threadIdx.x; i < kTokens * tiles * kTileRows; i += kMmaThreads) {
    const int row = i % kTileRows;
    const int tile = i / kTileRows % tiles;
    const int token = i / kTileRows / tiles;
    float scale = 1.0f;
    if constexpr (kNorm) {
      scale = rsqrtf(sums.squares(token) / static_cast<float>(args.layout.cols) + args.norm_eps);
    }
    if constexpr (Element::kTokenScales) {
      scale = args.token_scales[min(first_token + token, args.output.num_tokens - 1)];
    }
    if (gated) {
      store_gated<Element>(args.output, args.layout, first_token + token, first_tile / 2 + tile,
                           row, sums.sum(2 * tile, token, row) * scale,
                           sums.sum(2 * tile + 1, token, row) * scale);
    } else {
      store_sum<Element>(args.output, args.layout, first_token + token, first_tile + tile, row,
                         sums.sum(tile, token, row) * scale);
    }
  }
}

// Bytes of a warp's tokens and norm weights in flight.
template <class Format, int kTokenTiles, int kStages, bool kNorm>
constexpr int warp_ring_bytes() {
  return TokenRing<typename Format::Element, kTokenTiles, Format::kStepSlices, kStages>::kBytes +
         (kNorm ? NormRing<Format::kStepSlices, kStages>::kBytes : 0);
}

// Grid: x over groups of kTokenTiles x 8 tokens, y over groups of kTiles row tiles (even if gated).
// kStages steps of weights are in flight a warp.
template <class Format, int kTiles, int kTokenTiles, int kStages, bool kNorm>
__global__ void __launch_bounds__(kMmaThreads)
    linear_mma_kernel(const __grid_constant__ MmaArgs args) {
  using Element = typename Format::Element;
  using Ring = TokenRing<Element, kTokenTiles, Format::kStepSlices, kStages>;
  extern __shared__ __align__(128) std::byte shared[];
  device::cuda::allow_next();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t first_token = int64_t{blockIdx.x} * (kTokenTiles * 8);
  const auto first_tile = static_cast<int32_t>(blockIdx.y) * kTiles;
  const int first = Format::steps(args.layout, args.layout.chunks * warp / kWarps);
  const int last = Format::steps(args.layout, args.layout.chunks * (warp + 1) / kWarps);

  // Tiles behind the last are read as the last and not stored.
  const auto cursor = [&](int r) {
    return typename Format::Cursor(args.layout, args.weights,
                                   min(first_tile + r, args.layout.tiles - 1), lane);
  };
  uint4 loads[kStages][kTiles][Format::kLoads];
  uint32_t scales[kStages][kTiles][Format::kScales + 1];
#pragma unroll
  for (int stage = 0; stage < kStages; ++stage) {
    if (first + stage < last) {
#pragma unroll
      for (int r = 0; r < kTiles; ++r) {
        cursor(r).load(first + stage, loads[stage][r], scales[stage][r]);
      }
    }
  }
  std::byte* const rings = shared + warp * warp_ring_bytes<Format, kTokenTiles, kStages, kNorm>();
  Ring ring(args, rings, first_token, lane);
  const NormRing<Format::kStepSlices, kStages> norm(args.norm_weight, args.layout.cols,
                                                    rings + Ring::kBytes, lane);
  if constexpr (kNorm) {
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) {
      if (first + stage < last) {
        norm.copy(first + stage, stage);
      }
    }
  }
  device::cuda::wait_for_previous();
#pragma unroll
  for (int stage = 0; stage < kStages; ++stage) {
    if (first + stage < last) {
      ring.copy(first + stage, stage);
    }
    ring.commit();
  }

  WarpSums<Format, kTiles, kTokenTiles> sums;
  float squares[kTokenTiles] = {};
  for (int step = first; step < last; step += kStages) {
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) {
      if (step + stage >= last) {
        break;
      }
      ring.template wait<kStages - 1>();
      if constexpr (kNorm) {
        __syncwarp();
      }
#pragma unroll
      for (int slice = 0; slice < Format::kStepSlices; ++slice) {
        uint4 tokens[kTokenTiles];
#pragma unroll
        for (int n = 0; n < kTokenTiles; ++n) {
          tokens[n] = ring.read(stage, slice, n);
        }
        if constexpr (kNorm) {
          const NormWeights weights = norm.read(stage, slice);
#pragma unroll
          for (int n = 0; n < kTokenTiles; ++n) {
            tokens[n] = weights.template apply<Element>(tokens[n], squares[n]);
          }
        }
        sums.add_slice(loads[stage], tokens, slice);
        if constexpr (Format::kGroups > 0) {
          constexpr int kGroupSlices = Format::kStepSlices / Format::kGroups;
          if (slice % kGroupSlices == kGroupSlices - 1) {
            sums.end_group(scales[stage], slice / kGroupSlices * Format::kPlanes);
          }
        }
      }
      if (step + stage + kStages < last) {
#pragma unroll
        for (int r = 0; r < kTiles; ++r) {
          cursor(r).load(step + stage + kStages, loads[stage][r], scales[stage][r]);
        }
        ring.copy(step + stage + kStages, stage);
        if constexpr (kNorm) {
          __syncwarp();
          norm.copy(step + stage + kStages, stage);
        }
      }
      ring.commit();
    }
  }
  if constexpr (Format::kInteger && Format::kGroups == 0) {
    uint32_t words[kTiles][Format::kPlanes];
#pragma unroll
    for (int r = 0; r < kTiles; ++r) {
      cursor(r).load_row(words[r]);
    }
    sums.end_group(words, 0);
  }

  // The rings' memory becomes that of the sums.
  ring.template wait<0>();
  __syncthreads();
  BlockSums<kTiles, kTokenTiles> block{reinterpret_cast<float*>(shared)};
#pragma unroll
  for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
    for (int r = 0; r < kTiles; ++r) {
      block.put(warp, lane, r, n, sums.acc[r][n]);
    }
    if constexpr (kNorm) {
      squares[n] += __shfl_xor_sync(0xffffffffu, squares[n], 1);
      squares[n] += __shfl_xor_sync(0xffffffffu, squares[n], 2);
      if (lane % 4 == 0) {
        block.put_squares(warp, n * 8 + lane / 4, squares[n]);
      }
    }
  }
  __syncthreads();
  finish_block<Element, kTiles, kTokenTiles, kNorm>(args, block, first_token, first_tile);
}

// Percent of a multiprocessor's shared memory for blocks of these kernels (164 of 228 KB, as sizes
// are rounded up): the rest is first-level cache, through which the loads in flight come. Left to
// the driver, a kernel keeps the split of the one before it, and decode attention takes most.
inline constexpr int kSharedPercent = 58;

inline MmaArgs mma_args(const LinearParams& params) {
  MmaArgs args;
  args.x = params.x;
  args.weights = params.weights;
  args.norm_weight = params.norm_weight;
  args.norm_eps = params.norm_eps;
  args.x_stride = params.x_stride;
  args.layout = packed_layout(params.packed);
  args.output = output_of(params);
  return args;
}

template <class Format, int kTiles, int kTokenTiles, int kStages, bool kNorm>
cudaError_t launch_linear_mma(const MmaArgs& args, const device::cuda::LaunchSite& site) {
  constexpr int kBytes = std::max(kWarps * warp_ring_bytes<Format, kTokenTiles, kStages, kNorm>(),
                                  BlockSums<kTiles, kTokenTiles>::kBytes);
  const auto kernel = linear_mma_kernel<Format, kTiles, kTokenTiles, kStages, kNorm>;
  for (const cudaError_t status :
       {cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
        cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                             kSharedPercent)}) {
    if (status != cudaSuccess) {
      return status;
    }
  }
  const dim3 grid(
      static_cast<unsigned>((args.output.num_tokens + kTokenTiles * 8 - 1) / (kTokenTiles * 8)),
      static_cast<unsigned>((args.layout.tiles + kTiles - 1) / kTiles));
  return device::cuda::launch(kernel, grid, dim3(kMmaThreads), kBytes, site, args);
}

template <class Format, int kTiles, int kTokenTiles, int kStages, bool kNorm>
cudaError_t launch_linear_mma(const LinearParams& params, const device::cuda::LaunchSite& site) {
  return launch_linear_mma<Format, kTiles, kTokenTiles, kStages, kNorm>(mma_args(params), site);
}

}  // namespace zonda::kernels::cuda
