// Laws of BlockPool and BlockTable: counting, order of reuse, nothing lost.
// SPDX-License-Identifier: Apache-2.0
#include "kvcache/block_pool.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <vector>

#include "kvcache/block_table.h"
#include "test_support/round_seed.h"

namespace zonda::kvcache {
namespace {

TEST(BlockPool, HandsOutEachBlockOnceAndThenNone) {
  BlockPool pool(3);
  std::vector<BlockRef> refs;
  std::vector<bool> seen(3, false);
  for (int i = 0; i < 3; ++i) {
    refs.push_back(pool.allocate());
    ASSERT_TRUE(static_cast<bool>(refs.back()));
    EXPECT_FALSE(seen[static_cast<size_t>(refs.back().id())]);
    seen[static_cast<size_t>(refs.back().id())] = true;
  }
  EXPECT_FALSE(static_cast<bool>(pool.allocate()));
  EXPECT_EQ(pool.num_free(), 0);
  refs.clear();
  EXPECT_EQ(pool.num_free(), 3);
}

TEST(BlockPool, FreesABlockWithItsLastShareOnly) {
  BlockPool pool(1);
  BlockRef first = pool.allocate();
  BlockRef second = first.share();
  EXPECT_EQ(pool.share_count(0), 2);
  first.reset();
  EXPECT_EQ(pool.num_free(), 0);
  second = BlockRef();
  EXPECT_EQ(pool.num_free(), 1);
}

TEST(BlockPool, MovingAShareDoesNotCount) {
  BlockPool pool(2);
  BlockRef first = pool.allocate();
  BlockRef moved = std::move(first);
  EXPECT_EQ(moved.id(), 0);
  EXPECT_EQ(pool.share_count(0), 1);
  moved = pool.allocate();
  EXPECT_EQ(pool.share_count(0), 0);
  EXPECT_EQ(pool.share_count(1), 1);
}

TEST(BlockPool, CachedBlocksGiveWayLastAndOldestFirst) {
  BlockPool pool(4);
  std::vector<BlockRef> refs;
  for (int i = 0; i < 4; ++i) {
    refs.push_back(pool.allocate());
  }
  for (const BlockId id : {0, 1, 2}) {
    pool.set_cached(id, true);
  }
  for (const size_t at : {1u, 3u, 0u, 2u}) {
    refs[at].reset();
  }
  EXPECT_EQ(pool.num_free_cached(), 3);
  for (const BlockId expected : {3, 1, 0, 2}) {
    refs.push_back(pool.allocate());
    EXPECT_EQ(refs.back().id(), expected);
  }
}

TEST(BlockPool, RevivedBlocksLeaveTheFreeList) {
  BlockPool pool(2);
  BlockRef ref = pool.allocate();
  pool.set_cached(ref.id(), true);
  ref.reset();
  ref = pool.share(0);
  EXPECT_EQ(pool.num_free_cached(), 0);
  BlockRef other = pool.allocate();
  EXPECT_EQ(other.id(), 1);
  EXPECT_FALSE(static_cast<bool>(pool.allocate()));
}

TEST(BlockPoolDeathTest, DestructionWithAShareOutIsAFault) {
  EXPECT_DEATH(
      {
        std::optional<BlockPool> pool(1);
        BlockRef ref = pool->allocate();
        pool.reset();
      },
      "num_free_");
}

TEST(BlockPoolDeathTest, AForeignIdIsAFault) {
  BlockPool pool(2);
  EXPECT_DEATH((void)pool.share(2), "num_blocks_");
  EXPECT_DEATH((void)pool.share(-1), "id >= 0");
}

TEST(BlockTable, GivesBackTheLastBlockFirst) {
  BlockPool pool(3);
  BlockTable table;
  for (int i = 0; i < 3; ++i) {
    table.append(pool.allocate());
    pool.set_cached(i, true);
  }
  table.clear();
  EXPECT_EQ(pool.allocate().id(), 2);
}

TEST(BlockTable, AssignmentGivesBackWhatItHeld) {
  BlockPool pool(2);
  BlockTable table;
  table.append(pool.allocate());
  BlockTable other;
  other.append(pool.allocate());
  table = std::move(other);
  EXPECT_EQ(table.id(0), 1);
  EXPECT_EQ(pool.num_free(), 1);
}

// Oracle: counters beside the pool.
TEST(BlockPool, RandomUseAgreesWithPlainCounters) {
  constexpr int32_t kBlocks = 13;
  BlockPool pool(kBlocks);
  std::vector<int> shares(kBlocks, 0);
  std::vector<bool> cached(kBlocks, false);
  std::vector<BlockRef> refs;
  std::mt19937 random(test::round_seed(7));
  for (int step = 0; step < 100000; ++step) {
    const auto pick = random() % 4;
    if (pick == 0) {
      BlockRef ref = pool.allocate();
      if (ref) {
        ASSERT_EQ(shares[static_cast<size_t>(ref.id())]++, 0);
        refs.push_back(std::move(ref));
      }
    } else if (pick == 1) {
      const auto id = static_cast<BlockId>(random() % kBlocks);
      refs.push_back(pool.share(id));
      ++shares[static_cast<size_t>(id)];
    } else if (pick == 2) {
      const auto id = random() % kBlocks;
      cached[id] = random() % 2 == 0;
      pool.set_cached(static_cast<BlockId>(id), cached[id]);
    }
    while (!refs.empty() && (pick == 3 || refs.size() > 30)) {
      const size_t at = random() % refs.size();
      --shares[static_cast<size_t>(refs[at].id())];
      std::swap(refs[at], refs.back());
      refs.pop_back();
      if (random() % 3 == 0) {
        break;
      }
    }
    int32_t free = 0;
    int32_t free_cached = 0;
    for (size_t id = 0; id < kBlocks; ++id) {
      ASSERT_EQ(pool.share_count(static_cast<BlockId>(id)), shares[id]);
      free += shares[id] == 0 ? 1 : 0;
      free_cached += shares[id] == 0 && cached[id] ? 1 : 0;
    }
    ASSERT_EQ(pool.num_free(), free);
    ASSERT_EQ(pool.num_free_cached(), free_cached);
  }
}

}  // namespace
}  // namespace zonda::kvcache
