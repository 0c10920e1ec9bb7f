// Laws of KvCacheManager: reuse, copy-on-write, admission all or nothing, leaf-first eviction.
// SPDX-License-Identifier: Apache-2.0
#include "kvcache/kv_cache_manager.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace zonda::kvcache {
namespace {

std::vector<int32_t> tokens(int32_t count, int32_t first = 100) {
  std::vector<int32_t> result(static_cast<size_t>(count));
  std::iota(result.begin(), result.end(), first);
  return result;
}

// Admits a prompt of all `prompt` tokens, computes it and returns the sequence.
KvSequence run_prompt(KvCacheManager& manager, const std::vector<int32_t>& prompt,
                      const Hash128& salt = {}) {
  const auto size = static_cast<int32_t>(prompt.size());
  auto sequence = manager.admit(prompt, salt, size - 1, size);
  EXPECT_TRUE(sequence.has_value());
  manager.commit(*sequence, prompt, size);
  return std::move(*sequence);
}

TEST(KvCacheManager, AtLeastOnePromptTokenIsComputed) {
  KvCacheManager manager({.num_blocks = 8, .tokens_per_block = 4});
  const auto prompt = tokens(8);
  { const KvSequence first = run_prompt(manager, prompt); }
  const auto second = manager.admit(prompt, {}, 7, 8);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->num_reused(), 4);
  EXPECT_EQ(second->num_computed(), 4);
  EXPECT_EQ(second->num_blocks(), 2);
}

TEST(KvCacheManager, AFreedPrefixIsReusedByALongerPrompt) {
  KvCacheManager manager({.num_blocks = 8, .tokens_per_block = 4});
  std::vector<BlockId> ids;
  {
    const KvSequence first = run_prompt(manager, tokens(9));
    ids.assign(first.block_ids().begin(), first.block_ids().end());
  }
  EXPECT_EQ(manager.stats().cached_blocks, 2);
  EXPECT_EQ(manager.stats().used_blocks, 0);
  const auto second = manager.admit(tokens(15), {}, 14, 15);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->num_reused(), 8);
  EXPECT_EQ(second->block_ids()[0], ids[0]);
  EXPECT_EQ(second->block_ids()[1], ids[1]);
  EXPECT_EQ(manager.stats().reused_blocks, 2);
}

TEST(KvCacheManager, ARunningPrefixIsSharedWithoutACopy) {
  KvCacheManager manager({.num_blocks = 8, .tokens_per_block = 4});
  const auto prompt = tokens(9);
  const KvSequence first = run_prompt(manager, prompt);
  const KvSequence second = run_prompt(manager, prompt);
  EXPECT_EQ(first.block_ids()[1], second.block_ids()[1]);
  EXPECT_NE(first.block_ids()[2], second.block_ids()[2]);
  EXPECT_EQ(manager.stats().used_blocks, 4);
}

TEST(KvCacheManager, DifferentSaltsNeverShare) {
  KvCacheManager manager({.num_blocks = 8, .tokens_per_block = 4});
  const auto prompt = tokens(9);
  const KvSequence first = run_prompt(manager, prompt, {0, 1});
  EXPECT_EQ(manager.match(prompt, {0, 2}, 8).num_blocks, 0);
  EXPECT_EQ(manager.match(prompt, {0, 1}, 8).num_blocks, 2);
}

TEST(KvCacheManager, ReuseCanBeSwitchedOff) {
  KvCacheManager manager({.num_blocks = 8, .tokens_per_block = 4, .enable_reuse = false});
  { const KvSequence first = run_prompt(manager, tokens(9)); }
  const KvSequence second = run_prompt(manager, tokens(9));
  EXPECT_EQ(second.num_reused(), 0);
  EXPECT_EQ(manager.index().size(), 0u);
}

TEST(KvCacheManager, AnAdmissionThatDoesNotFitChangesNothing) {
  KvCacheManager manager({.num_blocks = 4, .tokens_per_block = 4});
  { const KvSequence first = run_prompt(manager, tokens(9)); }
  const KvCacheStats before = manager.stats();
  EXPECT_FALSE(manager.admit(tokens(17), {}, 16, 17).has_value());
  EXPECT_EQ(manager.stats().free_blocks, before.free_blocks);
  EXPECT_EQ(manager.stats().cached_blocks, before.cached_blocks);
  EXPECT_EQ(manager.stats().reused_blocks, before.reused_blocks);
}

