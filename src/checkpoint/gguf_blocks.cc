// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/gguf_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "base/error.h"

namespace zonda::checkpoint {
namespace {

constexpr std::array kTypes = {
    GgmlTypeInfo{GgmlType::kF32, "F32", 1, 4},
    GgmlTypeInfo{GgmlType::kF16, "F16", 1, 2},
    GgmlTypeInfo{GgmlType::kBF16, "BF16", 1, 2},
    GgmlTypeInfo{GgmlType::kQ4_0, "Q4_0", 32, 18},
    GgmlTypeInfo{GgmlType::kQ4_1, "Q4_1", 32, 20},
    GgmlTypeInfo{GgmlType::kQ5_0, "Q5_0", 32, 22},
    GgmlTypeInfo{GgmlType::kQ5_1, "Q5_1", 32, 24},
    GgmlTypeInfo{GgmlType::kQ8_0, "Q8_0", 32, 34},
    GgmlTypeInfo{GgmlType::kQ4_K, "Q4_K", 256, 144},
    GgmlTypeInfo{GgmlType::kQ5_K, "Q5_K", 256, 176},
    GgmlTypeInfo{GgmlType::kQ6_K, "Q6_K", 256, 210},
};

struct OtherType {
  uint32_t number;
  std::string_view name;
};
constexpr std::array kOtherTypes = {
    OtherType{9, "Q8_1"},     OtherType{10, "Q2_K"},    OtherType{11, "Q3_K"},
    OtherType{15, "Q8_K"},    OtherType{16, "IQ2_XXS"}, OtherType{17, "IQ2_XS"},
    OtherType{18, "IQ3_XXS"}, OtherType{19, "IQ1_S"},   OtherType{20, "IQ4_NL"},
    OtherType{21, "IQ3_S"},   OtherType{22, "IQ2_S"},   OtherType{23, "IQ4_XS"},
    OtherType{24, "I8"},      OtherType{25, "I16"},     OtherType{26, "I32"},
    OtherType{27, "I64"},     OtherType{28, "F64"},     OtherType{29, "IQ1_M"},
    OtherType{34, "TQ1_0"},   OtherType{35, "TQ2_0"},   OtherType{39, "MXFP4"},
};

uint16_t read_u16(const uint8_t* bytes) {
  uint16_t value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}
uint32_t read_u32(const uint8_t* bytes) {
  uint32_t value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}
float read_f16(const uint8_t* bytes) { return f16_to_float(read_u16(bytes)); }

// A block of 32 values as integers u >= 0: w = d * (u - offset), or d * u + m.
struct SmallBlock {
  uint16_t d = 0;
  uint16_t m = 0;  // Q4_1 and Q5_1 only
  std::array<uint8_t, 32> u{};
};

// What u - offset means; 0 for the types that carry their own minimum.
int block_offset(GgmlType type) {
  switch (type) {
    case GgmlType::kQ4_0:
      return 8;
    case GgmlType::kQ5_0:
      return 16;
    case GgmlType::kQ8_0:
      return 128;
    default:
      return 0;
  }
}

// Low nibbles are values 0..15, high nibbles 16..31; `high` has bit i for value i.
void read_nibbles(const uint8_t* nibbles, uint32_t high, SmallBlock& block) {
  for (size_t i = 0; i < 16; ++i) {
    block.u[i] = static_cast<uint8_t>((nibbles[i] & 0x0fu) | (((high >> i) & 1u) << 4));
    block.u[i + 16] = static_cast<uint8_t>((nibbles[i] >> 4) | (((high >> (i + 16)) & 1u) << 4));
  }
}

SmallBlock read_small_block(GgmlType type, const uint8_t* bytes) {
  SmallBlock block;
  block.d = read_u16(bytes);
  switch (type) {
    case GgmlType::kQ4_0:
      read_nibbles(bytes + 2, 0, block);
      break;
    case GgmlType::kQ4_1:
      block.m = read_u16(bytes + 2);
      read_nibbles(bytes + 4, 0, block);
      break;
    case GgmlType::kQ5_0:
      read_nibbles(bytes + 6, read_u32(bytes + 2), block);
      break;
    case GgmlType::kQ5_1:
      block.m = read_u16(bytes + 2);
      read_nibbles(bytes + 8, read_u32(bytes + 4), block);
      break;
    case GgmlType::kQ8_0:
      for (size_t i = 0; i < 32; ++i) {
        block.u[i] = static_cast<uint8_t>(bytes[2 + i] + 128u);
      }
      break;
    default:
      CHECK(false);
  }
  return block;
}

void dequantize_small(GgmlType type, const uint8_t* bytes, float* out) {
  const SmallBlock block = read_small_block(type, bytes);
  const float d = f16_to_float(block.d);
  const float m = f16_to_float(block.m);
  const int offset = block_offset(type);
  for (size_t i = 0; i < 32; ++i) {
    const float scaled = d * static_cast<float>(int{block.u[i]} - offset);
    out[i] = offset == 0 ? scaled + m : scaled;
  }
}

// The 6-bit scale and minimum of sub-block j (of 8) in the 12 bytes of Q4_K and Q5_K.
struct SubScale {
  uint8_t scale;
  uint8_t minimum;
};
SubScale read_sub_scale(const uint8_t* packed, size_t j) {
  if (j < 4) {
    return {static_cast<uint8_t>(packed[j] & 63), static_cast<uint8_t>(packed[j + 4] & 63)};
  }
  return {static_cast<uint8_t>((packed[j + 4] & 0x0f) | ((packed[j - 4] >> 6) << 4)),
          static_cast<uint8_t>((packed[j + 4] >> 4) | ((packed[j] >> 6) << 4))};
}

// Q4_K: d, dmin, scales[12], quants[128]. Q5_K: d, dmin, scales[12], high[32], quants[128];
// sub-block j takes bit j of the high bytes.
void dequantize_q45_k(const uint8_t* bytes, bool five_bits, float* out) {
  const float d = read_f16(bytes);
  const float dmin = read_f16(bytes + 2);
  const uint8_t* high = bytes + 16;
  const uint8_t* quants = bytes + (five_bits ? 48 : 16);
  for (size_t j = 0; j < 8; ++j) {
    const SubScale sub = read_sub_scale(bytes + 4, j);
    const float scale = d * static_cast<float>(sub.scale);
    const float minimum = dmin * static_cast<float>(sub.minimum);
    for (size_t i = 0; i < 32; ++i) {
      const uint8_t pair = quants[(j / 2) * 32 + i];
      int q = j % 2 == 0 ? pair & 0x0f : pair >> 4;
      q += five_bits ? ((high[i] >> j) & 1) << 4 : 0;
      out[j * 32 + i] = scale * static_cast<float>(q) - minimum;
    }
  }
}

// Q6_K: low[128], high[64], scales[16] int8, d. Each half of 128 values is four runs of 32.
void dequantize_q6_k(const uint8_t* bytes, float* out) {
  const float d = read_f16(bytes + 208);
  for (size_t half = 0; half < 2; ++half) {
    const uint8_t* low = bytes + half * 64;
    const uint8_t* high = bytes + 128 + half * 32;
    const uint8_t* scales = bytes + 192 + half * 8;
    for (size_t run = 0; run < 4; ++run) {
      for (size_t i = 0; i < 32; ++i) {
        const uint8_t pair = low[(run % 2) * 32 + i];
        const int nibble = run < 2 ? pair & 0x0f : pair >> 4;
        const int q = (nibble | (((high[i] >> (2 * run)) & 3) << 4)) - 32;
        const auto scale = static_cast<int8_t>(scales[run * 2 + i / 16]);
        out[half * 128 + run * 32 + i] = d * static_cast<float>(scale) * static_cast<float>(q);
      }
    }
  }
}

void dequantize_one(GgmlType type, const uint8_t* bytes, float* out) {
  switch (type) {
    case GgmlType::kF32:
      std::memcpy(out, bytes, 4);
      return;
    case GgmlType::kF16:
      *out = read_f16(bytes);
      return;
    case GgmlType::kBF16:
      *out = bf16_to_float(read_u16(bytes));
      return;
    case GgmlType::kQ4_K:
    case GgmlType::kQ5_K:
      dequantize_q45_k(bytes, type == GgmlType::kQ5_K, out);
      return;
    case GgmlType::kQ6_K:
      dequantize_q6_k(bytes, out);
      return;
    default:
      dequantize_small(type, bytes, out);
  }
}

// -offset * d in float16; nullopt if that overflows. A power of two times d is exact otherwise.
std::optional<uint16_t> implied_minimum(uint16_t d, int offset) {
  const float minimum = -static_cast<float>(offset) * f16_to_float(d);
  const uint16_t bits = float_to_f16(minimum);
  if (std::isfinite(f16_to_float(d)) && !std::isfinite(f16_to_float(bits))) {
    return std::nullopt;
  }
  return bits;
}

// The integer stored for u: type has its own zero point.
uint8_t stored_integer(const WeightType& type, int u, int offset) {
  if (type.has_minimum) {
    return static_cast<uint8_t>(u);
  }
  return static_cast<uint8_t>(type.format == WeightFormat::kInt4 ? u - offset + 8 : u - offset);
}

}  // namespace

const GgmlTypeInfo* find_ggml_type(uint32_t number) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(), [&](const GgmlTypeInfo& info) {
    return static_cast<uint32_t>(info.type) == number;
  });
  return found == kTypes.end() ? nullptr : found;
}

