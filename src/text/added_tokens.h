// Tokens that are cut out of a text before the model sees it: control tokens and user-defined ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "text/aligned_text.h"
#include "text/normalizer.h"
#include "text/token_table.h"

namespace zonda::text {

struct AddedToken {
  int32_t id = -1;
  std::string content;
  bool single_word = false;  // only between characters that are no word characters
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and after it
  bool normalized = false;   // is looked for in the normalized text
  bool special = false;
};

// A part of a text: an added token, or what lies between two.
struct AddedSection {
  ByteRange range;
  const AddedToken* token = nullptr;  // null: plain text
};

class AddedTokens {
 public:
  // Whether a special token may be recognised at this range of the searched text.
  using AllowSpecial = std::function<bool(ByteRange)>;

  // `json`: the array of tokenizer.json, or null. A token that is in the vocabulary keeps the id it
  // has there. Fault: kCorrupt for an id that another token has.
  static AddedTokens parse(const Json& json, const TokenTable& vocabulary,
                           const Normalizer* normalizer);

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  const AddedToken* find(int32_t id) const;
  const AddedToken* find(std::string_view content) const;
  // Special tokens that are only recognised in normalized text.
  bool has_normalized_special() const { return has_normalized_special_; }

  // Covers the text with sections: leftmost tokens first, the longest of those that begin at one
  // place. `normalized`: which of the two groups of tokens to look for.
  std::vector<AddedSection> split(std::string_view text, bool normalized,
                                  const AllowSpecial& allow_special) const;

 private:
  // A trie over bytes.
  struct Node {
    int32_t token = -1;  // index into tokens_
    std::vector<std::pair<char, uint32_t>> edges;
  };
  struct Trie {
    std::vector<Node> nodes{1};
    bool starts[256] = {};
    void insert(std::string_view key, int32_t token);
  };

  // The longest allowed token at text[pos], null if none; `end` is set behind it.
  const AddedToken* longest_at(const Trie& trie, std::string_view text, size_t pos,
                               const AllowSpecial& allow_special, size_t& end) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<int32_t, size_t> by_id_;
  std::unordered_map<std::string, size_t> by_content_;
  Trie plain_;
  Trie normalized_;
  bool has_normalized_special_ = false;
};

}  // namespace zonda::text
