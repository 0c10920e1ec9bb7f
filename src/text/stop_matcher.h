// Finds stop strings in text that arrives in pieces.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zonda::text {

// Matches on text, not on tokens, so that a stop string may begin and end anywhere. The text ends
// with the first stop string that is complete; of several that end there, the longest counts.
// The result does not depend on how the text is cut. One text, one thread at a time.
class StopMatcher {
 public:
  // `stops` are valid UTF-8; empty ones are ignored. `include_stop`: the stop string itself is
  // part of the output.
  StopMatcher(std::vector<std::string> stops, bool include_stop);

  // Returns the text that can be given out: all but the longest tail that may yet become a stop
  // string. After a stop string nothing more comes out. `delta` is valid UTF-8, as
  // StreamDetokenizer gives it, and then so is the result.
  std::string push(std::string_view delta);
  // What was held back; call it once when the text ends for any reason.
  std::string flush();

  bool stopped() const { return matched_.has_value(); }
  // The stop string that was met: an index into `stops`.
  std::optional<size_t> matched() const { return matched_; }

 private:
  // Aho-Corasick automaton.
  struct Node {
    std::vector<std::pair<char, uint32_t>> edges;
    uint32_t fallback = 0;  // node of the longest proper suffix that is in the trie
    uint32_t depth = 0;     // bytes from the root
    int32_t stop = -1;      // longest stop string that ends here: an index into stops_
  };
  uint32_t child(uint32_t node, char byte) const;  // 0: none
  uint32_t step(uint32_t node, char byte) const;
  void insert(int32_t stop);
  void link();

  std::vector<std::string> stops_;
  std::vector<Node> nodes_{1};
  bool include_stop_;
  uint32_t node_ = 0;
  std::string held_;  // the last nodes_[node_].depth bytes of the text
  std::optional<size_t> matched_;
};

}  // namespace zonda::text