const GgmlTypeInfo& ggml_type_info(GgmlType type) {
  const GgmlTypeInfo* found = find_ggml_type(static_cast<uint32_t>(type));
  CHECK(found != nullptr);
  return *found;
}

std::string ggml_type_name(uint32_t number) {
  if (const GgmlTypeInfo* found = find_ggml_type(number)) {
    return std::string(found->name);
  }
  for (const OtherType& other : kOtherTypes) {
    if (other.number == number) {
      return std::string(other.name);
    }
  }
  return fmt::format("number {}", number);
}

void dequantize_blocks(GgmlType type, const std::byte* blocks, int64_t values, float* out) {
  const GgmlTypeInfo& info = ggml_type_info(type);
  CHECK(values % info.block_values == 0);
  const auto* bytes = reinterpret_cast<const uint8_t*>(blocks);
  for (int64_t done = 0; done < values; done += info.block_values) {
    dequantize_one(type, bytes, out + done);
    bytes += info.block_bytes;
  }
}

std::optional<WeightType> exact_weight_type(GgmlType type, int64_t rows, int64_t cols) {
  WeightType exact{.rows = rows, .cols = cols, .group_size = 32};
  switch (type) {
    case GgmlType::kQ4_0:
    case GgmlType::kQ4_1:
      exact.format = WeightFormat::kInt4;
      break;
    case GgmlType::kQ5_0:
    case GgmlType::kQ5_1:
    case GgmlType::kQ8_0:
      exact.format = WeightFormat::kInt8;
      break;
    default:
      return std::nullopt;
  }
  exact.has_minimum = type == GgmlType::kQ4_1 || type == GgmlType::kQ5_1;
  return exact;
}

