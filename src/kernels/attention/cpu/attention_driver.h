// The loops around AttentionKernel: tiles of query rows, ranges of keys, and their split over
// threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/attention/cpu/attention_range.h"

namespace zonda::kernels {

// Bytes of scratch: one tile a thread, and with several threads the ranges that they reduce apart.
int64_t attention_driver_bytes(int32_t num_heads, int32_t head_size, int threads);

void attention_driver(const AttentionParams& params, const AttentionKernel& kernel,
                      device::ThreadPool& pool);

}  // namespace zonda::kernels
