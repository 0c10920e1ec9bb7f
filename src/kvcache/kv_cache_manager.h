// Decides which blocks hold which positions of which sequence. Ids only: no memory, no device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kvcache/block_table.h"
#include "kvcache/prefix_index.h"

namespace zonda::kvcache {

struct KvCacheConfig {
  int32_t num_blocks = 0;
  int32_t tokens_per_block = 32;
  bool enable_reuse = true;
  uint64_t hash_seed = 0;
};

// Content of `from` must be in `to` before the step that plans it runs. Copies of one plan are done
// in their order: a later one may overwrite what an earlier one read.
struct BlockCopy {
  BlockId from = kNoBlock;
  BlockId to = kNoBlock;
  friend bool operator==(const BlockCopy&, const BlockCopy&) = default;
};

struct KvCacheStats {
  int32_t num_blocks = 0;
  int32_t free_blocks = 0;    // nobody holds them; cached ones included
  int32_t cached_blocks = 0;  // free, and their content can be reused
  int32_t used_blocks = 0;
  int64_t allocated_blocks = 0;  // over the manager's life
  int64_t reused_blocks = 0;     // found in the index and not computed again
  int64_t copied_blocks = 0;
};

// What a sequence holds. Owned by whoever runs the sequence; destruction gives the blocks back, and
// must come before the manager's.
class KvSequence {
 public:
  KvSequence() = default;

  std::span<const BlockId> block_ids() const { return table_.ids(); }
  int32_t num_blocks() const { return table_.size(); }
  // Positions [0, num_computed) hold valid keys and values.
  int32_t num_computed() const { return num_computed_; }
  // Of these, how many were found in the cache on admission.
  int32_t num_reused() const { return num_reused_; }

 private:
  friend class KvCacheManager;
  BlockTable table_;
  int32_t num_computed_ = 0;
  int32_t num_reused_ = 0;
  int32_t num_hashed_blocks_ = 0;  // blocks that tail_ covers
  ContentHash tail_;               // content of the last hashed block; the root at first
};

struct PrefixMatch {
  int32_t num_blocks = 0;
  int32_t num_free_blocks = 0;  // of these, how many nobody holds: taking them uses up free blocks
};

// One group of layers with one kind of cache. A model with several groups has one manager for each;
// a sequence then holds one KvSequence a group.
class KvCacheManager {
 public:
  // CHECKs num_blocks >= 0 and tokens_per_block >= 1.
  explicit KvCacheManager(const KvCacheConfig& config);

  int32_t tokens_per_block() const { return config_.tokens_per_block; }
  int32_t num_blocks() const { return pool_.num_blocks(); }
  int32_t num_free() const { return pool_.num_free(); }
  int32_t blocks_for(int32_t num_tokens) const;

  // Full blocks of a known prefix, of the first `limit` tokens at most.
  PrefixMatch match(std::span<const int32_t> tokens, const Hash128& salt, int32_t limit) const;
  // A sequence with the known prefix of the first `limit` tokens and room for `capacity` positions.
  // Empty, and nothing changes, if blocks are missing.
  std::optional<KvSequence> admit(std::span<const int32_t> tokens, const Hash128& salt,
                                  int32_t limit, int32_t capacity);
  // Makes positions [num_computed, end) writable by this sequence alone: adds blocks, and copies a
  // block that others share. False, and nothing changes, if blocks are missing.
  bool prepare_write(KvSequence& sequence, int32_t end, std::vector<BlockCopy>& copies);
  // Blocks that prepare_write would take.
  int32_t blocks_to_write(const KvSequence& sequence, int32_t end) const;
  // Positions [0, num_computed) of `tokens` are computed now; full blocks become reusable.
  void commit(KvSequence& sequence, std::span<const int32_t> tokens, int32_t num_computed);
  // A second sequence with the same past, sharing the blocks of what is computed.
  KvSequence fork(const KvSequence& sequence) const;
  // True if the block at num_computed is partly filled and shared: the next write copies it.
  bool shares_tail(const KvSequence& sequence) const;

  KvCacheStats stats() const;
  const BlockPool& pool() const { return pool_; }
  const PrefixIndex& index() const { return index_; }

 private:
  BlockRef take();

  KvCacheConfig config_;
  BlockPool pool_;
  PrefixIndex index_;
  int64_t allocated_blocks_ = 0;
  int64_t reused_blocks_ = 0;
  int64_t copied_blocks_ = 0;
};

}  // namespace zonda::kvcache
