// Rows of an embedding table as float32: out[t] = table[ids[t]].
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "device/stream.h"

namespace zonda::kernels {

struct EmbeddingParams {
  const void* table = nullptr;   // [num_rows, size] row-major, of dtype
  const int32_t* ids = nullptr;  // [num_tokens], each in [0, num_rows)
  float* out = nullptr;          // [num_tokens, size], row stride out_stride floats
  int64_t num_tokens = 0;
  int64_t num_rows = 0;
  int64_t size = 0;
  int64_t out_stride = 0;
  DType dtype = DType::kFloat32;  // kFloat32 | kFloat16 | kBFloat16
};

// Exact: widening never rounds.
void embedding(const EmbeddingParams& params, device::Stream& stream);

}  // namespace zonda::kernels
