// A gather: memory speed is all there is to gain, so one plain loop a dtype.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding/embedding.h"

#include <cstring>

#include "base/error.h"

namespace zonda::kernels {
namespace {

// Tokens that make waking a second thread worth it.
constexpr int64_t kTokensPerThread = 16;

void copy_row(const EmbeddingParams& params, int64_t row, float* out) {
  const int64_t first = row * params.size;
  if (params.dtype == DType::kFloat32) {
    std::memcpy(out, static_cast<const float*>(params.table) + first,
                static_cast<size_t>(params.size) * sizeof(float));
    return;
  }
  const uint16_t* from = static_cast<const uint16_t*>(params.table) + first;
  if (params.dtype == DType::kBFloat16) {
    for (int64_t i = 0; i < params.size; ++i) {
      out[i] = bf16_to_float(from[i]);
    }
  } else {
    for (int64_t i = 0; i < params.size; ++i) {
      out[i] = f16_to_float(from[i]);
    }
  }
}

}  // namespace

void embedding(const EmbeddingParams& params, device::Stream& stream) {
  CHECK(params.size > 0 && params.out_stride >= params.size);
  CHECK(params.dtype == DType::kFloat32 || params.dtype == DType::kFloat16 ||
        params.dtype == DType::kBFloat16);
  stream.pool().parallel_for(params.num_tokens, kTokensPerThread, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int32_t row = params.ids[t];
      CHECK(row >= 0 && row < params.num_rows);
      copy_row(params, row, params.out + t * params.out_stride);
    }
  });
}

}  // namespace zonda::kernels
