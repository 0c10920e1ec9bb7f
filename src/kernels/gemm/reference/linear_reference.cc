// Plain loops over the packed weights: what every tactic must reproduce bit for bit.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/reference/linear_reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "kernels/gemm/epilogue_math.h"
#include "kernels/gemm/panel_layout.h"

namespace zonda::kernels {
namespace {

// One token's activations as int8 groups.
struct QuantizedToken {
  std::vector<int> q;        // [k]
  std::vector<float> scale;  // [groups]
  std::vector<int> sum;      // [groups]
};

int quantized(float value) {
  return std::isnan(value) ? -128 : static_cast<int>(std::nearbyintf(value));
}

QuantizedToken quantize_token(const float* x, int64_t cols, const PanelLayout& layout) {
  QuantizedToken token;
  token.q.assign(static_cast<size_t>(layout.k), 0);
  for (int64_t begin = 0; begin < layout.k; begin += layout.block_k) {
    const int64_t end = std::min(begin + layout.block_k, cols);
    uint32_t max_bits = 0;
    for (int64_t k = begin; k < end; ++k) {
      max_bits = std::max(max_bits, std::bit_cast<uint32_t>(x[k]) & 0x7fffffffu);
    }
    const float amax = std::bit_cast<float>(max_bits);
    const bool is_zero = amax < 1e-30f;
    const float inverse = is_zero ? 0.0f : 127.0f / amax;
    int sum = 0;
    for (int64_t k = begin; k < end; ++k) {
      token.q[static_cast<size_t>(k)] = quantized(x[k] * inverse);
      sum += token.q[static_cast<size_t>(k)];
    }
    token.scale.push_back(is_zero ? 0.0f : amax / 127.0f);
    token.sum.push_back(sum);
  }
  return token;
}

float half_at(const std::byte* at) { return f16_to_float(*reinterpret_cast<const uint16_t*>(at)); }

// The weights of one row of a panel, and its dot product with a token.
class IntegerRow {
 public:
  IntegerRow(const PackedType& packed, const PanelLayout& layout) : layout_(layout) {
    is_int4_ = packed.type.format == WeightFormat::kInt4;
    u_.resize(static_cast<size_t>(layout.k));
  }

  void load(const std::byte* panel, int64_t lane) {
    scales_ = panel + lane * 2;
    for (int64_t k = 0; k < layout_.k; ++k) {
      const int64_t in_block = k % layout_.block_k;
      const int64_t chunk = is_int4_ ? in_block / 8 : in_block / 4;
      const std::byte* values =
          panel + layout_.header_bytes + k / layout_.block_k * layout_.block_stride;
      const int byte = static_cast<int>(values[chunk * 64 + lane * 4 + in_block % 4]);
      u_[static_cast<size_t>(k)] = !is_int4_ ? byte : in_block % 8 < 4 ? byte & 0x0f : byte >> 4;
    }
  }

  float dot(const QuantizedToken& token) const {
    float f = 0.0f;
    for (int64_t block = 0; block < layout_.blocks; ++block) {
      const auto group = static_cast<size_t>(block);
      const int64_t begin = block * layout_.block_k;
      const int64_t end = std::min(begin + layout_.block_k, layout_.k);
      int acc = -layout_.zero_point * token.sum[group];
      for (int64_t k = begin; k < end; ++k) {
        acc += u_[static_cast<size_t>(k)] * token.q[static_cast<size_t>(k)];
      }
      const std::byte* scales = scales_ + block * layout_.scale_stride;
      f = std::fma(static_cast<float>(acc), half_at(scales) * token.scale[group], f);
      if (layout_.has_minimum) {
        const float weight_sum = token.scale[group] * static_cast<float>(token.sum[group]);
        f = std::fma(half_at(scales + kPanelRows * 2), weight_sum, f);
      }
    }
    return f;
  }

