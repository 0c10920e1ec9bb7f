// Finds stop strings in text that arrives in pieces.
// SPDX-License-Identifier: Apache-2.0
#include "text/stop_matcher.h"

namespace zonda::text {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_stop)
    : stops_(std::move(stops)), include_stop_(include_stop) {
  for (size_t i = 0; i < stops_.size(); ++i) {
    insert(static_cast<int32_t>(i));
  }
  link();
}

uint32_t StopMatcher::child(uint32_t node, char byte) const {
  for (const auto& [label, next] : nodes_[node].edges) {
    if (label == byte) {
      return next;
    }
  }
  return 0;
}

uint32_t StopMatcher::step(uint32_t node, char byte) const {
  for (;; node = nodes_[node].fallback) {
    const uint32_t next = child(node, byte);
    if (next != 0 || node == 0) {
      return next;
    }
  }
}

void StopMatcher::insert(int32_t stop) {
  uint32_t node = 0;
  for (const char byte : stops_[static_cast<size_t>(stop)]) {
    uint32_t next = child(node, byte);
    if (next == 0) {
      next = static_cast<uint32_t>(nodes_.size());
      nodes_[node].edges.emplace_back(byte, next);
      const uint32_t depth = nodes_[node].depth + 1;
      nodes_.emplace_back().depth = depth;
    }
    node = next;
  }
  if (node != 0 && nodes_[node].stop < 0) {
    nodes_[node].stop = stop;
  }
}

void StopMatcher::link() {
  std::vector<uint32_t> queue{0};  // breadth first
  for (size_t i = 0; i < queue.size(); ++i) {
    const uint32_t node = queue[i];
    for (const auto& [byte, next] : nodes_[node].edges) {
      if (node != 0) {
        nodes_[next].fallback = step(nodes_[node].fallback, byte);
      }
      if (nodes_[next].stop < 0) {
        nodes_[next].stop = nodes_[nodes_[next].fallback].stop;
      }
      queue.push_back(next);
    }
  }
}

std::string StopMatcher::push(std::string_view delta) {
  if (stopped()) {
    return {};
  }
  held_.reserve(held_.size() + delta.size());
  for (const char byte : delta) {
    held_.push_back(byte);
    node_ = step(node_, byte);
    if (nodes_[node_].stop >= 0) {
      matched_ = static_cast<size_t>(nodes_[node_].stop);
      if (!include_stop_) {
        held_.resize(held_.size() - stops_[*matched_].size());
      }
      return std::exchange(held_, {});
    }
  }
  const size_t certain = held_.size() - nodes_[node_].depth;
  std::string text = held_.substr(0, certain);
  held_.erase(0, certain);
  return text;
}

std::string StopMatcher::flush() {
  node_ = 0;
  return std::exchange(held_, {});
}

}  // namespace zonda::text
