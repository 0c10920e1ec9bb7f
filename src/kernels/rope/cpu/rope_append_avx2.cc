// Rotation and cache append for AVX2.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rope/cpu/rope_append_token.h"
#include "kernels/vector/avx2.h"

namespace zonda::kernels {

void rope_append_tokens_avx2(const RopeAppendParams& params, int64_t begin, int64_t end) {
  rope_append_tokens<Avx2>(params, begin, end);
}

}  // namespace zonda::kernels