TEST(KvCacheManager, FreshBlocksNeverEvictTheReusedOnes) {
  KvCacheManager manager({.num_blocks = 4, .tokens_per_block = 4});
  { const KvSequence first = run_prompt(manager, tokens(9)); }
  const auto second = manager.admit(tokens(16), {}, 15, 16);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->num_reused(), 8);
  std::vector<bool> seen(4, false);
  for (const BlockId id : second->block_ids()) {
    EXPECT_FALSE(seen[static_cast<size_t>(id)]);
    seen[static_cast<size_t>(id)] = true;
  }
}

TEST(KvCacheManager, AContinuationIsEvictedBeforeItsBeginning) {
  KvCacheManager manager({.num_blocks = 3, .tokens_per_block = 4});
  { const KvSequence first = run_prompt(manager, tokens(12)); }
  EXPECT_EQ(manager.match(tokens(13), {}, 12).num_blocks, 3);
  const KvSequence other = run_prompt(manager, tokens(3, 500));
  EXPECT_EQ(manager.match(tokens(13), {}, 12).num_blocks, 2);
}

TEST(KvCacheManager, TheFirstWriterOfASharedTailCopiesAndTheLastDoesNot) {
  KvCacheManager manager({.num_blocks = 8, .tokens_per_block = 4});
  KvSequence first = run_prompt(manager, tokens(6));
  KvSequence second = manager.fork(first);
  const BlockId shared = first.block_ids()[1];
  std::vector<BlockCopy> copies;
  EXPECT_EQ(manager.blocks_to_write(first, 7), 1);
  ASSERT_TRUE(manager.prepare_write(first, 7, copies));
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0], (BlockCopy{shared, first.block_ids()[1]}));
  EXPECT_NE(first.block_ids()[1], shared);
  EXPECT_EQ(manager.blocks_to_write(second, 7), 0);
  ASSERT_TRUE(manager.prepare_write(second, 7, copies));
  EXPECT_EQ(copies.size(), 1u);
  EXPECT_EQ(second.block_ids()[1], shared);
  EXPECT_EQ(first.block_ids()[0], second.block_ids()[0]);
}

TEST(KvCacheManager, AForkAtABlockBoundaryNeedsNoCopy) {
  KvCacheManager manager({.num_blocks = 8, .tokens_per_block = 4});
  KvSequence first = run_prompt(manager, tokens(8));
  KvSequence second = manager.fork(first);
  std::vector<BlockCopy> copies;
  ASSERT_TRUE(manager.prepare_write(first, 9, copies));
  ASSERT_TRUE(manager.prepare_write(second, 9, copies));
  EXPECT_TRUE(copies.empty());
  EXPECT_NE(first.block_ids()[2], second.block_ids()[2]);
}

TEST(KvCacheManager, AWriteThatDoesNotFitChangesNothing) {
  KvCacheManager manager({.num_blocks = 2, .tokens_per_block = 4});
  KvSequence first = run_prompt(manager, tokens(6));
  KvSequence second = manager.fork(first);
  std::vector<BlockCopy> copies;
  EXPECT_FALSE(manager.prepare_write(second, 7, copies));
  EXPECT_TRUE(copies.empty());
  EXPECT_EQ(second.block_ids()[1], first.block_ids()[1]);
}

TEST(KvCacheManager, ContentOfGeneratedTokensIsReusable) {
  KvCacheManager manager({.num_blocks = 8, .tokens_per_block = 4});
  auto all = tokens(6);
  {
    KvSequence first = run_prompt(manager, all);
    std::vector<BlockCopy> copies;
    for (int32_t i = 0; i < 3; ++i) {
      all.push_back(900 + i);
      const auto size = static_cast<int32_t>(all.size());
      ASSERT_TRUE(manager.prepare_write(first, size, copies));
      manager.commit(first, all, size);
    }
  }
  EXPECT_EQ(manager.match(all, {}, 8).num_blocks, 2);
}

TEST(KvCacheManager, StatsAddUp) {
  KvCacheManager manager({.num_blocks = 8, .tokens_per_block = 4});
  const KvSequence first = run_prompt(manager, tokens(10));
  { const KvSequence second = run_prompt(manager, tokens(10, 700)); }
  const KvCacheStats stats = manager.stats();
  EXPECT_EQ(stats.num_blocks, 8);
  EXPECT_EQ(stats.used_blocks, 3);
  EXPECT_EQ(stats.free_blocks, 5);
  EXPECT_EQ(stats.cached_blocks, 2);
  EXPECT_EQ(stats.allocated_blocks, 6);
}

}  // namespace
}  // namespace zonda::kvcache
