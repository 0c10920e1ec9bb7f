// Tokens as e4m3 with a scale of each, for products of fp8 with fp8.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "device/cuda/launch.h"
#include "kernels/gemm/cuda/linear.h"
#include "kernels/gemm/cuda/packed_layout.h"

namespace zonda::kernels::cuda {

struct QuantizeTokensParams {
  const void* x = nullptr;  // [num_tokens, cols] of activation, 16-byte aligned, row stride
                            // x_stride elements, a multiple of 8
  // Not null: RMS-normalised first, without rounding in between. 16-byte aligned.
  const float* norm_weight = nullptr;  // [cols]
  float norm_eps = 0.0f;
  int64_t num_tokens = 0;
  int64_t cols = 0;
  int64_t x_stride = 0;
  int64_t pitch = 0;           // a multiple of 64, at least cols
  std::byte* codes = nullptr;  // [num_tokens, pitch] in the order of fp8_position(), zeros behind
                               // cols; 16-byte aligned
  float* scales = nullptr;     // [num_tokens]: largest magnitude / 448
  DType activation = DType::kBFloat16;
};

// Where a workspace has the tokens of a linear, and its bytes.
struct QuantizedTokens {
  std::byte* codes = nullptr;  // [num_tokens, padded_cols]
  float* scales = nullptr;     // [num_tokens]
};
constexpr int64_t quantized_tokens_bytes(int64_t num_tokens, const PackedLayout& layout) {
  return padded_to(num_tokens * layout.padded_cols, 256) + padded_to(num_tokens * 4, 256);
}
inline QuantizedTokens place_tokens(std::byte* workspace, int64_t num_tokens,
                                    const PackedLayout& layout) {
  std::byte* const scales = workspace + padded_to(num_tokens * layout.padded_cols, 256);
  return {workspace, reinterpret_cast<float*>(scales)};
}
// The tokens of a call, normalised if it asks for that.
QuantizeTokensParams tokens_of(const LinearParams& params, const QuantizedTokens& tokens);

// A token's result depends on that token alone.
cudaError_t quantize_tokens(const QuantizeTokensParams& params,
                            const device::cuda::LaunchSite& site);

}  // namespace zonda::kernels::cuda
