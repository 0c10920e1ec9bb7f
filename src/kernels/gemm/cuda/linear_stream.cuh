// Linears of one to eight tokens by few, long-lived blocks: the tokens stay in shared memory, and
// weights stream past them through rings that fill before the kernel ahead has ended.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/cuda/dependent.cuh"
#include "kernels/gemm/cuda/linear_mma.cuh"
#include "kernels/gemm/cuda/stream_kernels.h"

namespace zonda::kernels::cuda {

// A unit is one row tile, or the pair of a gated output. Block b takes units b, b + blocks, ...;
// as in linear_mma.cuh its warps share k and their sums are added in the order of the warps. They
// do not wait for each other: the sums of a unit go to one of kSlots places, and the warp whose
// turn it is finishes them.
inline constexpr int kSlots = 4;

struct StreamArgs {
  MmaArgs linear;
  int unit_tiles = 0;
  int units = 0;
  int blocks = 0;
  // Byte offsets in shared memory; tokens at 0: [slice][token][32 k].
  int token_sums_at = 0;  // [group][8 tokens]
  int scales_at = 0;      // [8 tokens], of the norm; then 16 bytes of zeros
  int slots_at = 0;       // [slot][warp][tile][token][kTokenPitch]
  int rings_at = 0;
};

// kRing: about the bytes of a warp's ring.
template <class Format, int kRing>
struct StreamShape {
  static constexpr int kScaleBytes = Format::kScales == 8 ? 1024 : Format::kScales * 128;
  static constexpr int kStageBytes = Format::kLoads * kLoadBytes + kScaleBytes;
  static constexpr int kStages = std::max(3, kRing / kStageBytes);
};

// Named barriers of a block: 1 + slot is full, 1 + kSlots + slot is free.
__device__ __forceinline__ void arrive_at(int barrier) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(kMmaThreads) : "memory");
}
__device__ __forceinline__ void wait_at(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kMmaThreads) : "memory");
}

// Eight x behind `from`; zeros from the `left`-th on. A predicated load, so that several stay in
// flight.
__device__ __forceinline__ uint4 load_tokens8(const uint16_t* from, int left) {
  uint32_t w[4];
  asm volatile(
      "{\n .reg .pred p;\n setp.ge.s32 p, %5, 8;\n mov.b32 %0, 0;\n mov.b32 %1, 0;\n mov.b32 %2, 0;"
      "\n mov.b32 %3, 0;\n @p ld.global.v4.u32 {%0,%1,%2,%3}, [%4];\n}"
      : "=&r"(w[0]), "=&r"(w[1]), "=&r"(w[2]), "=&r"(w[3])
      : "l"(from), "r"(left)
      : "memory");
  if (left > 0 && left < 8) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < left) {
        w[i / 2] |= uint32_t{from[i]} << (i % 2 * 16);
      }
    }
  }
  return {w[0], w[1], w[2], w[3]};
}

// Likewise of norm weights.
__device__ __forceinline__ NormWeights load_norm8(const float* from, int left) {
  if (left >= 8) {
    return {reinterpret_cast<const float4*>(from)[0], reinterpret_cast<const float4*>(from)[1]};
  }
  float w[8] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (i < left) {
      w[i] = from[i];
    }
  }
  return {{w[0], w[1], w[2], w[3]}, {w[4], w[5], w[6], w[7]}};
}

// The tokens of a block.
template <class Format>
struct StreamTokens {
  using Element = typename Format::Element;
  const StreamArgs& args;
  std::byte* shared;

  __device__ __forceinline__ int count() const {
    return static_cast<int>(args.linear.output.num_tokens);
  }
  __device__ __forceinline__ int slices() const {
    return args.linear.layout.chunks * (kChunk / kSlice);
  }
  __device__ __forceinline__ uint4* vectors() const { return reinterpret_cast<uint4*>(shared); }
  __device__ __forceinline__ float* token_sums() const {
    return reinterpret_cast<float*>(shared + args.token_sums_at);
  }
  __device__ __forceinline__ float* scales() const {
    return reinterpret_cast<float*>(shared + args.scales_at);
  }
  // Squares [slice][token][4 lanes], where sums lie later.
  __device__ __forceinline__ float* lane_squares() const {
    return reinterpret_cast<float*>(shared + args.slots_at);
  }

