// The strings of a vocabulary.
// SPDX-License-Identifier: Apache-2.0
#include "text/token_table.h"

#include <cstring>

#include "base/error.h"

namespace zonda::text {
namespace {

uint64_t fold(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

template <typename T>
uint64_t load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

}  // namespace

uint64_t hash_short(std::string_view key) {
  constexpr uint64_t kA = 0x9e3779b97f4a7c15;
  constexpr uint64_t kB = 0xd1b54a32d192ed03;
  const char* data = key.data();
  size_t left = key.size();
  uint64_t hash = fold(left + kA, kB);
  for (; left > 8; left -= 8, data += 8) {
    hash = fold(hash ^ load<uint64_t>(data), kA);
  }
  uint64_t tail = 0;
  if (left >= 4) {
    tail = load<uint32_t>(data) << 32 | load<uint32_t>(data + left - 4);
  } else if (left > 0) {
    tail = uint64_t{static_cast<uint8_t>(data[0])} << 16 |
           uint64_t{static_cast<uint8_t>(data[left / 2])} << 8 |
           static_cast<uint8_t>(data[left - 1]);
  }
  return fold(hash ^ tail, kB);
}

void TokenTable::place(std::vector<Slot>& slots, uint64_t hash, int32_t id) const {
  const size_t mask = slots.size() - 1;
  size_t at = hash & mask;
  while (slots[at].id >= 0) {
    at = (at + 1) & mask;
  }
  slots[at] = {static_cast<uint32_t>(hash >> 32), id};
}

void TokenTable::grow() {
  std::vector<Slot> slots(slots_.empty() ? 1024 : slots_.size() * 2);
  for (const Slot& slot : slots_) {
    if (slot.id >= 0) {
      place(slots, hash_short(token(slot.id)), slot.id);
    }
  }
  slots_ = std::move(slots);
}

bool TokenTable::insert(int32_t id, std::string_view token) {
  CHECK(id >= 0 && id <= kMaxId);
  const uint64_t hash = hash_short(token);
  if (contains(id) || find(token, hash) >= 0) {
    return false;
  }
  if ((count_ + 1) * 2 > slots_.size()) {
    grow();
  }
  if (static_cast<size_t>(id) >= entries_.size()) {
    entries_.resize(static_cast<size_t>(id) + 1);
  }
  entries_[id] = {static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(token.size()), true};
  bytes_ += token;
  place(slots_, hash, id);
  ++count_;
  return true;
}

int32_t TokenTable::find(std::string_view token, uint64_t hash) const {
  if (slots_.empty()) {
    return -1;
  }
  const size_t mask = slots_.size() - 1;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t at = hash & mask; slots_[at].id >= 0; at = (at + 1) & mask) {
    if (slots_[at].tag == tag && this->token(slots_[at].id) == token) {
      return slots_[at].id;
    }
  }
  return -1;
}

}  // namespace zonda::text
