// Attention over one range of keys for AVX-512.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/cpu/attention_range_impl.h"
#include "kernels/vector/avx512.h"

namespace zonda::kernels {

const AttentionKernel kAttentionAvx512 = {reduce_range<Avx512>, join_row<Avx512>};

}  // namespace zonda::kernels
