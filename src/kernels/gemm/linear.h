// y = x * W^T for weights packed once into 16-row panels; the tactics of one weight format share
// the packed copy. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/weight_format.h"
#include "device/stream.h"

namespace zonda::kernels {

// Rows of one panel: lane r of a vector register is output row r, so there are no horizontal sums.
inline constexpr int64_t kPanelRows = 16;

// How the rows of up to three source matrices become panels.
enum class RowOrder : uint8_t {
  kStacked,      // all rows of source 0, then of source 1, ...; together padded to a multiple of 16
                 // with zero rows
  kInterleaved,  // two sources of equal shape: panel 2i holds rows [16i, 16i + 16) of source 0,
                 // panel 2i + 1 of source 1
};

// A packed matrix: what packing produces and a plan stores. `type.rows` counts the real rows of all
// sources together.
struct PackedType {
  WeightType type;
  RowOrder order = RowOrder::kStacked;
  friend bool operator==(const PackedType&, const PackedType&) = default;
};

// Bytes of the packed matrix; a multiple of 64. Independent of the instruction set.
int64_t packed_bytes(const PackedType& packed);
// Packs panel by panel. All sources have the format, cols, group_size and has_minimum of
// packed.type; `out` is 64-byte aligned and has packed_bytes(packed). kInvalidArgument names the
// differing field.
Result<void> pack_weights(const PackedType& packed, std::span<const WeightView> sources,
                          std::byte* out);

// What happens to a finished output value.
enum class Epilogue : uint8_t {
  kStore,        // y = acc (+ bias)
  kAddResidual,  // y = residual + acc (+ bias); residual may alias y
  kGatedSilu,  // interleaved order: y = silu(a) * b for the pair a (source 0), b (source 1); y has
               // rows / 2 columns
  kGatedGeluTanh,
};

struct LinearParams {
  const float* x = nullptr;            // [num_tokens, cols], row stride x_stride floats
  const std::byte* weights = nullptr;  // packed_bytes(packed), 64-byte aligned
  const float* bias = nullptr;  // [rows] in source row order (source 0, then source 1), or null
  const float* residual =
      nullptr;  // [num_tokens, y columns], row stride y_stride; kAddResidual only
  float* y =
      nullptr;  // [num_tokens, rows or rows / 2], row stride y_stride floats; must not alias x
  std::byte* workspace = nullptr;  // linear_workspace_bytes(...), 64-byte aligned
  int64_t num_tokens = 0;
  int64_t x_stride = 0;
  int64_t y_stride = 0;
  PackedType packed;
  Epilogue epilogue = Epilogue::kStore;
};

// Scratch for quantised activations and unpacked panels with up to max_tokens tokens and `threads`
// threads.
int64_t linear_workspace_bytes(const PackedType& packed, int64_t max_tokens, int threads);

// One way to compute a linear. All tactics of one PackedType and instruction set give bit-equal
// results for a token, whatever the number of tokens and threads: each output adds along K in one
// order.
struct LinearTactic {
  std::string_view
      name;  // "gemv_q4_p4", "gemm_q4_4x3", "reference"; unique within the list; stored in plans
  int64_t min_tokens = 1;  // meant for this range of num_tokens; correct for any
  int64_t max_tokens = 0;
  void (*run)(const LinearParams& params, device::Stream& stream) = nullptr;
};

// The tactics for this format on this instruction set, never empty; the first one is a sound
// default for few tokens.
std::span<const LinearTactic> linear_tactics(const WeightType& type, device::CpuIsa isa);
// The tactic to take without timing.
const LinearTactic& default_linear_tactic(const WeightType& type, device::CpuIsa isa,
                                          int64_t num_tokens);

// The plain oracle: the arithmetic that `isa` defines (kinds of activation rounding), one loop a
// dimension.
void linear_reference(const LinearParams& params, device::CpuIsa isa);

// Writes row `row` (stacked order) of a packed matrix as float32 [cols]: embedding lookup from a
// tied, packed table.
void unpack_row(const PackedType& packed, const std::byte* weights, int64_t row, float* out);

}  // namespace zonda::kernels
