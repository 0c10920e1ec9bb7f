// Decoders of tokenizer.json: from ids back to bytes, one token at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/added_tokens.h"
#include "text/pattern.h"
#include "text/token_table.h"

namespace zonda::text {

// Immutable. What a token adds depends only on whether it is the first one; the start and the end
// of the whole text may be stripped. So decoding needs no look-ahead, and a stream of tokens gives
// the same bytes however it is cut.
class TokenDecoder {
 public:
  // Progress in one text.
  struct State {
    bool first = true;
    bool at_start = true;  // only stripped characters so far
    size_t stripped_left = 0;
    std::string held;  // bytes that may yet be stripped: bounded by the strip lengths
  };

  // JSON null: tokens are joined by spaces. Fault as parse_pre_tokenizers.
  static TokenDecoder parse(const Json& json, const TokenTable& vocabulary,
                            const AddedTokens& added);

  // Appends the bytes that the token adds; an id that no token has adds U+FFFD.
  void feed(State& state, int32_t id, std::string& out) const;
  // Appends what was held back, at the end of the text.
  void finish(State& state, std::string& out) const;

  // The bytes of a token that is not the first one; empty if no token has the id.
  std::string_view token_bytes(int32_t id) const;

 private:
  // A step that works on each token by itself.
  struct Step {
    enum class Kind : uint8_t { kReplace, kByteFallback, kByteLevel, kMetaspace, kStrip };
    Kind kind;
    Pattern pattern{};   // kReplace
    std::string text{};  // kReplace: the content; kMetaspace, kStrip: one character
    size_t start = 0;    // kStrip
    size_t stop = 0;
    bool drop_first = false;  // kMetaspace: the first token loses the character
  };
  using Outputs = std::vector<std::optional<std::string>>;  // by id; nullopt: no such token

  void read_component(const Json& json);
  std::string run_steps(std::string token, bool in_vocabulary, bool first) const;
  void strip_left(State& state) const;

  std::vector<Step> steps_;
  bool fused_ = false;  // later steps see the whole text
  bool join_with_space_ = false;
  bool first_differs_ = false;  // a Metaspace step treats the first token in its own way
  std::string strip_;           // character stripped from the whole text; empty: none
  size_t strip_left_ = 0;
  size_t strip_right_ = 0;
  Outputs outputs_;
  Outputs first_outputs_;  // if first_differs_
};

}  // namespace zonda::text
