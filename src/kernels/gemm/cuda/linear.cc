// Which tactics exist for a format on a CUDA device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/cuda/linear.h"

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/gemm/cuda/linear_cublaslt.h"
#include "kernels/gemm/cuda/packed_layout.h"
#include "kernels/gemm/cuda/quantize_tokens.h"
#include "kernels/gemm/cuda/tactic_lists.h"

namespace zonda::kernels::cuda {
namespace {

constexpr size_t kFormats = kNumWeightFormats;
using Tactics = std::vector<LinearTactic>;

class TacticRegistry {
 public:
  explicit TacticRegistry(int compute_capability) {
    constexpr std::span<const LinearTactic> kNone;
    const bool streams = compute_capability >= 90;
    for (size_t i = 0; i < kFormats; ++i) {
      const auto format = static_cast<WeightFormat>(i);
      const bool fp8_tokens = format == WeightFormat::kFloat8E4M3 && compute_capability >= 89;
      for (const std::span<const LinearTactic> list :
           {streams ? stream_tactics(format) : kNone, mma_tactics(format),
            fp8_tokens ? mma_tactics_fp8_tokens() : kNone, cublaslt_tactics(format)}) {
        tactics_[i].insert(tactics_[i].end(), list.begin(), list.end());
      }
    }
  }
  const Tactics& tactics(WeightFormat format) const {
    return tactics_[static_cast<size_t>(format)];
  }

 private:
  std::array<Tactics, kFormats> tactics_;
};

}  // namespace

std::span<const LinearTactic> mma_tactics(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBFloat16:
      return mma_tactics_bf16();
    case WeightFormat::kFloat16:
      return mma_tactics_fp16();
    case WeightFormat::kInt8:
      return mma_tactics_int8();
    case WeightFormat::kInt4:
      return mma_tactics_int4();
    case WeightFormat::kFloat8E4M3:
      return mma_tactics_fp8();
    default:
      return {};
  }
}

int64_t linear_workspace_bytes(const PackedType& packed, int64_t max_tokens) {
  const bool is_fp8 = packed.type.format == WeightFormat::kFloat8E4M3;
  return std::max(cublaslt_workspace_bytes(packed, max_tokens),
                  is_fp8 ? quantized_tokens_bytes(max_tokens, packed_layout(packed)) : 0);
}

// All but the streaming kernels and those with products of fp8 run on 80 and newer.
std::span<const LinearTactic> linear_tactics(const WeightType& type, int compute_capability) {
  static const TacticRegistry with_streams(90);
  static const TacticRegistry with_fp8(89);
  static const TacticRegistry without(80);
  return (compute_capability >= 90   ? with_streams
          : compute_capability >= 89 ? with_fp8
                                     : without)
      .tactics(type.format);
}

const LinearTactic& default_linear_tactic(const WeightType& type, int compute_capability,
                                          int64_t num_tokens) {
  const std::span<const LinearTactic> tactics = linear_tactics(type, compute_capability);
  const std::span<const LinearTactic> library = cublaslt_tactics(type.format);
  if (num_tokens > 64 && !library.empty()) {
    return tactics[tactics.size() - library.size()];
  }
  for (const LinearTactic& tactic : tactics) {
    if (num_tokens >= tactic.min_tokens && num_tokens <= tactic.max_tokens) {
      return tactic;
    }
  }
  return tactics.front();
}

}  // namespace zonda::kernels::cuda
