// Byte-pair merges: a scan for short sequences, a heap over a linked list for long ones.
// SPDX-License-Identifier: Apache-2.0
#include "text/bpe_merges.h"

#include <algorithm>
#include <bit>
#include <queue>

namespace zonda::text {
namespace {

constexpr size_t kShort = 48;  // longest sequence for which the quadratic scan is faster

uint64_t pair_key(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}
uint64_t slot_of(uint64_t pair) {
  const uint64_t hash = pair * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 32;
}
int32_t merged_of(uint64_t value) { return static_cast<int32_t>(value & 0xffffffffu); }

}  // namespace

BpeMerges::BpeMerges(size_t count)
    : rules_(std::bit_ceil(count * 2 + 2)), mask_(rules_.size() - 1) {}

void BpeMerges::add(int32_t left, int32_t right, uint32_t rank, int32_t merged) {
  const uint64_t pair = pair_key(left, right);
  uint64_t at = slot_of(pair) & mask_;
  while (rules_[at].pair != kNone && rules_[at].pair != pair) {
    at = (at + 1) & mask_;
  }
  rules_[at] = {pair, uint64_t{rank} << 32 | static_cast<uint32_t>(merged)};
}

uint64_t BpeMerges::find(int32_t left, int32_t right) const {
  const uint64_t pair = pair_key(left, right);
  for (uint64_t at = slot_of(pair) & mask_;; at = (at + 1) & mask_) {
    if (rules_[at].pair == pair) {
      return rules_[at].value;
    }
    if (rules_[at].pair == kNone) {
      return kNone;
    }
  }
}

void BpeMerges::apply(std::vector<int32_t>& symbols, std::vector<uint32_t>* sizes) const {
  if (sizes != nullptr) {
    sizes->assign(symbols.size(), 1);
  }
  if (symbols.size() <= kShort) {
    apply_short(symbols, sizes);
  } else {
    apply_long(symbols, sizes);
  }
}

void BpeMerges::apply_short(std::vector<int32_t>& symbols, std::vector<uint32_t>* sizes) const {
  uint64_t values[kShort];  // of the pair that begins at each symbol
  size_t count = symbols.size();
  for (size_t i = 0; i + 1 < count; ++i) {
    values[i] = find(symbols[i], symbols[i + 1]);
  }
  while (count > 1) {
    const uint64_t* best = std::min_element(values, values + count - 1);
    if (*best == kNone) {
      break;
    }
    const auto at = static_cast<size_t>(best - values);
    symbols[at] = merged_of(*best);
    std::copy(symbols.begin() + static_cast<ptrdiff_t>(at) + 2,
              symbols.begin() + static_cast<ptrdiff_t>(count),
              symbols.begin() + static_cast<ptrdiff_t>(at) + 1);
    std::copy(values + at + 1, values + count - 1, values + at);
    if (sizes != nullptr) {
      (*sizes)[at] += (*sizes)[at + 1];
      sizes->erase(sizes->begin() + static_cast<ptrdiff_t>(at) + 1);
    }
    --count;
    if (at > 0) {
      values[at - 1] = find(symbols[at - 1], symbols[at]);
    }
    if (at + 1 < count) {
      values[at] = find(symbols[at], symbols[at + 1]);
    }
  }
  symbols.resize(count);
}

void BpeMerges::apply_long(std::vector<int32_t>& symbols, std::vector<uint32_t>* sizes) const {
  constexpr uint32_t kEnd = UINT32_MAX;
  constexpr int32_t kGone = -1;
  struct Node {
    int32_t symbol;
    uint32_t previous;
    uint32_t next;
  };
  struct Candidate {
    uint64_t value;  // of the rule
    uint32_t at;     // the pair's left node
    bool operator>(const Candidate& other) const {
      return value != other.value ? value > other.value : at > other.at;
    }
  };
  const auto count = static_cast<uint32_t>(symbols.size());
  std::vector<Node> nodes(count);
  std::vector<Candidate> initial;
  initial.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    nodes[i] = {symbols[i], i == 0 ? kEnd : i - 1, i + 1 == count ? kEnd : i + 1};
    const uint64_t value = i + 1 == count ? kNone : find(symbols[i], symbols[i + 1]);
    if (value != kNone) {
      initial.push_back({value, i});
    }
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue(std::greater<>{},
                                                                               std::move(initial));
  const auto offer = [&](uint32_t left, uint32_t right) {
    if (left != kEnd && right != kEnd) {
      const uint64_t value = find(nodes[left].symbol, nodes[right].symbol);
      if (value != kNone) {
        queue.push({value, left});
      }
    }
  };
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Node& left = nodes[best.at];
    // A candidate is stale when one of its symbols has been merged since.
    if (left.symbol == kGone || left.next == kEnd ||
        find(left.symbol, nodes[left.next].symbol) != best.value) {
      continue;
    }
    Node& right = nodes[left.next];
    left.symbol = merged_of(best.value);
    left.next = right.next;
    right.symbol = kGone;
    if (left.next != kEnd) {
      nodes[left.next].previous = best.at;
    }
    offer(left.previous, best.at);
    offer(best.at, left.next);
  }
  symbols.clear();
  if (sizes != nullptr) {
    sizes->clear();
  }
  for (uint32_t i = 0; i != kEnd; i = nodes[i].next) {
    symbols.push_back(nodes[i].symbol);
    if (sizes != nullptr) {
      sizes->push_back((nodes[i].next == kEnd ? count : nodes[i].next) - i);
    }
  }
}

}  // namespace zonda::text
