// Turns the ids of a running generation into text, piece by piece.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "text/token_decoder.h"
#include "text/tokenizer.h"

namespace zonda::text {

// The deltas of all calls, joined, equal Tokenizer::decode of the same ids, however they are
// grouped. Every delta is valid UTF-8: only an unfinished character is held back (at most three
// bytes), and what the tokenizer's decoder strips from the end of a text.
// One text, one thread at a time.
class StreamDetokenizer {
 public:
  // The tokenizer outlives this.
  StreamDetokenizer(const Tokenizer& tokenizer, bool skip_special_tokens);

  // The text that is certain after one more token; often empty. An id that no token has reads as
  // U+FFFD.
  std::string push(int32_t id);
  // What was held back, at the end of the text; an unfinished character becomes U+FFFD. The next
  // push() begins a new text.
  std::string flush();

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_tokens_;
  TokenDecoder::State state_;
  std::string pending_;  // start of an unfinished character
};

}  // namespace zonda::text
