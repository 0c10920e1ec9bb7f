// How each weight format feeds m16n8k16: the 16-byte loads of a lane, and products with tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/gemm/cuda/element.cuh"
#include "kernels/gemm/cuda/packed_layout.h"

namespace zonda::kernels::cuda {

// A slice is 32 k of one token in lane order: lane (g, t) = (lane / 4, lane % 4) holds x[token
// g][8t
// .. 8t + 7], 16 bytes. Its first half feeds one m16n8k16, its second half the next; the weights
// use the same assignment of k to lanes, so both sides load 16 bytes without a shuffle. The order
// of additions along k is therefore one and the same for every kernel of a format.
inline constexpr int kSlice = 32;
inline constexpr int kSliceBytes = 512;

// Read once: past L1. Not .nc, which the assembler moves behind wait_for_previous().
__device__ __forceinline__ uint4 load_weight16(const std::byte* at) {
  uint4 v;
  asm volatile("ld.global.L1::no_allocate.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(at));
  return v;
}

template <int kCount>
__device__ __forceinline__ void load_words(const std::byte* at, uint32_t* words) {
  if constexpr (kCount % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      const uint4 v = load_weight16(at + i * 4);
      words[i] = v.x;
      words[i + 1] = v.y;
      words[i + 2] = v.z;
      words[i + 3] = v.w;
    }
  } else if constexpr (kCount == 2) {
    asm volatile("ld.global.L1::no_allocate.v2.u32 {%0,%1}, [%2];"
                 : "=r"(words[0]), "=r"(words[1])
                 : "l"(at));
  } else {
    asm volatile("ld.global.L1::no_allocate.u32 %0, [%1];" : "=r"(words[0]) : "l"(at));
  }
}

// cp.async of what one lane will read itself; kBytes 4, 8 or 16.
template <int kBytes>
__device__ __forceinline__ void copy_async(uint32_t to, const std::byte* from) {
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(to), "l"(from)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(kBytes)
                 : "memory");
  }
}

// Asks for `bytes` (a multiple of 16) to be brought into the L2 cache.
__device__ __forceinline__ void prefetch_l2(const std::byte* from, int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
#endif
}

// The A fragment of one m16n8k16: rows r and r + 8, first and second pair of k.
struct Fragment {
  uint32_t a0, a1, a2, a3;
};

// A format has: kStepSlices slices a pipeline step; kLoads 16-byte loads and kScales 4-byte loads
// of a lane for one tile's step; steps(): steps of the first `chunk` chunks; Cursor: where a lane
// reads, into registers (load) or its own part of shared memory (copy);
// fragment(): the product operand of half a slice of a step; kTokenSums: add_scaled() needs the
// sums of the tokens' values.
template <class ElementType>
struct FloatFormat {
  using Element = ElementType;
  static constexpr int kStepSlices = 1;
  static constexpr int kLoads = 2;
  static constexpr int kScales = 0;
  static constexpr int kGroups = 0;
  static constexpr bool kInteger = false;
  static constexpr bool kTokenSums = false;

  static __device__ __forceinline__ int steps(const PackedLayout& layout, int chunk) {
    return min(chunk * (kChunk / kSlice), layout.padded_cols / kSlice);
  }

  struct Cursor {
    const std::byte* row;
    int64_t half_tile;  // bytes from row r to row r + 8

    __device__ __forceinline__ Cursor(const PackedLayout& layout, const std::byte* weights,
                                      int tile, int lane) {
      const int64_t pitch = int64_t{layout.padded_cols} * 2;
      row = weights + (int64_t{tile} * kTileRows + lane / 4) * pitch + lane % 4 * 16;
      half_tile = 8 * pitch;
    }
    __device__ __forceinline__ void load(int step, uint4* loads, uint32_t*) const {
      loads[0] = load_weight16(row + step * 64);
      loads[1] = load_weight16(row + half_tile + step * 64);
    }
    // To `to`, `to` + 512: the lane's place in each.
    __device__ __forceinline__ void copy(int step, uint32_t to, uint32_t) const {
      copy_async<16>(to, row + step * 64);
      copy_async<16>(to + kLoadBytes, row + half_tile + step * 64);
    }
  };

  static __device__ __forceinline__ Fragment fragment(const uint4* loads, int, int half) {
    return half == 0 ? Fragment{loads[0].x, loads[1].x, loads[0].y, loads[1].y}
                     : Fragment{loads[0].z, loads[1].z, loads[0].w, loads[1].w};
  }
};

