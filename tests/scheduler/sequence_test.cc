// Laws of a sequence's states: legal transitions move the blocks, illegal ones abort with both
// names. SPDX-License-Identifier: Apache-2.0
#include "scheduler/sequence.h"

#include <gtest/gtest.h>

namespace zonda::scheduler {
namespace {

constexpr kvcache::KvCacheConfig kCache = {.num_blocks = 4, .tokens_per_block = 4};

kvcache::KvSequence blocks(kvcache::KvCacheManager& kv_cache, const Sequence& sequence) {
  return *kv_cache.admit(sequence.tokens(), {}, 0, sequence.num_tokens());
}

TEST(Sequence, PausingAndFinishingGiveBlocksBack) {
  kvcache::KvCacheManager kv_cache(kCache);
  Sequence sequence({1, 2, 3, 4, 5});
  sequence.admit(blocks(kv_cache, sequence));
  EXPECT_EQ(kv_cache.num_free(), 2);
  sequence.pause();
  EXPECT_EQ(kv_cache.num_free(), 4);
  sequence.admit(blocks(kv_cache, sequence));
  sequence.decode();
  EXPECT_EQ(kv_cache.num_free(), 2);
  sequence.finish();
  EXPECT_EQ(kv_cache.num_free(), 4);
  EXPECT_TRUE(sequence.is<Finished>());
}

TEST(Sequence, AForkSharesBlocksAndTokens) {
  kvcache::KvCacheManager kv_cache(kCache);
  Sequence sequence({1, 2, 3, 4, 5});
  sequence.admit(blocks(kv_cache, sequence));
  kv_cache.commit(sequence.kv(), sequence.tokens(), 5);
  sequence.decode();
  const Sequence copy = sequence.fork(kv_cache);
  EXPECT_EQ(kv_cache.num_free(), 2);
  sequence.finish();
  EXPECT_EQ(kv_cache.num_free(), 2);
  EXPECT_TRUE(copy.is<Decoding>());
  EXPECT_EQ(copy.num_tokens(), 5);
}

TEST(SequenceDeathTest, IllegalTransitionsNameStateAndEvent) {
  kvcache::KvCacheManager kv_cache(kCache);
  Sequence waiting({1});
  EXPECT_DEATH(waiting.decode(), "waiting sequence cannot take the event 'decode'");
  EXPECT_DEATH(waiting.pause(), "waiting sequence cannot take the event 'pause'");
  EXPECT_DEATH((void)waiting.kv(), "decoding != nullptr");
  Sequence running({1});
  running.admit(blocks(kv_cache, running));
  EXPECT_DEATH(running.admit({}), "prefilling sequence cannot take the event 'admit'");
  running.decode();
  EXPECT_DEATH(running.decode(), "decoding sequence cannot take the event 'decode'");
  running.finish();
  EXPECT_DEATH(running.finish(), "finished sequence cannot take the event 'finish'");
  EXPECT_DEATH(running.admit({}), "finished sequence cannot take the event 'admit'");
}

}  // namespace
}  // namespace zonda::scheduler
