// Linear kernels for AMX: bfloat16 on tiles for any number of tokens; int8 and int4 on tiles beside
// the VNNI tactics, whose integer sums they equal. Packed blocks are tiles as they lie.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/cpu/linear_generic.h"

#if defined(__AMX_INT8__) && defined(__AMX_BF16__)
#include <algorithm>

#include "kernels/gemm/cpu/amx_tiles.h"
#include "kernels/gemm/cpu/vector_avx512.h"

namespace zonda::kernels {
namespace {

constexpr int kTileRows = 16;
constexpr int64_t kTileBytes = 1024;  // 16 rows of 64 bytes

// ---- bfloat16 ----

constexpr TileConfig bf16_config() {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.set(tile, kTileRows, 64);
  }
  return config;
}
constexpr TileConfig kBf16Config = bf16_config();

void begin_bf16() { load_tile_config(kBf16Config); }

// [token / 16][k / 32][16 tokens][32 k] bfloat16; tokens beyond the last are zero.
void prepare_bf16(const TileArgs& args) {
  const int64_t k_tiles = args.layout->k / 32;
  const int64_t rows = (args.tokens + kTileRows - 1) / kTileRows * kTileRows;
  alignas(64) float padded[32];
  for (int64_t token = 0; token < rows; ++token) {
    std::byte* out = args.out + token / kTileRows * k_tiles * kTileBytes + token % kTileRows * 64;
    for (int64_t tile = 0; tile < k_tiles; ++tile) {
      const int64_t first = tile * 32;
      const bool inside = token < args.tokens && first + 32 <= args.cols;
      const float* values = padded;
      if (inside) {
        values = args.x + token * args.x_stride + first;
      } else {
        for (int64_t i = 0; i < 32; ++i) {
          const bool real = token < args.tokens && first + i < args.cols;
          padded[i] = real ? args.x[token * args.x_stride + first + i] : 0.0f;
        }
      }
      auto* halves = reinterpret_cast<__m256i*>(out + tile * kTileBytes);
      _mm256_storeu_si256(halves, Avx512::to_bf16(Avx512::load(values)));
      _mm256_storeu_si256(halves + 1, Avx512::to_bf16(Avx512::load(values + 16)));
    }
  }
}

// Calls body with the compile-time numbers 0 .. kCount - 1.
template <int kCount, typename Body>
[[gnu::always_inline]] inline void unrolled(Body&& body) {
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) __attribute__((always_inline)) {
    (body(std::integral_constant<int, kIndex>{}), ...);
  }
  (std::make_integer_sequence<int, kCount>{});
}

// M tiles of tokens by P panels. Tiles 0-3 are sums, 4-5 activations, 6-7 weights.
template <int M, int P>
void accumulate_bf16_tiles(const AccumulateArgs& args) {
  static_assert(M * P <= 4 && M <= 2);
  const int64_t k_tiles = args.layout->k / 32;
  const std::byte* a = args.activations + args.k_begin / 32 * kTileBytes;
  const std::byte* w = args.weights + (args.k_begin - args.k_origin) * kPanelRows * 2;
  constexpr int64_t kSumRow = kPanelRows * 4;
  const auto sums = [&](int m, int p) {
    return args.sums + p * args.sums_stride + int64_t{m} * kTileRows * kPanelRows;
  };
  unrolled<M * P>([&](auto i) __attribute__((always_inline)) {
    load_tile<i>(sums(i / P, i % P), kSumRow);
  });
  for (int64_t k = args.k_begin; k < args.k_end; k += 32) {
    unrolled<M>([&](auto m) __attribute__((always_inline)) {
      load_tile<4 + m>(a + m * k_tiles * kTileBytes, 64);
    });
    unrolled<P>([&](auto p) __attribute__((always_inline)) {
      load_tile<6 + p % 2>(w + p * args.panel_stride, 64);
      unrolled<M>([&](auto m) __attribute__((always_inline)) {
        dot_bf16<m * P + decltype(p)::value, 4 + m, 6 + decltype(p)::value % 2>();
      });
    });
    a += kTileBytes;
    w += kTileBytes;
  }
  unrolled<M * P>([&](auto i) __attribute__((always_inline)) {
    store_tile<i>(sums(i / P, i % P), kSumRow);
  });
}

