// A bounded cache from a piece of text to its ids.
// SPDX-License-Identifier: Apache-2.0
#include "text/bpe_cache.h"

#include <cstring>

namespace zonda::text {

BpeCache::BpeCache() : slots_(std::make_unique<Slot[]>(kSlots)) {}

bool BpeCache::find(std::string_view key, uint64_t hash, std::vector<int32_t>& ids) const {
  Slot& slot = slots_[(hash >> 16) % kSlots];
  if (key.size() > kMaxKey || slot.busy.test_and_set(std::memory_order_acquire)) {
    return false;
  }
  const bool hit =
      slot.key_length == key.size() && std::memcmp(slot.key.data(), key.data(), key.size()) == 0;
  if (hit) {
    ids.insert(ids.end(), slot.ids.data(), slot.ids.data() + slot.id_count);
  }
  slot.busy.clear(std::memory_order_release);
  return hit;
}

void BpeCache::store(std::string_view key, uint64_t hash, const int32_t* ids, size_t count) const {
  Slot& slot = slots_[(hash >> 16) % kSlots];
  if (key.size() > kMaxKey || count > kMaxIds ||
      slot.busy.test_and_set(std::memory_order_acquire)) {
    return;
  }
  slot.key_length = static_cast<uint8_t>(key.size());
  slot.id_count = static_cast<uint8_t>(count);
  std::memcpy(slot.key.data(), key.data(), key.size());
  std::memcpy(slot.ids.data(), ids, count * sizeof(int32_t));
  slot.busy.clear(std::memory_order_release);
}

}  // namespace zonda::text
