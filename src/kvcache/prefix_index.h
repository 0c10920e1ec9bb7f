// Finds the block that holds a given run of tokens after a given prefix.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "kvcache/block_pool.h"

namespace zonda::kvcache {

// Identity of a full block's content: its tokens, everything before them, and the chain's salt.
using ContentHash = Hash128;

// Keys are chains: content(block) = H(content(previous block), tokens). Tokens are kept and
// compared on lookup, so that a collision of hashes inside one block cannot return foreign content.
class PrefixIndex {
 public:
  // `seed` enters every hash: a random one keeps outsiders from constructing collisions.
  PrefixIndex(int32_t num_blocks, int32_t tokens_per_block, uint64_t seed);

  // The parent of a sequence's first block. Sequences of different salts never share.
  ContentHash root(const Hash128& salt) const;
  // `tokens`: one full block of them.
  ContentHash content(const ContentHash& parent, std::span<const int32_t> tokens) const;

  // kNoBlock if there is none.
  BlockId find(const ContentHash& parent, const ContentHash& content,
               std::span<const int32_t> tokens) const;
  // False, and nothing changes, if the content is known already. The block must not be in the
  // index.
  bool insert(const ContentHash& parent, const ContentHash& content,
              std::span<const int32_t> tokens, BlockId block);
  // Forgets the block; nothing happens if it is not in the index.
  void erase(BlockId block);

  // Content of an indexed block.
  std::optional<ContentHash> content_of(BlockId block) const;
  size_t size() const { return by_content_.size(); }

 private:
  struct HashOf {
    size_t operator()(const Hash128& hash) const { return static_cast<size_t>(hash.low); }
  };
  struct Entry {
    ContentHash parent;
    ContentHash content;
    bool present = false;
  };
  std::span<int32_t> tokens_of(BlockId block);
  std::span<const int32_t> tokens_of(BlockId block) const;

  size_t tokens_per_block_;
  uint64_t seed_;
  std::unordered_map<ContentHash, BlockId, HashOf> by_content_;
  std::vector<Entry> entries_;   // [num_blocks]
  std::vector<int32_t> tokens_;  // [num_blocks, tokens_per_block]
};

}  // namespace zonda::kvcache
