// The merge rules of a byte-pair encoding, and their application to one sequence of symbols.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace zonda::text {

class BpeMerges {
 public:
  // The pair (left, right) becomes `merged`; a lower rank goes first. A later rule for the same
  // pair replaces an earlier one. At most `count` rules are added.
  explicit BpeMerges(size_t count);
  void add(int32_t left, int32_t right, uint32_t rank, int32_t merged);

  // Applies the rules until none fits: always the lowest rank, the leftmost of equals.
  // O(n log n). `sizes`, if not null, receives how many of the given symbols each result holds.
  void apply(std::vector<int32_t>& symbols, std::vector<uint32_t>* sizes) const;

 private:
  static constexpr uint64_t kNone = UINT64_MAX;
  struct Rule {
    uint64_t pair = kNone;  // left << 32 | right
    uint64_t value = 0;     // rank << 32 | merged: comparing values compares ranks
  };

  // rank << 32 | merged; kNone if no rule fits.
  uint64_t find(int32_t left, int32_t right) const;
  void apply_short(std::vector<int32_t>& symbols, std::vector<uint32_t>* sizes) const;
  void apply_long(std::vector<int32_t>& symbols, std::vector<uint32_t>* sizes) const;

  std::vector<Rule> rules_;  // open addressing, at most half full
  uint64_t mask_;
};

}  // namespace zonda::text
