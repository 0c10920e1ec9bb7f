// Laws of PrefixIndex: a block is found by exactly its own past.
// SPDX-License-Identifier: Apache-2.0
#include "kvcache/prefix_index.h"

#include <gtest/gtest.h>

#include <vector>

namespace zonda::kvcache {
namespace {

const std::vector<int32_t> kTokens = {1, 2, 3, 4};

TEST(PrefixIndex, FindsABlockByParentAndTokens) {
  PrefixIndex index(4, 4, 0);
  const ContentHash root = index.root({});
  const ContentHash content = index.content(root, kTokens);
  EXPECT_EQ(index.find(root, content, kTokens), kNoBlock);
  EXPECT_TRUE(index.insert(root, content, kTokens, 2));
  EXPECT_EQ(index.find(root, content, kTokens), 2);
  EXPECT_EQ(index.content_of(2), content);
  index.erase(2);
  EXPECT_EQ(index.find(root, content, kTokens), kNoBlock);
  EXPECT_EQ(index.size(), 0u);
}

TEST(PrefixIndex, ContentDependsOnSaltParentTokensAndSeed) {
  const PrefixIndex index(1, 4, 0);
  const PrefixIndex seeded(1, 4, 1);
  const ContentHash root = index.root({});
  const ContentHash base = index.content(root, kTokens);
  EXPECT_NE(index.content(index.root({0, 1}), kTokens), base);
  EXPECT_NE(index.content(base, kTokens), base);
  EXPECT_NE(index.content(root, std::vector<int32_t>{1, 2, 4, 3}), base);
  EXPECT_NE(seeded.content(seeded.root({}), kTokens), base);
  EXPECT_EQ(index.content(index.root({}), kTokens), base);
}

TEST(PrefixIndex, ACollisionOfHashesIsNotAHit) {
  PrefixIndex index(1, 4, 0);
  const ContentHash root = index.root({});
  const ContentHash content = index.content(root, kTokens);
  ASSERT_TRUE(index.insert(root, content, kTokens, 0));
  EXPECT_EQ(index.find(root, content, std::vector<int32_t>{9, 9, 9, 9}), kNoBlock);
  EXPECT_EQ(index.find(content, content, kTokens), kNoBlock);
}

TEST(PrefixIndex, TheFirstBlockOfAContentStays) {
  PrefixIndex index(2, 4, 0);
  const ContentHash root = index.root({});
  const ContentHash content = index.content(root, kTokens);
  EXPECT_TRUE(index.insert(root, content, kTokens, 0));
  EXPECT_FALSE(index.insert(root, content, kTokens, 1));
  index.erase(1);
  EXPECT_EQ(index.find(root, content, kTokens), 0);
}

}  // namespace
}  // namespace zonda::kvcache
