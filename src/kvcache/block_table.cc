// BlockTable: shares and, side by side, the plain ids that a step copies.
// SPDX-License-Identifier: Apache-2.0
#include "kvcache/block_table.h"

#include <utility>

namespace zonda::kvcache {

BlockTable& BlockTable::operator=(BlockTable&& other) noexcept {
  if (this != &other) {
    clear();
    refs_ = std::move(other.refs_);
    ids_ = std::move(other.ids_);
  }
  return *this;
}

void BlockTable::append(BlockRef ref) {
  ids_.push_back(ref.id());
  refs_.push_back(std::move(ref));
}

void BlockTable::replace(int32_t index, BlockRef ref) {
  const auto at = static_cast<size_t>(index);
  ids_[at] = ref.id();
  refs_[at] = std::move(ref);
}

BlockTable BlockTable::share(int32_t count) const {
  BlockTable table;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    table.append(refs_[i].share());
  }
  return table;
}

void BlockTable::clear() {
  while (!refs_.empty()) {
    refs_.pop_back();
  }
  ids_.clear();
}

}  // namespace zonda::kvcache
