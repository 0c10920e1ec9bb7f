// SPDX-License-Identifier: Apache-2.0
#include "text/bpe_merges.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace zonda::text {
namespace {

using Symbols = std::vector<int32_t>;
struct Rule {
  uint32_t rank;
  int32_t merged;
};
using Rules = std::map<std::pair<int32_t, int32_t>, Rule>;

// The definition: merge the leftmost pair of the lowest rank until no pair has a rule.
Symbols merge_slowly(const Rules& rules, Symbols symbols) {
  for (;;) {
    const Rule* best = nullptr;
    size_t at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto rule = rules.find({symbols[i], symbols[i + 1]});
      if (rule != rules.end() && (best == nullptr || rule->second.rank < best->rank)) {
        best = &rule->second;
        at = i;
      }
    }
    if (best == nullptr) {
      return symbols;
    }
    symbols[at] = best->merged;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

TEST(BpeMerges, EqualTheDefinitionForShortAndLongSequences) {
  std::mt19937 random(4);
  for (int round = 0; round < 400; ++round) {
    Rules rules;
    const size_t count = 1 + random() % 30;
    BpeMerges merges(count);
    for (uint32_t rank = 0; rank < count; ++rank) {
      const auto symbol = [&] { return static_cast<int32_t>(random() % (3 + rank)); };
      const int32_t left = symbol();
      const int32_t right = symbol();
      const auto merged = static_cast<int32_t>(3 + rank);
      rules[{left, right}] = {rank, merged};
      merges.add(left, right, rank, merged);
    }
    Symbols symbols(random() % (round % 2 == 0 ? 20 : 300));
    for (int32_t& symbol : symbols) {
      symbol = static_cast<int32_t>(random() % 3);
    }
    Symbols merged = symbols;
    std::vector<uint32_t> sizes;
    merges.apply(merged, &sizes);
    EXPECT_EQ(merged, merge_slowly(rules, symbols));
    ASSERT_EQ(sizes.size(), merged.size());
    uint32_t total = 0;
    for (const uint32_t size : sizes) {
      total += size;
    }
    EXPECT_EQ(total, symbols.size());
  }
}

}  // namespace
}  // namespace zonda::text
