// Ids of the blocks of one KV memory, handed out as counted shares.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace zonda::kvcache {

using BlockId = int32_t;
inline constexpr BlockId kNoBlock = -1;

class BlockPool;

// One share of a block: move-only, given back by the destructor. Empty when moved from.
class BlockRef {
 public:
  BlockRef() = default;
  BlockRef(BlockRef&& other) noexcept;
  BlockRef& operator=(BlockRef&& other) noexcept;
  BlockRef(const BlockRef&) = delete;
  BlockRef& operator=(const BlockRef&) = delete;
  ~BlockRef() { reset(); }

  // Another share of the same block.
  BlockRef share() const;
  void reset();
  BlockId id() const { return id_; }
  explicit operator bool() const { return pool_ != nullptr; }

 private:
  friend class BlockPool;
  BlockRef(BlockPool* pool, BlockId id) : pool_(pool), id_(id) {}

  BlockPool* pool_ = nullptr;
  BlockId id_ = kNoBlock;
};

// Blocks 0 .. num_blocks - 1. A free block may keep content worth reusing ("cached"); such blocks
// are handed out last, the one given back longest ago first.
class BlockPool {
 public:
  explicit BlockPool(int32_t num_blocks);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  // CHECKs that every share came back.
  ~BlockPool();

  // A block that nobody holds; empty if there is none. If it was cached it still is: the caller
  // forgets its content and says so.
  BlockRef allocate();
  // A share of any block; takes a free one out of the free list.
  BlockRef share(BlockId id);
  // Marks whether the content can be reused. A free block changes its place in the free list.
  void set_cached(BlockId id, bool cached);

  int32_t num_blocks() const { return static_cast<int32_t>(num_blocks_); }
  int32_t num_free() const { return num_free_; }
  int32_t num_free_cached() const { return num_free_cached_; }
  int32_t share_count(BlockId id) const { return node(id).shares; }
  bool is_cached(BlockId id) const { return node(id).cached; }

 private:
  friend class BlockRef;
  struct Node {
    int32_t shares = 0;
    bool cached = false;
    BlockId previous = kNoBlock;  // neighbours in the ring of free blocks
    BlockId next = kNoBlock;
  };

  void release(BlockId id);
  void link_before(BlockId next, BlockId id);
  void unlink(BlockId id);
  void insert_free(BlockId id);
  Node& node(BlockId id);
  const Node& node(BlockId id) const;

  size_t num_blocks_;
  int32_t num_free_ = 0;
  int32_t num_free_cached_ = 0;
  std::vector<Node> nodes_;  // [num_blocks + 1]; the last is the head of the ring
};

}  // namespace zonda::kvcache