 private:
  const PanelLayout& layout_;
  bool is_int4_;
  const std::byte* scales_ = nullptr;
  std::vector<int> u_;
};

void load_float_row(WeightFormat format, const PanelLayout& layout, const std::byte* panel,
                    int64_t lane, std::vector<float>& row) {
  row.resize(static_cast<size_t>(layout.k));
  for (int64_t k = 0; k < layout.k; ++k) {
    const int64_t at = k / layout.block_k * layout.block_k * kPanelRows + lane * layout.block_k +
                       k % layout.block_k;
    const auto* halves = reinterpret_cast<const uint16_t*>(panel);
    row[static_cast<size_t>(k)] = format == WeightFormat::kFloat32
                                      ? reinterpret_cast<const float*>(panel)[at]
                                  : format == WeightFormat::kFloat16 ? f16_to_float(halves[at])
                                                                     : bf16_to_float(halves[at]);
  }
}

float value_or_zero(const float* x, int64_t k, int64_t cols) { return k < cols ? x[k] : 0.0f; }

float float_dot(const std::vector<float>& row, const float* x, int64_t cols) {
  float f = 0.0f;
  for (int64_t k = 0; k < static_cast<int64_t>(row.size()); ++k) {
    f = std::fma(row[static_cast<size_t>(k)], value_or_zero(x, k, cols), f);
  }
  return f;
}

// Activations rounded to bfloat16. Each step adds the products of `pairs` pairs of k: the even and
// the odd ones of a step are summed apart, but for a single pair, where one follows the other.
float bf16_dot(const std::vector<float>& row, const float* x, int64_t cols, int64_t pairs) {
  float f = 0.0f;
  for (int64_t step = 0; step < static_cast<int64_t>(row.size()); step += 2 * pairs) {
    float even = 0.0f;
    float odd = pairs == 1 ? f : 0.0f;
    for (int64_t k = step; k < step + 2 * pairs; k += 2) {
      const float first = bf16_to_float(float_to_bf16(value_or_zero(x, k, cols)));
      const float second = bf16_to_float(float_to_bf16(value_or_zero(x, k + 1, cols)));
      odd = std::fma(row[static_cast<size_t>(k + 1)], second, odd);
      even = std::fma(row[static_cast<size_t>(k)], first, pairs == 1 ? odd : even);
    }
    f = pairs == 1 ? even : f + (even + odd);
  }
  return f;
}

// sums[token][lane] of one panel.
using PanelSums = std::vector<float>;

class ReferenceRun {
 public:
  ReferenceRun(const LinearParams& params, device::CpuIsa isa)
      : params_(params), isa_(isa), layout_(panel_layout(params.packed)) {
    if (is_quantized(params.packed.type.format)) {
      for (int64_t token = 0; token < params.num_tokens; ++token) {
        tokens_.push_back(
            quantize_token(params.x + token * params.x_stride, params.packed.type.cols, layout_));
      }
    }
  }

  int64_t panels() const { return layout_.panels; }

  // Panels [begin, end); even bounds for a gated epilogue.
  void run(int64_t begin, int64_t end) const {
    const int64_t step = is_gated(params_.epilogue) ? 2 : 1;
    for (int64_t panel = begin; panel < end; panel += step) {
      const PanelSums sums = panel_sums(panel);
      finish(panel, sums, step == 2 ? panel_sums(panel + 1) : sums);
    }
  }

 private:
  PanelSums panel_sums(int64_t panel) const {
    const WeightType& type = params_.packed.type;
    const std::byte* at = params_.weights + panel * layout_.panel_bytes;
    const PanelRows rows = panel_rows(params_.packed, panel);
    PanelSums sums(static_cast<size_t>(params_.num_tokens * kPanelRows));
    IntegerRow integers(params_.packed, layout_);
    std::vector<float> floats;
    for (int64_t lane = 0; lane < rows.count; ++lane) {
      if (is_quantized(type.format)) {
        integers.load(at, lane);
      } else {
        load_float_row(type.format, layout_, at, lane, floats);
      }
      for (int64_t token = 0; token < params_.num_tokens; ++token) {
        float& sum = sums[static_cast<size_t>(token * kPanelRows + lane)];
        sum = is_quantized(type.format) ? integers.dot(tokens_[static_cast<size_t>(token)])
                                        : dot(floats, params_.x + token * params_.x_stride);
        if (params_.bias != nullptr) {
          sum += params_.bias[rows.first + lane];
        }
      }
    }
    return sums;
  }

  float dot(const std::vector<float>& row, const float* x) const {
    const WeightType& type = params_.packed.type;
    if (type.format == WeightFormat::kBFloat16 && isa_ == device::CpuIsa::kAvx512Bf16) {
      return bf16_dot(row, x, type.cols, 1);
    }
    if (type.format == WeightFormat::kBFloat16 && isa_ == device::CpuIsa::kAmx) {
      return bf16_dot(row, x, type.cols, 16);
    }
    return float_dot(row, x, type.cols);
  }

  void finish(int64_t panel, const PanelSums& sums, const PanelSums& next) const {
    const PanelRows rows = panel_rows(params_.packed, panel);
    for (int64_t token = 0; token < params_.num_tokens; ++token) {
      for (int64_t lane = 0; lane < rows.count; ++lane) {
        const auto from = static_cast<size_t>(token * kPanelRows + lane);
        const int64_t at = token * params_.y_stride + rows.first + lane;
        float value = sums[from];
        if (is_gated(params_.epilogue)) {
          value = gated_value<Scalar>(params_.epilogue, value, next[from]);
        } else if (params_.epilogue == Epilogue::kAddResidual) {
          value = params_.residual[at] + value;
        }
        params_.y[at] = value;
      }
    }
  }

  const LinearParams& params_;
  device::CpuIsa isa_;
  PanelLayout layout_;
  std::vector<QuantizedToken> tokens_;
};

}  // namespace

void linear_reference(const LinearParams& params, device::CpuIsa isa) {
  const ReferenceRun reference(params, isa);
  reference.run(0, reference.panels());
}

void run_linear_reference(const LinearParams& params, device::Stream& stream) {
  const ReferenceRun reference(params, device::CpuIsa::kPortable);
  stream.pool().parallel_for(reference.panels(), 2,
                             [&](int64_t begin, int64_t end) { reference.run(begin, end); });
}

}  // namespace zonda::kernels
