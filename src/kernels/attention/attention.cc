// Checks and the choice of instruction set.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attention.h"

#include "base/error.h"
#include "kernels/attention/attention_checks.h"
#include "kernels/attention/cpu/attention_driver.h"
#include "kernels/attention/reference/attention_reference.h"
#include "kernels/vector/targets.h"

namespace zonda::kernels {
namespace {

const AttentionKernel* vector_kernel(device::CpuIsa isa) {
  if constexpr (kHasX86Kernels) {
    if (isa >= device::CpuIsa::kAvx512) {
      return &kAttentionAvx512;
    }
    if (isa >= device::CpuIsa::kAvx2) {
      return &kAttentionAvx2;
    }
  }
  return nullptr;
}

void attention_portable(const AttentionParams& params, device::ThreadPool& pool) {
  for (const AttentionRow& row : params.rows) {
    const int64_t heads = int64_t{row.num_tokens} * params.num_heads;
    pool.parallel_for(heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        attention_reference_head(params, row, static_cast<int32_t>(i / params.num_heads),
                                 static_cast<int32_t>(i % params.num_heads));
      }
    });
  }
}

}  // namespace

void check_attention(const AttentionParams& params) {
  const PagedKv& kv = params.kv;
  const int64_t width = int64_t{params.num_heads} * kv.head_size;
  CHECK(kv.num_kv_heads > 0 && params.num_heads > 0 && params.num_heads % kv.num_kv_heads == 0);
  CHECK(kv.head_size > 0 && kv.block_size > 0);
  CHECK(params.q_stride >= width && params.out_stride >= width);
  CHECK(kv.dtype == DType::kFloat32 || kv.dtype == DType::kFloat16 || kv.dtype == DType::kBFloat16);
}

int64_t attention_workspace_bytes(int64_t /*max_tokens*/, int32_t num_heads, int32_t head_size,
                                  int threads) {
  return attention_driver_bytes(num_heads, head_size, threads);
}

void attention(const AttentionParams& params, device::Stream& stream) {
  check_attention(params);
  if (const AttentionKernel* kernel = vector_kernel(stream.isa())) {
    attention_driver(params, *kernel, stream.pool());
  } else {
    attention_portable(params, stream.pool());
  }
}

}  // namespace zonda::kernels
