// KvCacheManager: admission with prefix reuse, growth with copy-on-write, and the index of content.
// SPDX-License-Identifier: Apache-2.0
#include "kvcache/kv_cache_manager.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace zonda::kvcache {
namespace {

const KvCacheConfig& checked(const KvCacheConfig& config) {
  CHECK(config.num_blocks >= 0);
  CHECK(config.tokens_per_block >= 1);
  return config;
}

}  // namespace

KvCacheManager::KvCacheManager(const KvCacheConfig& config)
    : config_(checked(config)),
      pool_(config.num_blocks),
      index_(config.num_blocks, config.tokens_per_block, config.hash_seed) {}

int32_t KvCacheManager::blocks_for(int32_t num_tokens) const {
  return num_tokens / config_.tokens_per_block +
         (num_tokens % config_.tokens_per_block > 0 ? 1 : 0);
}

PrefixMatch KvCacheManager::match(std::span<const int32_t> tokens, const Hash128& salt,
                                  int32_t limit) const {
  PrefixMatch result;
  if (!config_.enable_reuse) {
    return result;
  }
  const auto size = static_cast<size_t>(config_.tokens_per_block);
  const size_t end = std::min(tokens.size(), static_cast<size_t>(std::max(limit, 0)));
  ContentHash parent = index_.root(salt);
  for (size_t begin = 0; begin + size <= end; begin += size) {
    const auto block_tokens = tokens.subspan(begin, size);
    const ContentHash content = index_.content(parent, block_tokens);
    const BlockId block = index_.find(parent, content, block_tokens);
    if (block == kNoBlock) {
      break;
    }
    ++result.num_blocks;
    result.num_free_blocks += pool_.share_count(block) == 0 ? 1 : 0;
    parent = content;
  }
  return result;
}

std::optional<KvSequence> KvCacheManager::admit(std::span<const int32_t> tokens,
                                                const Hash128& salt, int32_t limit,
                                                int32_t capacity) {
  const PrefixMatch known = match(tokens, salt, limit);
  const int32_t fresh = std::max(blocks_for(capacity) - known.num_blocks, 0);
  if (known.num_free_blocks + fresh > pool_.num_free()) {
    return std::nullopt;
  }
  const auto size = static_cast<size_t>(config_.tokens_per_block);
  KvSequence sequence;
  sequence.tail_ = index_.root(salt);
  // All known blocks are taken before any fresh one: a fresh one may push cached blocks out.
  for (int32_t i = 0; i < known.num_blocks; ++i) {
    const auto block_tokens = tokens.subspan(static_cast<size_t>(i) * size, size);
    const ContentHash content = index_.content(sequence.tail_, block_tokens);
    sequence.table_.append(pool_.share(index_.find(sequence.tail_, content, block_tokens)));
    sequence.tail_ = content;
  }
  for (int32_t i = 0; i < fresh; ++i) {
    sequence.table_.append(take());
  }
  sequence.num_hashed_blocks_ = known.num_blocks;
  sequence.num_reused_ = known.num_blocks * config_.tokens_per_block;
  sequence.num_computed_ = sequence.num_reused_;
  reused_blocks_ += known.num_blocks;
  return sequence;
}

int32_t KvCacheManager::blocks_to_write(const KvSequence& sequence, int32_t end) const {
  const int32_t added = std::max(blocks_for(end) - sequence.num_blocks(), 0);
  return added + (end > sequence.num_computed_ && shares_tail(sequence) ? 1 : 0);
}

bool KvCacheManager::prepare_write(KvSequence& sequence, int32_t end,
                                   std::vector<BlockCopy>& copies) {
  if (blocks_to_write(sequence, end) > pool_.num_free()) {
    return false;
  }
  if (end > sequence.num_computed_ && shares_tail(sequence)) {
    const int32_t index = sequence.num_computed_ / config_.tokens_per_block;
    BlockRef own = take();
    copies.push_back({.from = sequence.table_.id(index), .to = own.id()});
    sequence.table_.replace(index, std::move(own));
    ++copied_blocks_;
  }
  while (sequence.num_blocks() < blocks_for(end)) {
    sequence.table_.append(take());
  }
  return true;
}

void KvCacheManager::commit(KvSequence& sequence, std::span<const int32_t> tokens,
                            int32_t num_computed) {
  CHECK(num_computed >= sequence.num_computed_);
  CHECK(static_cast<size_t>(num_computed) <= tokens.size());
  CHECK(blocks_for(num_computed) <= sequence.num_blocks());
  sequence.num_computed_ = num_computed;
  if (!config_.enable_reuse) {
    return;
  }
  const int32_t size = config_.tokens_per_block;
  for (; (sequence.num_hashed_blocks_ + 1) * size <= num_computed; ++sequence.num_hashed_blocks_) {
    const int32_t i = sequence.num_hashed_blocks_;
    const auto block_tokens =
        tokens.subspan(static_cast<size_t>(i * size), static_cast<size_t>(size));
    const ContentHash content = index_.content(sequence.tail_, block_tokens);
    const BlockId block = sequence.table_.id(i);
    if (index_.insert(sequence.tail_, content, block_tokens, block)) {
      pool_.set_cached(block, true);
    }
    sequence.tail_ = content;
  }
}

KvSequence KvCacheManager::fork(const KvSequence& sequence) const {
  KvSequence copy;
  copy.table_ = sequence.table_.share(blocks_for(sequence.num_computed_));
  copy.num_computed_ = sequence.num_computed_;
  copy.num_reused_ = sequence.num_reused_;
  copy.num_hashed_blocks_ = sequence.num_hashed_blocks_;
  copy.tail_ = sequence.tail_;
  return copy;
}

bool KvCacheManager::shares_tail(const KvSequence& sequence) const {
  const int32_t index = sequence.num_computed_ / config_.tokens_per_block;
  return index < sequence.num_blocks() && pool_.share_count(sequence.table_.id(index)) > 1;
}

KvCacheStats KvCacheManager::stats() const {
  return {
      .num_blocks = pool_.num_blocks(),
      .free_blocks = pool_.num_free(),
      .cached_blocks = pool_.num_free_cached(),
      .used_blocks = pool_.num_blocks() - pool_.num_free(),
      .allocated_blocks = allocated_blocks_,
      .reused_blocks = reused_blocks_,
      .copied_blocks = copied_blocks_,
  };
}

BlockRef KvCacheManager::take() {
  BlockRef ref = pool_.allocate();
  CHECK(static_cast<bool>(ref));
  if (pool_.is_cached(ref.id())) {
    index_.erase(ref.id());
    pool_.set_cached(ref.id(), false);
  }
  ++allocated_blocks_;
  return ref;
}

}  // namespace zonda::kvcache
