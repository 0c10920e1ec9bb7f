// What one instruction set supplies for one weight format, and the loop nest that drives it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm/linear.h"
#include "kernels/gemm/panel_layout.h"

namespace zonda::kernels {

// Activations of a tile of tokens, in the order the inner loop reads them.
//   integer weights: q [k / 4][tokens][planes][4] int8, then (each 64-byte aligned)
//                    scale [groups][tokens] float, offset [groups][tokens] int32 = -zero_point *
//                    sum(q), weight_sum [groups][tokens] float = scale * sum(q)
//   float weights:   [k][tokens] float
//   kPairs:          [k / 2][tokens][2] bfloat16
//   kBf16Tiles, kByteTiles: as tiles of 16 tokens, see linear_amx.cc
struct TileArgs {
  const float* x = nullptr;  // first token of the tile, row stride x_stride
  int64_t x_stride = 0;
  int64_t cols = 0;
  int tokens = 0;
  const PanelLayout* layout = nullptr;
  std::byte* out = nullptr;  // 64-byte aligned, tile_bytes(...)
};

// sums[panel][token][16] += weights * activations for k in [k_begin, k_end).
struct AccumulateArgs {
  const std::byte* weights = nullptr;  // first panel
  int64_t panel_stride = 0;            // bytes
  int64_t k_origin = 0;                // k of the first block stored at weights
  int64_t k_begin = 0;
  int64_t k_end = 0;
  const PanelLayout* layout = nullptr;  // strides of `weights`
  const std::byte* activations = nullptr;
  int tokens = 0;
  int panels = 0;
  float* sums = nullptr;
  int64_t sums_stride = 0;  // floats from one panel's sums to the next
};

// Writes k in [k_begin, k_end) of one panel in the form that accumulate_unpacked reads.
struct UnpackArgs {
  const std::byte* panel = nullptr;
  const PanelLayout* from = nullptr;
  const PanelLayout* to = nullptr;
  int64_t k_begin = 0;
  int64_t k_end = 0;
  std::byte* out = nullptr;
};

// Turns finished sums of a tile into y.
struct FinishArgs {
  const LinearParams* params = nullptr;
  const float* sums = nullptr;
  int64_t sums_stride = 0;  // floats between panels
  int64_t first_panel = 0;
  int panels = 0;  // even for a gated epilogue
  int64_t first_token = 0;
  int tokens = 0;
};

enum class ActivationKind : uint8_t { kFloat, kPairs, kBytes, kBytePlanes, kBf16Tiles, kByteTiles };

// One tactic: functions and the shape of the loop nest around them.
struct LinearKernel {
  ActivationKind activations;
  int tile_tokens;  // most tokens accumulate takes at once
  int panels;       // panels it takes at once: as many read streams
  int64_t k_block;  // values of k between changes of panel; multiple of 128
  bool unpacks;     // accumulate reads unpacked panels
  void (*prepare)(const TileArgs& args);
  void (*unpack)(const UnpackArgs& args);
  void (*accumulate)(const AccumulateArgs& args);
  void (*finish)(const FinishArgs& args);
  // Around a thread's share of the work, or null: registers that need to be set up.
  void (*begin)() = nullptr;
  void (*end)() = nullptr;
};

// Parts of an integer tile; all follow each other in this order. Always inlined: an instruction
// set's copy of a shared function must never become the one that other files call.
struct IntegerTile {
  int64_t scale_offset;
  int64_t offset_offset;
  int64_t weight_sum_offset;
  int64_t bytes;
};

[[gnu::always_inline]] constexpr int64_t align64(int64_t value) {
  return (value + 63) & ~int64_t{63};
}

[[gnu::always_inline]] constexpr IntegerTile integer_tile(int64_t k, int64_t groups, int tokens,
                                                          int planes) {
  const int64_t part = align64(groups * tokens * 4);
  const int64_t values = align64(k * tokens * planes);
  return {values, values + part, values + 2 * part, values + 3 * part};
}

void run_linear(const LinearKernel& kernel, const LinearParams& params, device::Stream& stream);

// Tactics of one instruction set, as constant data: asking which there are must not run code that
// was compiled for it. A format that it adds nothing to is empty, and so is everything when this
// build lacks it.
struct TacticList {
  const LinearTactic* first = nullptr;
  size_t count = 0;
};
struct TacticTable {
  TacticList float32, float16, bfloat16, int8, int4;
};
inline constexpr int64_t kManyTokens = int64_t{1} << 40;
template <size_t kCount>
[[gnu::always_inline]] constexpr TacticList list_of(const LinearTactic (&tactics)[kCount]) {
  return {tactics, kCount};
}
extern const TacticTable kAvx2Tactics;
extern const TacticTable kAvx512Tactics;
extern const TacticTable kAvx512Bf16Tactics;
extern const TacticTable kAmxTactics;

}  // namespace zonda::kernels
