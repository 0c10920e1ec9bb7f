// Rotary embedding and append to the paged cache on a CUDA device; see kernels/rope/rope.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/cuda/launch.h"
#include "kernels/rope/rope.h"

namespace zonda::kernels::cuda {

// Fields as in kernels::RopeAppendParams; all pointers, kv.base too, are device memory; qkv and
// kv.base are 16-byte aligned. The cache takes rotated values before they are rounded to
// `activation`; fp8 saturates.
struct RopeAppendParams {
  void* qkv = nullptr;                      // [num_tokens, qkv_stride] of activation
  const int32_t* positions = nullptr;       // [num_tokens]
  const int64_t* slots = nullptr;           // [num_tokens]; -1: do not append
  const int32_t* frequency_sets = nullptr;  // [num_tokens] or null
  const float* inv_freq = nullptr;          // [sets, rotary_dim / 2]
  float attention_factor = 1.0f;
  PagedKv kv = {};  // dtype kBFloat16 | kFloat16 | kFloat8E4M3
  int64_t num_tokens = 0;
  int64_t qkv_stride = 0;  // elements
  int32_t num_heads = 0;
  int32_t rotary_dim = 0;
  RopeStyle style = RopeStyle::kNeox;
  DType activation = DType::kBFloat16;
};

// cudaErrorInvalidValue for parameters outside of what is stated, rotary_dim above 512 among them.
cudaError_t rope_append(const RopeAppendParams& params, const device::cuda::LaunchSite& site);

}  // namespace zonda::kernels::cuda
