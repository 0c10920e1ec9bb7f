// The blocks of one sequence in the order of its positions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvcache/block_pool.h"

namespace zonda::kvcache {

// Block i holds positions [i * tokens_per_block, (i + 1) * tokens_per_block). Shares are given back
// last block first, so that among cached blocks a continuation gives way before its beginning.
class BlockTable {
 public:
  BlockTable() = default;
  BlockTable(BlockTable&&) noexcept = default;
  BlockTable& operator=(BlockTable&& other) noexcept;
  ~BlockTable() { clear(); }

  int32_t size() const { return static_cast<int32_t>(refs_.size()); }
  // [size]; valid until the table changes.
  std::span<const BlockId> ids() const { return ids_; }
  BlockId id(int32_t index) const { return ids_[static_cast<size_t>(index)]; }

  void append(BlockRef ref);
  // Gives back the share at `index` and puts `ref` there.
  void replace(int32_t index, BlockRef ref);
  // A table of the first `count` blocks.
  BlockTable share(int32_t count) const;
  void clear();

 private:
  std::vector<BlockRef> refs_;
  std::vector<BlockId> ids_;
};

}  // namespace zonda::kvcache
