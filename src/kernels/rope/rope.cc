// Checks, the choice of instruction set and the split of tokens over threads.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rope/rope.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/rope/cpu/rope_append_token.h"
#include "kernels/vector/targets.h"

namespace zonda::kernels {
namespace {

// Elements that make waking a second thread worth it.
constexpr int64_t kMinElementsPerThread = 8192;

RopeAppendTokens token_kernel(device::CpuIsa isa) {
  if constexpr (kHasX86Kernels) {
    if (isa >= device::CpuIsa::kAvx512) {
      return rope_append_tokens_avx512;
    }
    if (isa >= device::CpuIsa::kAvx2) {
      return rope_append_tokens_avx2;
    }
  }
  return rope_append_tokens_reference;
}

}  // namespace

void rope_append(const RopeAppendParams& params, device::Stream& stream) {
  const PagedKv& kv = params.kv;
  const int64_t width = int64_t{params.num_heads + 2 * kv.num_kv_heads} * kv.head_size;
  CHECK(width > 0 && params.qkv_stride >= width);
  CHECK(params.style == RopeStyle::kNone ||
        (params.rotary_dim % 2 == 0 && params.rotary_dim <= kv.head_size));
  CHECK(kv.dtype == DType::kFloat32 || kv.dtype == DType::kFloat16 || kv.dtype == DType::kBFloat16);
  const RopeAppendTokens kernel = token_kernel(stream.isa());
  const int64_t grain = std::max<int64_t>(1, kMinElementsPerThread / width);
  stream.pool().parallel_for(params.num_tokens, grain,
                             [&](int64_t begin, int64_t end) { kernel(params, begin, end); });
}

}  // namespace zonda::kernels
