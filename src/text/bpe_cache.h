// A bounded cache from a piece of text to its ids, shared by threads that never wait for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace zonda::text {

// A direct-mapped table of fixed size: a new entry replaces what its slot held. A slot that another
// thread holds counts as a miss.
class BpeCache {
 public:
  static constexpr size_t kMaxKey = 30;
  static constexpr size_t kMaxIds = 15;

  BpeCache();
  // Appends the ids and returns true on a hit. `hash` is hash_short(key).
  bool find(std::string_view key, uint64_t hash, std::vector<int32_t>& ids) const;
  // No effect on keys or results longer than the limits.
  void store(std::string_view key, uint64_t hash, const int32_t* ids, size_t count) const;

 private:
  static constexpr size_t kSlots = 16384;
  struct Slot {
    std::atomic_flag busy;
    uint8_t key_length = 0;
    uint8_t id_count = 0;
    std::array<char, kMaxKey> key{};
    std::array<int32_t, kMaxIds> ids{};
  };
  // Contents are a pure function of the model, so filling the cache keeps encoding const.
  std::unique_ptr<Slot[]> slots_;
};

}  // namespace zonda::text