WeightType join_exact_types(const WeightType& a, const WeightType& b) {
  CHECK(a.cols == b.cols && a.group_size == b.group_size);
  WeightType joined = a;
  joined.rows = a.rows + b.rows;
  joined.format = a.format == b.format ? a.format : WeightFormat::kInt8;
  joined.has_minimum = a.has_minimum || b.has_minimum;
  return joined;
}

Result<void> repack_blocks(GgmlType source, const std::byte* blocks, const WeightType& type,
                           const RepackedRow& out) {
  const GgmlTypeInfo& info = ggml_type_info(source);
  const int offset = block_offset(source);
  CHECK(type.cols % 32 == 0 && type.group_size == 32);
  const auto* bytes = reinterpret_cast<const uint8_t*>(blocks);
  for (int64_t group = 0; group < type.cols / 32; ++group, bytes += info.block_bytes) {
    const SmallBlock block = read_small_block(source, bytes);
    out.scales[group] = block.d;
    if (type.has_minimum) {
      const std::optional<uint16_t> minimum =
          offset == 0 ? block.m : implied_minimum(block.d, offset);
      if (!minimum) {
        return unsupported("[gguf] {} block scale {} times -{} overflows float16.", info.name,
                           f16_to_float(block.d), offset);
      }
      out.minima[group] = *minimum;
    }
    if (type.format == WeightFormat::kInt8) {
      for (size_t i = 0; i < 32; ++i) {
        out.data[group * 32 + static_cast<int64_t>(i)] = stored_integer(type, block.u[i], offset);
      }
      continue;
    }
    for (size_t i = 0; i < 16; ++i) {
      const uint8_t low = stored_integer(type, block.u[2 * i], offset);
      const uint8_t high = stored_integer(type, block.u[2 * i + 1], offset);
      out.data[group * 16 + static_cast<int64_t>(i)] = static_cast<uint8_t>(low | (high << 4));
    }
  }
  return {};
}

}  // namespace zonda::checkpoint
