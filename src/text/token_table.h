// The strings of a vocabulary: id to string and string to id.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zonda::text {

// Fast non-cryptographic hash for short keys.
uint64_t hash_short(std::string_view key);

// Ids may have gaps; strings are any bytes and unique. Immutable once filled.
class TokenTable {
 public:
  static constexpr int32_t kMaxId = (1 << 24) - 1;

  // False if the id or the string is taken already. 0 <= id <= kMaxId.
  bool insert(int32_t id, std::string_view token);

  // -1 if no token has this string. `hash` is hash_short(token).
  int32_t find(std::string_view token, uint64_t hash) const;
  int32_t find(std::string_view token) const { return find(token, hash_short(token)); }

  bool contains(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < entries_.size() && entries_[id].present;
  }
  // The id must exist.
  std::string_view token(int32_t id) const {
    return std::string_view(bytes_).substr(entries_[id].offset, entries_[id].length);
  }
  // One more than the largest id.
  int32_t id_end() const { return static_cast<int32_t>(entries_.size()); }
  size_t count() const { return count_; }

 private:
  struct Entry {
    uint32_t offset = 0;  // in bytes_
    uint32_t length = 0;
    bool present = false;
  };
  struct Slot {
    uint32_t tag = 0;  // upper half of the hash
    int32_t id = -1;
  };
  void grow();
  void place(std::vector<Slot>& slots, uint64_t hash, int32_t id) const;

  std::string bytes_;           // all strings, one after the other
  std::vector<Entry> entries_;  // [id_end()]
  std::vector<Slot> slots_;     // open addressing, at most half full
  size_t count_ = 0;
};

}  // namespace zonda::text
