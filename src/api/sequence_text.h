// The text of one running sequence: detokenized, cut at a stop string.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/stop_matcher.h"
#include "text/stream_detokenizer.h"

namespace zonda::api {

// One sequence, one thread at a time. Without a tokenizer all texts are empty.
class SequenceText {
 public:
  // The tokenizer, if any, outlives this. `min_tokens`: stop strings that are complete before that
  // many tokens have no effect.
  SequenceText(const text::Tokenizer* tokenizer, bool skip_special_tokens,
               const std::vector<std::string>& stops, bool include_stop, int32_t min_tokens);

  // The text that is certain after one more token.
  std::string push(int32_t id);
  // The rest; call it once at the end.
  std::string finish();
  // The stop string that ended the text; nothing comes out after it.
  const std::optional<std::string>& stop() const { return stop_; }

 private:
  std::string match(const std::string& text);

  std::optional<text::StreamDetokenizer> detokenizer_;
  std::optional<text::StopMatcher> matcher_;
  std::vector<std::string> stops_;
  std::optional<std::string> stop_;
  int32_t tokens_left_before_stops_;
};

}  // namespace zonda::api