template <int M, int P>
struct Bf16Loop {
  static constexpr int kMaxPanels = M == 1 ? 4 : 2;
  static void run(const AccumulateArgs& args) { accumulate_bf16_tiles<M, P>(args); }
};

template <int kMaxTiles>
void accumulate_bf16(const AccumulateArgs& args) {
  AccumulateArgs tiles = args;
  tiles.tokens = (args.tokens + kTileRows - 1) / kTileRows;
  accumulate_tokens<Bf16Loop, kMaxTiles>(tiles);
}

template <int kMaxTiles, int kPanels, int64_t kK>
constexpr LinearKernel kBf16{.activations = ActivationKind::kBf16Tiles,
                             .tile_tokens = kMaxTiles* kTileRows,
                             .panels = kPanels,
                             .k_block = kK,
                             .unpacks = false,
                             .prepare = prepare_bf16,
                             .unpack = nullptr,
                             .accumulate = accumulate_bf16<kMaxTiles>,
                             .finish = finish<Avx512>,
                             .begin = begin_bf16,
                             .end = release_tiles};

// ---- integers ----

// Tiles 0-1 are dots, 4 and 6 activations and weights of 64 k, 5 and 7 those of 32 k.
constexpr TileConfig integer_config() {
  TileConfig config;
  for (const int tile : {0, 1, 4, 6}) {
    config.set(tile, kTileRows, 64);
  }
  config.set(5, kTileRows, 32);
  config.set(7, kTileRows / 2, 64);
  return config;
}
constexpr TileConfig kIntegerConfig = integer_config();

void begin_integers() { load_tile_config(kIntegerConfig); }

constexpr int64_t padded_k(int64_t k) { return (k + 63) / 64 * 64; }

// Values [k / 64][16 tokens][64 k]; then the parts of integer_tile for 16 tokens.
void prepare_integer_tiles(const TileArgs& args) {
  const PanelLayout& layout = *args.layout;
  const IntegerTile tile = integer_tile(padded_k(layout.k), layout.blocks, kTileRows, 1);
  auto* scales = reinterpret_cast<float*>(args.out + tile.scale_offset);
  auto* offsets = reinterpret_cast<int32_t*>(args.out + tile.offset_offset);
  auto* weight_sums = reinterpret_cast<float*>(args.out + tile.weight_sum_offset);
  __builtin_memset(args.out, 0, static_cast<size_t>(tile.bytes));
  for (int64_t token = 0; token < args.tokens; ++token) {
    const float* x = args.x + token * args.x_stride;
    for (int64_t block = 0; block < layout.blocks; ++block) {
      alignas(64) int8_t q[kMaxGroup];
      const int64_t first = block * layout.block_k;
      const int64_t count = std::min(layout.block_k, layout.k - first);
      const QuantizedGroup group =
          quantize_padded<Avx512, 1>(x + first, args.cols - first, count, q, nullptr);
      for (int64_t i = 0; i < count; i += 32) {
        const int64_t k = first + i;
        std::byte* out = args.out + k / 64 * kTileBytes + token * 64 + k % 64;
        __builtin_memcpy(out, q + i, 32);
      }
      scales[block * kTileRows + token] = group.scale;
      offsets[block * kTileRows + token] = -layout.zero_point * group.sum;
      weight_sums[block * kTileRows + token] = group.scale * static_cast<float>(group.sum);
    }
  }
}

// The dots of 16 tokens with one group of one panel into tile kDots, then to `out`.
template <int kDots>
[[gnu::always_inline]] inline void group_dots(const std::byte* a, const std::byte* w, int64_t k,
                                              int64_t count, int32_t* out) {
  zero_tile<kDots>();
  int64_t i = 0;
  for (; i + 64 <= count; i += 64) {
    load_tile<4>(a + (k + i) / 64 * kTileBytes, 64);
    load_tile<6>(w + i * kPanelRows, 64);
    dot_signed_unsigned<kDots, 4, 6>();
  }
  if (i < count) {
    load_tile<5>(a + (k + i) / 64 * kTileBytes + (k + i) % 64, 64);
    load_tile<7>(w + i * kPanelRows, 64);
    dot_signed_unsigned<kDots, 5, 7>();
  }
  store_tile<kDots>(out, 64);
}

