// Attention over one range of keys for AVX2.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/cpu/attention_range_impl.h"
#include "kernels/vector/avx2.h"

namespace zonda::kernels {

const AttentionKernel kAttentionAvx2 = {reduce_range<Avx2>, join_row<Avx2>};

}  // namespace zonda::kernels
