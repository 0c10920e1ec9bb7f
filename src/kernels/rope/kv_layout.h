// Where a head's key or value of a slot lies in the paged cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/rope/rope.h"

namespace zonda::kernels {

// Elements from kv.base to the first element of a slot: `kind` 0 is the key, 1 the value. Static:
// also compiled for instruction sets that not every machine has.
static inline int64_t kv_element_offset(const PagedKv& kv, int64_t slot, int kind,
                                        int32_t kv_head) {
  const int64_t block = slot / kv.block_size;
  const int64_t head = int64_t{kind} * kv.num_kv_heads + kv_head;
  return block * kv.block_stride +
         (head * kv.block_size + slot % kv.block_size) * int64_t{kv.head_size};
}

}  // namespace zonda::kernels