  // kNorm: there are norm weights.
  template <bool kNorm>
  __device__ __forceinline__ void load() const {
    constexpr int kBatch = kNorm ? 2 : 8;  // vectors of a thread in flight
    const int row = count() * 4;
    const int total = slices() * row;
    for (int begin = threadIdx.x; begin < total; begin += kBatch * kMmaThreads) {
      uint4 x[kBatch];
      NormWeights weights[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int v = begin + i * kMmaThreads;
        const int k = v / row * kSlice + v % 4 * 8;
        const int left = v < total ? args.linear.layout.cols - k : 0;
        x[i] = load_tokens8(
            static_cast<const uint16_t*>(args.linear.x) + v % row / 4 * args.linear.x_stride + k,
            left);
        if constexpr (kNorm) {
          weights[i] = load_norm8(args.linear.norm_weight + k, left);
        }
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int v = begin + i * kMmaThreads;
        if (v < total) {
          if constexpr (kNorm) {
            float squares = 0.0f;
            x[i] = weights[i].template apply<Element>(x[i], squares);
            lane_squares()[v] = squares;
          }
          vectors()[v] = x[i];
        }
      }
    }
  }

  // Behind load() and a barrier. Every token's norm: its squares by lane, share and all.
  __device__ __forceinline__ void add_squares(int warp, int lane) const {
    if (args.linear.norm_weight == nullptr) {
      return;
    }
    for (int token = warp; token < count(); token += kWarps) {
      const int chunks = args.linear.layout.chunks;
      const int share = lane / 4;
      float sum = 0.0f;
      for (int slice = chunks * share / kWarps * (kChunk / kSlice);
           slice < chunks * (share + 1) / kWarps * (kChunk / kSlice); ++slice) {
        sum += lane_squares()[(slice * count() + token) * 4 + lane % 4];
      }
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      float total = __shfl_sync(0xffffffffu, sum, 0);
#pragma unroll
      for (int i = 1; i < kWarps; ++i) {
        total += __shfl_sync(0xffffffffu, sum, i * 4);
      }
      if (lane == 0) {
        scales()[token] =
            rsqrtf(total / static_cast<float>(args.linear.layout.cols) + args.linear.norm_eps);
      }
    }
  }

  // Where a lane finds its part of slice 0, and bytes to the next slice; behind the last token a
  // place of zeros.
  __device__ __forceinline__ uint32_t first_at(int lane) const {
    const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    return at + (lane / 4 < count() ? lane * 16 : args.scales_at + 32);
  }
  __device__ __forceinline__ int stride(int lane) const {
    return lane / 4 < count() ? count() * kSlice * 2 : 0;
  }
  static __device__ __forceinline__ uint4 read(uint32_t at) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(at)
                 : "memory");
    return v;
  }

  // Behind load() and a barrier. The sums of each group; of each share where scales are per row.
  __device__ __forceinline__ void add_groups(int warp, int lane) const {
    if constexpr (Format::kTokenSums) {
      const uint32_t at = first_at(lane);
      const int chunks = args.linear.layout.chunks;
      if constexpr (Format::kGroups == 0) {
        float sums[1][4] = {};
        for (int chunk = chunks * warp / kWarps; chunk < chunks * (warp + 1) / kWarps; ++chunk) {
          add_group<kChunk / kSlice>(at, chunk, chunk + 1, lane, sums);
        }
        put_sums(warp, lane, sums[0]);
      } else {
        // Several groups side by side: one product waits long for the one before it.
        constexpr int kAbreast = 4;
        const int groups = chunks * Format::kGroups;
        for (int group = warp * kAbreast; group < groups; group += kWarps * kAbreast) {
          float sums[kAbreast][4] = {};
          add_group<kChunk / kSlice / Format::kGroups>(at, group, groups, lane, sums);
#pragma unroll
          for (int i = 0; i < kAbreast; ++i) {
            if (group + i < groups) {
              put_sums(group + i, lane, sums[i]);
            }
          }
        }
      }
    }
  }
  // Sums of group `group`, as a fragment's columns. `lane_sums`: token_sums() + lane % 4 * 2.
  static __device__ __forceinline__ void read_sums(const float* lane_sums, int group,
                                                   float (&sums)[4]) {
    if constexpr (Format::kTokenSums) {
      const float2 pair = *reinterpret_cast<const float2*>(lane_sums + group * 8);
      sums[0] = sums[2] = pair.x;
      sums[1] = sums[3] = pair.y;
    }
  }

  // Adds kSlices slices of each of the groups behind `group`, past the last the last.
  template <int kSlices, int kAbreast>
  __device__ __forceinline__ void add_group(uint32_t at, int group, int groups, int lane,
                                            float (&sums)[kAbreast][4]) const {
#pragma unroll
    for (int slice = 0; slice < kSlices; ++slice) {
#pragma unroll
      for (int i = 0; i < kAbreast; ++i) {
        const int at_group = min(group + i, groups - 1);
        const uint4 x = read(at + (at_group * kSlices + slice) * stride(lane));
        add_tokens<Element>(sums[i], x, 0);
        add_tokens<Element>(sums[i], x, 1);
      }
    }
  }
  __device__ __forceinline__ void put_sums(int group, int lane, const float (&sums)[4]) const {
    if (lane < 4) {
      token_sums()[group * 8 + lane * 2] = sums[0];
      token_sums()[group * 8 + lane * 2 + 1] = sums[1];
    }
  }
};

