// The block formats of GGUF tensors: sizes, exact values as ggml defines them, and exact repacking
// into the integer formats of a checkpoint.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/weight_format.h"
#include "zonda/error.h"

namespace zonda::checkpoint {

// Numbers are those of the file format.
enum class GgmlType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
};

struct GgmlTypeInfo {
  GgmlType type;
  std::string_view name;  // "Q4_K"
  int64_t block_values;   // of a row
  int64_t block_bytes;
};

// Null for a type this build does not read.
const GgmlTypeInfo* find_ggml_type(uint32_t number);
const GgmlTypeInfo& ggml_type_info(GgmlType type);
// "IQ4_NL" for types that are known but not read, "number 99" otherwise.
std::string ggml_type_name(uint32_t number);

// `values` of one row, a multiple of block_values, to float32; as ggml computes them.
void dequantize_blocks(GgmlType type, const std::byte* blocks, int64_t values, float* out);

// How a block format is stored without any change of its values; nullopt for K-quants. group_size
// is
// 32. Q4_0: int4. Q4_1: int4 with minimum. Q5_0, Q8_0: int8. Q5_1: int8 with minimum.
std::optional<WeightType> exact_weight_type(GgmlType type, int64_t rows, int64_t cols);

// The narrowest type of groups of 32 that holds both without change; both are exact_weight_types.
// A Q4_0 row fits int4 with minimum as m = -8 d, and so on: float16 holds that unless it overflows.
WeightType join_exact_types(const WeightType& a, const WeightType& b);

// Destination of repack_blocks; shapes as in WeightView for one row.
struct RepackedRow {
  uint8_t* data = nullptr;
  uint16_t* scales = nullptr;
  uint16_t* minima = nullptr;  // null without minimum
};
// One row of `type.cols` values into `type`, which is the row's exact type or a join of it with
// others. kUnsupported if a minimum that has to be computed overflows float16; `type.cols` is a
// multiple of 32.
Result<void> repack_blocks(GgmlType source, const std::byte* blocks, const WeightType& type,
                           const RepackedRow& out);

}  // namespace zonda::checkpoint
