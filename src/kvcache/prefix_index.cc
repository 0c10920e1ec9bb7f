// PrefixIndex: a map from content to block, and each block's own key for the way back.
// SPDX-License-Identifier: Apache-2.0
#include "kvcache/prefix_index.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace zonda::kvcache {

PrefixIndex::PrefixIndex(int32_t num_blocks, int32_t tokens_per_block, uint64_t seed)
    : tokens_per_block_(static_cast<size_t>(tokens_per_block)),
      seed_(seed),
      entries_(static_cast<size_t>(num_blocks)),
      tokens_(static_cast<size_t>(num_blocks) * static_cast<size_t>(tokens_per_block)) {}

ContentHash PrefixIndex::root(const Hash128& salt) const {
  return hash128(std::as_bytes(std::span(&salt, 1)), seed_);
}

ContentHash PrefixIndex::content(const ContentHash& parent, std::span<const int32_t> tokens) const {
  CHECK(tokens.size() == tokens_per_block_);
  // Tokens first, then the parent folded in with them: two short hashes instead of one joined copy.
  struct Link {
    ContentHash parent;
    ContentHash tokens;
  };
  const Link link{parent, hash128(std::as_bytes(tokens), seed_)};
  return hash128(std::as_bytes(std::span(&link, 1)), seed_);
}

BlockId PrefixIndex::find(const ContentHash& parent, const ContentHash& content,
                          std::span<const int32_t> tokens) const {
  const auto found = by_content_.find(content);
  if (found == by_content_.end()) {
    return kNoBlock;
  }
  const BlockId block = found->second;
  const bool same = entries_[static_cast<size_t>(block)].parent == parent &&
                    std::ranges::equal(tokens_of(block), tokens);
  return same ? block : kNoBlock;
}

bool PrefixIndex::insert(const ContentHash& parent, const ContentHash& content,
                         std::span<const int32_t> tokens, BlockId block) {
  Entry& entry = entries_[static_cast<size_t>(block)];
  CHECK(!entry.present);
  CHECK(tokens.size() == tokens_per_block_);
  if (!by_content_.try_emplace(content, block).second) {
    return false;
  }
  entry = {parent, content, true};
  std::ranges::copy(tokens, tokens_of(block).begin());
  return true;
}

void PrefixIndex::erase(BlockId block) {
  Entry& entry = entries_[static_cast<size_t>(block)];
  if (entry.present) {
    by_content_.erase(entry.content);
    entry.present = false;
  }
}

std::optional<ContentHash> PrefixIndex::content_of(BlockId block) const {
  const Entry& entry = entries_[static_cast<size_t>(block)];
  return entry.present ? std::optional(entry.content) : std::nullopt;
}

std::span<int32_t> PrefixIndex::tokens_of(BlockId block) {
  return std::span(tokens_).subspan(static_cast<size_t>(block) * tokens_per_block_,
                                    tokens_per_block_);
}

std::span<const int32_t> PrefixIndex::tokens_of(BlockId block) const {
  return std::span(tokens_).subspan(static_cast<size_t>(block) * tokens_per_block_,
                                    tokens_per_block_);
}

}  // namespace zonda::kvcache