// One warp's weights on their way: its share of tile after tile through a ring of stages, a step
// each, of which every lane copies and reads its own part.
template <class Format, int kRing>
class WeightRing {
 public:
  using Shape = StreamShape<Format, kRing>;
  using Cursor = typename Format::Cursor;

  __device__ __forceinline__ WeightRing(const StreamArgs& args, std::byte* ring, int warp, int lane)
      : args_(args),
        first_(Format::steps(args.linear.layout, args.linear.layout.chunks * warp / kWarps)),
        last_(Format::steps(args.linear.layout, args.linear.layout.chunks * (warp + 1) / kWarps)),
        at_(static_cast<uint32_t>(__cvta_generic_to_shared(ring)) + lane * 16),
        words_at_(static_cast<uint32_t>(__cvta_generic_to_shared(ring)) +
                  Format::kLoads * kLoadBytes + lane * std::min(Format::kScales * 4, 16)),
        lane_(lane),
        unit_(first_ < last_ ? static_cast<int>(blockIdx.x) : args.units),
        step_(first_),
        cursor_(cursor(unit_ * args.unit_tiles)) {}

  __device__ __forceinline__ int first() const { return first_; }
  __device__ __forceinline__ int last() const { return last_; }
  // Nothing is left to ask for.
  __device__ __forceinline__ bool is_exhausted() const { return unit_ >= args_.units; }

  // Asks for the next step of the sequence, into the stage that begins at byte `stage`.
  __device__ __forceinline__ void issue(int stage) {
    if (!is_exhausted()) {
      cursor_.copy(step_, at_ + stage, words_at_ + stage);
      if (++step_ >= last_) {
        step_ = first_;
        if (++tile_ == args_.unit_tiles) {
          tile_ = 0;
          unit_ += args_.blocks;
        }
        cursor_ = cursor(unit_ * args_.unit_tiles + tile_);
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  static __device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Shape::kStages - 1) : "memory");
  }

  __device__ __forceinline__ void read(int stage, uint4 (&loads)[1][Format::kLoads],
                                       uint32_t (&words)[1][Format::kScales + 1]) const {
#pragma unroll
    for (int i = 0; i < Format::kLoads; ++i) {
      loads[0][i] = read16(at_ + stage + i * kLoadBytes);
    }
    if constexpr (Format::kScales >= 4) {
#pragma unroll
      for (int i = 0; i < Format::kScales; i += 4) {
        const uint4 v = read16(words_at_ + stage + i * 128);
        words[0][i] = v.x;
        words[0][i + 1] = v.y;
        words[0][i + 2] = v.z;
        words[0][i + 3] = v.w;
      }
    } else {
#pragma unroll
      for (int i = 0; i < Format::kScales; ++i) {
        asm volatile("ld.shared.u32 %0, [%1];"
                     : "=r"(words[0][i])
                     : "r"(words_at_ + stage + i * 4)
                     : "memory");
      }
    }
  }
  // Tiles behind the last are read as the last.
  __device__ __forceinline__ Cursor cursor(int tile) const {
    return Cursor(args_.linear.layout, args_.linear.weights,
                  min(tile, args_.linear.layout.tiles - 1), lane_);
  }

 private:
  static __device__ __forceinline__ uint4 read16(uint32_t from) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(from)
                 : "memory");
    return v;
  }

  const StreamArgs& args_;
  int first_, last_;
  uint32_t at_, words_at_;
  int lane_;
  int unit_;
  int tile_ = 0;
  int step_;
  Cursor cursor_;
};

// The sums of units in shared memory.
struct UnitSums {
  const StreamArgs& args;
  std::byte* shared;

