// The plain-loop attention of one query row, for the portable kernel's split over threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention.h"

namespace zonda::kernels {

// Writes out for one token (index in its row) and one query head.
void attention_reference_head(const AttentionParams& params, const AttentionRow& row, int32_t token,
                              int32_t head);

}  // namespace zonda::kernels
