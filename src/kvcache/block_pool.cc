// BlockPool keeps its free blocks in one ring: not cached ones in front, then cached ones by age.
// SPDX-License-Identifier: Apache-2.0
#include "kvcache/block_pool.h"

#include <utility>

#include "base/error.h"

namespace zonda::kvcache {

BlockRef::BlockRef(BlockRef&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), id_(std::exchange(other.id_, kNoBlock)) {}

BlockRef& BlockRef::operator=(BlockRef&& other) noexcept {
  if (this != &other) {
    reset();
    pool_ = std::exchange(other.pool_, nullptr);
    id_ = std::exchange(other.id_, kNoBlock);
  }
  return *this;
}

BlockRef BlockRef::share() const {
  CHECK(pool_ != nullptr);
  return pool_->share(id_);
}

void BlockRef::reset() {
  if (pool_ != nullptr) {
    pool_->release(id_);
    pool_ = nullptr;
    id_ = kNoBlock;
  }
}

BlockPool::BlockPool(int32_t num_blocks) {
  CHECK(num_blocks >= 0);
  num_blocks_ = static_cast<size_t>(num_blocks);
  nodes_.resize(num_blocks_ + 1);
  const BlockId head = num_blocks;
  nodes_[num_blocks_].previous = head;
  nodes_[num_blocks_].next = head;
  for (BlockId id = 0; id < num_blocks; ++id) {
    link_before(head, id);
  }
  num_free_ = num_blocks;
}

BlockPool::~BlockPool() { CHECK(num_free_ == num_blocks()); }

BlockRef BlockPool::allocate() {
  if (num_free_ == 0) {
    return {};
  }
  return share(nodes_[num_blocks_].next);
}

BlockRef BlockPool::share(BlockId id) {
  Node& block = node(id);
  if (block.shares++ == 0) {
    unlink(id);
    --num_free_;
    num_free_cached_ -= block.cached ? 1 : 0;
  }
  return BlockRef(this, id);
}

void BlockPool::set_cached(BlockId id, bool cached) {
  Node& block = node(id);
  if (block.cached == cached) {
    return;
  }
  block.cached = cached;
  if (block.shares == 0) {
    num_free_cached_ += cached ? 1 : -1;
    unlink(id);
    insert_free(id);
  }
}

void BlockPool::release(BlockId id) {
  Node& block = node(id);
  CHECK(block.shares > 0);
  if (--block.shares == 0) {
    ++num_free_;
    num_free_cached_ += block.cached ? 1 : 0;
    insert_free(id);
  }
}

void BlockPool::insert_free(BlockId id) {
  const BlockId head = num_blocks();
  link_before(node(id).cached ? head : nodes_[num_blocks_].next, id);
}

void BlockPool::link_before(BlockId next, BlockId id) {
  Node& after = nodes_[static_cast<size_t>(next)];
  Node& block = nodes_[static_cast<size_t>(id)];
  block.previous = after.previous;
  block.next = next;
  nodes_[static_cast<size_t>(after.previous)].next = id;
  after.previous = id;
}

void BlockPool::unlink(BlockId id) {
  Node& block = nodes_[static_cast<size_t>(id)];
  nodes_[static_cast<size_t>(block.previous)].next = block.next;
  nodes_[static_cast<size_t>(block.next)].previous = block.previous;
}

BlockPool::Node& BlockPool::node(BlockId id) {
  CHECK(id >= 0 && static_cast<size_t>(id) < num_blocks_);
  return nodes_[static_cast<size_t>(id)];
}

const BlockPool::Node& BlockPool::node(BlockId id) const {
  CHECK(id >= 0 && static_cast<size_t>(id) < num_blocks_);
  return nodes_[static_cast<size_t>(id)];
}

}  // namespace zonda::kvcache