// Bytes {0, 2} or, `odd`, {1, 3} of `word` as two floats of Element times kUnit, denormals
// included: the fields of e4m3 fit those of both 16-bit types.
__device__ __forceinline__ uint32_t expand_fp8(Bf16, uint32_t word, bool odd) {
  const uint32_t sign = (odd ? word : word << 8) & 0x80008000u;
  const uint32_t fields = (odd ? word >> 4 : word << 4) & 0x07f007f0u;
  return Bf16::multiply(sign | fields, 0x7b807b80u);  // 2^120: else products leave float32
}
__device__ __forceinline__ uint32_t expand_fp8(Fp16, uint32_t word, bool odd) {
  const uint32_t sign = (odd ? word : word << 8) & 0x80008000u;
  return sign | ((odd ? word >> 1 : word << 7) & 0x3f803f80u);
}

// Row-major bytes in the order of fp8_position(); the sums are scaled once, at the end.
template <class ElementType>
struct Fp8Format {
  using Element = ElementType;
  static constexpr int kStepSlices = 2;
  static constexpr int kLoads = 2;
  static constexpr int kScales = 0;
  static constexpr int kGroups = 0;
  static constexpr bool kInteger = true;  // products are unscaled
  static constexpr bool kTokenSums = false;
  static constexpr int kPlanes = 2;
  static constexpr float kUnit = std::is_same_v<ElementType, Fp16> ? 0x1p-8f : 1.0f;

  static __device__ __forceinline__ int steps(const PackedLayout&, int chunk) {
    return chunk * (kChunk / (kStepSlices * kSlice));
  }

  struct Cursor {
    const std::byte* row;
    const std::byte* scales;
    int64_t half_tile;  // bytes from row r to row r + 8

    __device__ __forceinline__ Cursor(const PackedLayout& layout, const std::byte* weights,
                                      int tile, int lane) {
      const TileRow at{tile, lane / 4};
      row = weights + fp8_place(layout, at, 0) + lane % 4 * 16;
      scales = weights + fp8_scale_place(layout, at);
      half_tile = int64_t{8} * layout.padded_cols;
    }
    __device__ __forceinline__ void load(int step, uint4* loads, uint32_t*) const {
      loads[0] = load_weight16(row + step * 64);
      loads[1] = load_weight16(row + half_tile + step * 64);
    }
    __device__ __forceinline__ void copy(int step, uint32_t to, uint32_t) const {
      copy_async<16>(to, row + step * 64);
      copy_async<16>(to + kLoadBytes, row + half_tile + step * 64);
    }
    __device__ __forceinline__ void load_row(uint32_t* words) const {
      load_words<1>(scales, words);
      load_words<1>(scales + 32, words + 1);
    }
  };

  static __device__ __forceinline__ Fragment fragment(const uint4* loads, int slice, int half) {
    const auto word = [&](const uint4& v) {
      return slice == 0 ? (half == 0 ? v.x : v.y) : (half == 0 ? v.z : v.w);
    };
    const uint32_t low = word(loads[0]);
    const uint32_t high = word(loads[1]);
    const ElementType e;
    return {expand_fp8(e, low, false), expand_fp8(e, high, false), expand_fp8(e, low, true),
            expand_fp8(e, high, true)};
  }

  static __device__ __forceinline__ void add_scaled(const uint32_t* words,
                                                    const float (&products)[4], const float (&)[4],
                                                    float (&acc)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      acc[i] = __uint_as_float(words[i / 2]) * (1.0f / kUnit) * products[i];
    }
  }
};

// Bytes (low, high) of `word` as two floats of Element, q in [-128, 127].
__device__ __forceinline__ uint32_t expand_int8(Bf16, uint32_t word, uint32_t selector) {
  const uint32_t pair = __byte_perm(word, 0, selector);
  // 128 + low seven bits, less 128, or 256 where the sign bit is set.
  return Bf16::subtract((pair & 0x007f007fu) | 0x43004300u, (pair & 0x00800080u) | 0x43004300u);
}

__device__ __forceinline__ uint32_t expand_int8(Fp16, uint32_t word, uint32_t selector) {
  const uint32_t pair = __byte_perm(word ^ 0x80808080u, 0, selector);
  return Fp16::subtract(pair | 0x64006400u, 0x64806480u);  // 1024 + u, less 1024 + 128
}

template <class ElementType>
struct Int8Fragments {
  static constexpr int kLoads = 4;
  static constexpr float kShift = 0.0f;           // fragment - stored value
  static constexpr float kZero = 0.0f;            // stored value of zero without minimum
  static constexpr float kMinimumZero = -128.0f;  // and with minimum

  static __device__ __forceinline__ Fragment fragment(const uint4* loads, int slice, int half) {
    const uint4 v = loads[slice];
    const uint32_t low = half == 0 ? v.x : v.y;
    const uint32_t high = half == 0 ? v.z : v.w;
    const ElementType e;
    return {expand_int8(e, low, 0x4140), expand_int8(e, high, 0x4140), expand_int8(e, low, 0x4342),
            expand_int8(e, high, 0x4342)};
  }
};