  __device__ __forceinline__ int tokens() const {
    return static_cast<int>(args.linear.output.num_tokens);
  }
  __device__ __forceinline__ float* at(int slot, int warp, int tile) const {
    return reinterpret_cast<float*>(shared + args.slots_at) +
           ((slot * kWarps + warp) * args.unit_tiles + tile) * tokens() * kTokenPitch;
  }
  __device__ __forceinline__ void put(int slot, int warp, int tile, int lane,
                                      const float (&acc)[4]) const {
    const int token = lane % 4 * 2;
    float* to = at(slot, warp, tile) + token * kTokenPitch + lane / 4;
    if (token < tokens()) {
      to[0] = acc[0];
      to[8] = acc[2];
    }
    if (token + 1 < tokens()) {
      to[kTokenPitch] = acc[1];
      to[kTokenPitch + 8] = acc[3];
    }
  }
  __device__ __forceinline__ float sum(int slot, int tile, int token, int row) const {
    const float* from = at(slot, 0, tile) + token * kTokenPitch + row;
    float total = from[0];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) {
      total += from[w * args.unit_tiles * tokens() * kTokenPitch];
    }
    return total;
  }
  // One warp. `residual`: that of the lane's first output.
  template <class Element>
  __device__ __forceinline__ void finish(int slot, int unit, int lane, const float* scales,
                                         float residual) const {
    const bool gated = is_gated_output(args.linear.output);
    for (int i = lane; i < tokens() * kTileRows; i += 32) {
      const int row = i % kTileRows;
      const int token = i / kTileRows;
      const float scale = args.linear.norm_weight != nullptr ? scales[token] : 1.0f;
      if (gated) {
        store_gated<Element>(args.linear.output, args.linear.layout, token, unit, row,
                             sum(slot, 0, token, row) * scale, sum(slot, 1, token, row) * scale);
      } else {
        if (i != lane) {
          residual =
              load_residual<Element>(args.linear.output, args.linear.layout, token, unit, row);
        }
        store_sum<Element>(args.linear.output, args.linear.layout, token, unit, row,
                           sum(slot, 0, token, row) * scale, residual);
      }
    }
  }
};

template <class Format, int kRing>
__global__ void __launch_bounds__(kMmaThreads, 4)
    linear_stream_kernel(const __grid_constant__ StreamArgs args) {
  using Shape = StreamShape<Format, kRing>;
  using Element = typename Format::Element;
  extern __shared__ __align__(128) std::byte shared[];
  const PackedLayout& layout = args.linear.layout;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;

  constexpr int kRingBytes = Shape::kStages * Shape::kStageBytes;
  WeightRing<Format, kRing> ring(args, shared + args.rings_at + warp * kRingBytes, warp, lane);
  for (int stage = 0; stage < kRingBytes; stage += Shape::kStageBytes) {
    ring.issue(stage);
  }
  if (args.linear.norm_weight != nullptr && threadIdx.x == 0) {
    prefetch_l2(reinterpret_cast<const std::byte*>(args.linear.norm_weight), layout.cols / 4 * 16);
  }
  // The next kernel comes in when these weights have all been asked for: its rings fill while the
  // last of these arrive and are finished.
  bool is_next_allowed = ring.is_exhausted();
  if (is_next_allowed) {
    device::cuda::allow_next();
  }
  device::cuda::wait_for_previous();

  const StreamTokens<Format> tokens{args, shared};
  if (args.linear.norm_weight != nullptr) {
    tokens.template load<true>();
  } else {
    tokens.template load<false>();
  }
  if (threadIdx.x < 4) {
    tokens.scales()[8 + threadIdx.x] = 0.0f;
  }
  __syncthreads();
  tokens.add_groups(warp, lane);
  tokens.add_squares(warp, lane);
  __syncthreads();

  const UnitSums unit_sums{args, shared};
  const float* lane_sums = tokens.token_sums() + lane % 4 * 2;
  const int stride = tokens.stride(lane);
  const uint32_t first_x = tokens.first_at(lane) + ring.first() * Format::kStepSlices * stride;
  int stage = 0;
  int turn = 0;
  for (int unit = static_cast<int>(blockIdx.x); unit < args.units; unit += args.blocks, ++turn) {
    const int slot = turn % kSlots;
    if (turn >= kSlots && (turn - kSlots) % kWarps != warp) {
      wait_at(1 + kSlots + slot);
    }
    for (int tile = 0; tile < args.unit_tiles; ++tile) {
      WarpSums<Format, 1, 1> sums;
      uint32_t row_words[1][2];
      if constexpr (Format::kInteger && Format::kGroups == 0) {
        ring.cursor(unit * args.unit_tiles + tile).load_row(row_words[0]);
      }
      uint32_t x_at = first_x;
#pragma unroll 1
      for (int step = ring.first(); step < ring.last(); ++step) {
        ring.wait();
        uint4 loads[1][Format::kLoads];
        uint32_t words[1][Format::kScales + 1];
        ring.read(stage, loads, words);
#pragma unroll
        for (int slice = 0; slice < Format::kStepSlices; ++slice) {
          const uint4 x[1] = {tokens.read(x_at)};
          x_at += stride;
          sums.template add_slice<false>(loads, x, slice);
          if constexpr (Format::kGroups > 0) {
            constexpr int kGroupSlices = Format::kStepSlices / Format::kGroups;
            if (slice % kGroupSlices == kGroupSlices - 1) {
              tokens.read_sums(lane_sums, step * Format::kGroups + slice / kGroupSlices,
                               sums.token_sums[0]);
              sums.end_group(words, slice / kGroupSlices * Format::kPlanes);
            }
          }
        }
        ring.issue(stage);
        if (!is_next_allowed && ring.is_exhausted()) {
          is_next_allowed = true;
          device::cuda::allow_next();
        }
        stage = stage + Shape::kStageBytes == kRingBytes ? 0 : stage + Shape::kStageBytes;
      }
      if constexpr (Format::kInteger && Format::kGroups == 0) {
        tokens.read_sums(lane_sums, warp, sums.token_sums[0]);
        sums.end_group(row_words, 0);
      }
      unit_sums.put(slot, warp, tile, lane, sums.acc[0][0]);
    }
    if (turn % kWarps == warp) {
      const float residual = load_residual<Element>(args.linear.output, layout, lane / kTileRows,
                                                    unit, lane % kTileRows);
      wait_at(1 + slot);
      unit_sums.template finish<Element>(slot, unit, lane, tokens.scales(), residual);
      if (unit + kSlots * args.blocks < args.units) {
        arrive_at(1 + kSlots + slot);
      }
    } else {
      arrive_at(1 + slot);
    }
  }
}

