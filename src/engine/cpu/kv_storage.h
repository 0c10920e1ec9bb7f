// The memory of the paged KV cache: blocks of all layers, addressed by the ids that KvCacheManager
// hands out. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/buffer.h"
#include "engine/kv_layer.h"

namespace zonda::engine::cpu {

class KvStorage {
 public:
  // kCapacity if the memory cannot be had. Pages are touched as blocks are first used.
  static Result<KvStorage> allocate(const KvLayout& layout, int32_t num_blocks);

  int32_t num_blocks() const { return num_blocks_; }
  int64_t bytes() const { return static_cast<int64_t>(memory_.size()); }
  // What the kernels of one layer see.
  kernels::PagedKv layer(int32_t index) { return kv_layer(layout_, memory_.data(), index); }
  void copy_block(int32_t source, int32_t destination);

 private:
  KvStorage(const KvLayout& layout, int32_t num_blocks, device::Buffer memory)
      : layout_(layout), num_blocks_(num_blocks), memory_(std::move(memory)) {}
  KvLayout layout_;
  int32_t num_blocks_;
  device::Buffer memory_;  // [num_blocks, num_layers, 2, num_kv_heads, tokens_per_block, head_size]
};

}  // namespace zonda::engine::cpu
