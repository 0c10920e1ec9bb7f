// Where one layer's keys and values lie in the memory of the paged cache:
// [num_blocks, num_layers, 2, num_kv_heads, tokens_per_block, head_size].
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/plan.h"
#include "kernels/rope/rope.h"

namespace zonda::engine {

// `memory`: all blocks, on the device whose kernels get the result.
inline kernels::PagedKv kv_layer(const KvLayout& layout, std::byte* memory, int32_t layer) {
  const int64_t layer_elements =
      int64_t{2} * layout.num_kv_heads * layout.tokens_per_block * layout.head_size;
  kernels::PagedKv kv;
  kv.base = memory + layer * layer_elements * dtype_size(layout.dtype);
  kv.block_stride = layer_elements * layout.num_layers;
  kv.block_size = layout.tokens_per_block;
  kv.num_kv_heads = layout.num_kv_heads;
  kv.head_size = layout.head_size;
  kv.dtype = layout.dtype;
  return kv;
}

}  // namespace zonda::engine