// The products are those of 128 + u (float16: 1024 + u), which takes no subtraction a weight.
template <class ElementType>
struct Int4Fragments {
  static constexpr int kLoads = 2;
  static constexpr float kShift = ElementType::kNibbleShift;
  static constexpr float kZero = 8.0f;
  static constexpr float kMinimumZero = 0.0f;

  static __device__ __forceinline__ uint32_t expand(uint32_t word) {
    // One instruction; left alone the compiler makes two of (word & mask) | bias.
    uint32_t pair;
    asm("lop3.b32 %0, %1, 0x000f000f, %2, 0xea;"
        : "=r"(pair)
        : "r"(word), "n"(ElementType::kNibbleBias));
    return pair;
  }
  static __device__ __forceinline__ Fragment fragment(const uint4* loads, int slice, int half) {
    const uint4 v = loads[slice / 2];
    const uint32_t word = slice % 2 == 0 ? (half == 0 ? v.x : v.y) : (half == 0 ? v.z : v.w);
    return {expand(word), expand(word >> 4), expand(word >> 8), expand(word >> 12)};
  }
};

// kChunkGroups: groups of a chunk (1, 2, 4), 0 per channel.
template <class ElementType, template <class> class Fragments, int kChunkGroups, bool kHasMinimum>
struct IntegerFormat {
  using Element = ElementType;
  using Values = Fragments<ElementType>;
  static constexpr int kStepSlices = kChunk / kSlice;
  static constexpr int kLoads = Values::kLoads;
  static constexpr int kGroups = kChunkGroups;
  static constexpr bool kInteger = true;
  static constexpr bool kMinimum = kHasMinimum;
  static constexpr int kPlanes = kMinimum ? 2 : 1;
  static constexpr int kScales = kGroups * kPlanes;
  // What the product operand holds where the weight (without its minimum) is zero.
  static constexpr float kOffset =
      Values::kShift + (kMinimum ? Values::kMinimumZero : Values::kZero);
  static constexpr bool kTokenSums = kMinimum || kOffset != 0.0f;

  static __device__ __forceinline__ int steps(const PackedLayout&, int chunk) { return chunk; }

  static __device__ __forceinline__ Fragment fragment(const uint4* loads, int slice, int half) {
    return Values::fragment(loads, slice, half);
  }

  struct Cursor {
    const std::byte* values;
    const std::byte* scales;

    __device__ __forceinline__ Cursor(const PackedLayout& layout, const std::byte* weights,
                                      int tile, int lane) {
      const int64_t chunk = int64_t{tile} * layout.chunks;
      values = weights + chunk * (kLoads * kLoadBytes) + lane * 16;
      const int64_t row = (kGroups == 0 ? int64_t{tile} : chunk) * 8;
      const int words = kGroups == 0 ? kPlanes : kScales;
      // A chunk's words are [8 rows][words].
      scales = weights + layout.scale_offset + (row + lane / 4) * words * 4;
    }
    __device__ __forceinline__ void load(int step, uint4* loads, uint32_t* words) const {
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        loads[i] = load_weight16(values + int64_t{step} * (kLoads * kLoadBytes) + i * kLoadBytes);
      }
      load_words<kScales>(scales + int64_t{step} * (8 * kScales * 4), words);
    }
    // To `to` + 512 i, the words behind them: the lane's 16 * max(1, words / 4) bytes each.
    __device__ __forceinline__ void copy(int step, uint32_t to, uint32_t words_to) const {
      const std::byte* from = values + int64_t{step} * (kLoads * kLoadBytes);
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        copy_async<16>(to + i * kLoadBytes, from + i * kLoadBytes);
      }
      const std::byte* words = scales + int64_t{step} * (8 * kScales * 4);
      if constexpr (kScales == 8) {
        copy_async<16>(words_to, words);
        copy_async<16>(words_to + kLoadBytes, words + 16);
      } else if constexpr (kScales > 0) {
        copy_async<kScales * 4>(words_to, words);
      }
    }
    // The row's scale (and minimum) where there are no groups.
    __device__ __forceinline__ void load_row(uint32_t* words) const {
      load_words<kPlanes>(scales, words);
    }
  };

  // acc += scale * (products - offset * token_sums) + minimum * token_sums, with the words of one
  // group.
  static __device__ __forceinline__ void add_scaled(const uint32_t* words,
                                                    const float (&products)[4],
                                                    const float (&token_sums)[4], float (&acc)[4]) {
    const float2 scale = Fp16::unpack(words[0]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float product = products[i];
      if constexpr (kOffset != 0.0f) {
        product = fmaf(-kOffset, token_sums[i], product);
      }
      acc[i] = fmaf(i < 2 ? scale.x : scale.y, product, acc[i]);
      if constexpr (kMinimum) {
        const float2 minimum = Fp16::unpack(words[1]);
        acc[i] = fmaf(i < 2 ? minimum.x : minimum.y, token_sums[i], acc[i]);
      }
    }
  }
};

}  // namespace zonda::kernels::cuda