// Bytes of shared memory, and where its parts lie.
template <class Format, int kRing>
int stream_shared_bytes(StreamArgs& args) {
  const int tokens = static_cast<int>(args.linear.output.num_tokens);
  const int slices = args.linear.layout.chunks * (kChunk / kSlice);
  int at = slices * tokens * kSlice * 2;
  args.token_sums_at = at;
  if (Format::kTokenSums) {
    at += std::max(args.linear.layout.chunks * std::max(Format::kGroups, 1), kWarps) * 8 * 4;
  }
  args.scales_at = at;
  at += 8 * 4 + 16;
  args.slots_at = at;
  const int square_bytes = args.linear.norm_weight == nullptr ? 0 : slices * tokens * 4 * 4;
  at += std::max(kSlots * kWarps * args.unit_tiles * tokens * kTokenPitch * 4, square_bytes);
  args.rings_at = static_cast<int>(padded_to(at, 128));
  return args.rings_at +
         kWarps * StreamShape<Format, kRing>::kStages * StreamShape<Format, kRing>::kStageBytes;
}

// Most that a block may have on compute capability 90.
inline constexpr int kMostSharedBytes = 227 * 1024;

template <class Format, int kRing>
cudaError_t launch_stream(StreamArgs args, const device::cuda::LaunchSite& site, int blocks) {
  const auto kernel = linear_stream_kernel<Format, kRing>;
  const int bytes = stream_shared_bytes<Format, kRing>(args);
  if (bytes > kMostSharedBytes) {
    return cudaErrorNotSupported;
  }
  int device = 0;
  int processors = 0;
  for (const cudaError_t status :
       {cudaGetDevice(&device),
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostSharedBytes),
        cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared)}) {
    if (status != cudaSuccess) {
      return status;
    }
  }
  args.blocks = std::min(args.units, blocks * processors);
  return device::cuda::launch(kernel, dim3(static_cast<unsigned>(args.blocks)), dim3(kMmaThreads),
                              static_cast<size_t>(bytes), site, args);
}

// Too little shared memory for the tokens, or more than eight of them: cudaErrorNotSupported, and
// nothing is launched.
template <class Format>
cudaError_t launch_linear_stream(const LinearParams& params, const device::cuda::LaunchSite& site,
                                 const StreamChoice& choice) {
  if (params.num_tokens > 8) {
    return cudaErrorNotSupported;
  }
  StreamArgs args;
  args.linear = mma_args(params);
  const bool gated =
      params.epilogue == Epilogue::kGatedSilu || params.epilogue == Epilogue::kGatedGeluTanh;
  args.unit_tiles = gated ? 2 : 1;
  args.units = args.linear.layout.tiles / args.unit_tiles;
  return choice.deep ? launch_stream<Format, 10 * 1024>(args, site, choice.blocks)
                     : launch_stream<Format, 5 * 1024>(args, site, choice.blocks);
}

}  // namespace zonda::kernels::cuda
