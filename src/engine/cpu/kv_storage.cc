// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/kv_storage.h"

#include <cstring>

#include "base/error.h"

namespace zonda::engine::cpu {

Result<KvStorage> KvStorage::allocate(const KvLayout& layout, int32_t num_blocks) {
  const int64_t bytes = layout.block_bytes() * num_blocks;
  Result<device::Buffer> memory = device::Buffer::allocate(static_cast<size_t>(bytes));
  if (!memory.ok()) {
    return over_capacity("[kv_cache] {} blocks of {} bytes ({} bytes) cannot be allocated: {}",
                         num_blocks, layout.block_bytes(), bytes, memory.error().message);
  }
  return KvStorage(layout, num_blocks, std::move(*memory));
}

void KvStorage::copy_block(int32_t source, int32_t destination) {
  CHECK(source >= 0 && source < num_blocks_ && destination >= 0 && destination < num_blocks_);
  const int64_t bytes = layout_.block_bytes();
  std::memcpy(memory_.data() + destination * bytes, memory_.data() + source * bytes,
              static_cast<size_t>(bytes));
}

}  // namespace zonda::engine::cpu