// One panel with 16 tokens. Two groups' tiles are in flight: while one is scaled, the next is
// multiplied.
void accumulate_integer_panel(const AccumulateArgs& args) {
  const PanelLayout& layout = *args.layout;
  const IntegerTile tile = integer_tile(padded_k(layout.k), layout.blocks, kTileRows, 1);
  const auto* offsets = reinterpret_cast<const int32_t*>(args.activations + tile.offset_offset);
  const int64_t stored_first = args.k_origin / layout.block_k;
  alignas(64) int32_t dots[2][kTileRows][kPanelRows];
  __m512 sums[1][kTileRows];
  load_sums<Avx512, kTileRows, 1>(args, sums);
  const auto multiply = [&](int64_t block) __attribute__((always_inline)) {
    const int64_t k = block * layout.block_k;
    const int64_t count = std::min(layout.block_k, args.k_end - k);
    const std::byte* w =
        args.weights + layout.header_bytes + (block - stored_first) * layout.block_stride;
    if (block % 2 == 0) {
      group_dots<0>(args.activations, w, k, count, dots[0][0]);
    } else {
      group_dots<1>(args.activations, w, k, count, dots[1][0]);
    }
  };
  const int64_t end = (args.k_end + layout.block_k - 1) / layout.block_k;
  int64_t block = args.k_begin / layout.block_k;
  multiply(block);
  for (; block < end; ++block) {
    if (block + 1 < end) {
      multiply(block + 1);
    }
    __m512i values[1][kTileRows];
    for (int token = 0; token < kTileRows; ++token) {
      const __m512i dot = _mm512_load_si512(dots[block % 2][token]);
      values[0][token] =
          _mm512_add_epi32(dot, _mm512_set1_epi32(offsets[block * kTileRows + token]));
    }
    add_group<Avx512, kTileRows, 1>(args, block, block - stored_first, tile, values, sums);
  }
  store_sums<Avx512, kTileRows, 1>(args, sums);
}

void accumulate_integer_tiles(const AccumulateArgs& args) {
  AccumulateArgs now = args;
  for (; now.panels > 0; --now.panels) {
    accumulate_integer_panel(now);
    now.weights += now.panel_stride;
    now.sums += now.sums_stride;
  }
}

template <bool kUnpacks>
constexpr LinearKernel kIntegerTiles{.activations = ActivationKind::kByteTiles,
                                     .tile_tokens = kTileRows,
                                     .panels = 2,
                                     .k_block = 1024,
                                     .unpacks = kUnpacks,
                                     .prepare = prepare_integer_tiles,
                                     .unpack = unpack_nibbles<Avx512>,
                                     .accumulate = accumulate_integer_tiles,
                                     .finish = finish<Avx512>,
                                     .begin = begin_integers,
                                     .end = release_tiles};

constexpr int64_t kWholeK = int64_t{1} << 40;
constexpr LinearTactic kBFloat16Tactics[] = {
    {"bfloat16_amx_16x4", 1, 16, run_kernel<kBf16<1, 4, kWholeK>>},
    {"bfloat16_amx_32x2", 17, kManyTokens, run_kernel<kBf16<2, 2, 1024>>},
};

constexpr LinearTactic kInt8Tactics[] = {
    {"int8_amx_16x2", 12, kManyTokens, run_kernel<kIntegerTiles<false>>},
};
constexpr LinearTactic kInt4Tactics[] = {
    {"int4_amx_unpack_16x2", 16, kManyTokens, run_kernel<kIntegerTiles<true>>},
};

}  // namespace

constinit const TacticTable kAmxTactics{.float32 = {},
                                        .float16 = {},
                                        .bfloat16 = list_of(kBFloat16Tactics),
                                        .int8 = list_of(kInt8Tactics),
                                        .int4 = list_of(kInt4Tactics)};

}  // namespace zonda::kernels
#else
namespace zonda::kernels {
constinit const TacticTable kAmxTactics{};
}  // namespace zonda::kernels
#endif
