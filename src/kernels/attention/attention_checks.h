// What every attention kernel assumes of its parameters, and the keys a token sees.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention.h"

namespace zonda::kernels {

// Aborts on parameters that only a programmer can get wrong.
void check_attention(const AttentionParams& params);

// Positions [begin, end).
struct VisibleKeys {
  int32_t begin;
  int32_t end;
};

inline VisibleKeys visible_keys(const AttentionParams& params, const AttentionRow& row,
                                int32_t token) {
  const int32_t end = row.start_position + token + 1;
  const bool limited = params.window > 0 && end > params.window;
  return {limited ? end - params.window : 0, end};
}

}  // namespace zonda::kernels
