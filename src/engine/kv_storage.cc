// SPDX-License-Identifier: Apache-2.0
#include "engine/kv_storage.h"

#include <cstring>

#include "base/error.h"

namespace zonda::engine {

Result<KvStorage> KvStorage::allocate(const KvLayout& layout, int32_t num_blocks) {
  const int64_t bytes = layout.block_bytes() * num_blocks;
  Result<device::Buffer> memory = device::Buffer::allocate(static_cast<size_t>(bytes));
  if (!memory.ok()) {
    return over_capacity("[kv_cache] {} blocks of {} bytes ({} bytes) cannot be allocated: {}",
                         num_blocks, layout.block_bytes(), bytes, memory.error().message);
  }
  return KvStorage(layout, num_blocks, std::move(*memory));
}

kernels::PagedKv KvStorage::layer(int32_t index) {
  const int64_t layer_elements =
      int64_t{2} * layout_.num_kv_heads * layout_.tokens_per_block * layout_.head_size;
  kernels::PagedKv kv;
  kv.base = memory_.data() + index * layer_elements * dtype_size(layout_.dtype);
  kv.block_stride = layer_elements * layout_.num_layers;
  kv.block_size = layout_.tokens_per_block;
  kv.num_kv_heads = layout_.num_kv_heads;
  kv.head_size = layout_.head_size;
  kv.dtype = layout_.dtype;
  return kv;
}

void KvStorage::copy_block(int32_t source, int32_t destination) {
  CHECK(source >= 0 && source < num_blocks_ && destination >= 0 && destination < num_blocks_);
  const int64_t bytes = layout_.block_bytes();
  std::memcpy(memory_.data() + destination * bytes, memory_.data() + source * bytes,
              static_cast<size_t>(bytes));
}

}  // namespace zonda::engine
